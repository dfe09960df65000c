#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse::inline keys {

/// The kinds of files that have a schema: scenario, study, plan, cluster, cases, compute_profile,
/// comm_profile, curve, report.
const std::vector<std::string>& schema_kinds();

/// The JSON Schema (draft 2020-12) of a kind of file, made of its lines in key_sections(); of a
/// report of its fields. It checks types, ranges, names of choices and of units. `rehearse check`
/// alone checks what concerns several keys, and files that are named. std::out_of_range for an
/// unknown kind.
nlohmann::ordered_json schema_of(std::string_view kind);

}  // namespace rehearse::inline keys
