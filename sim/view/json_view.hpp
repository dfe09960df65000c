#pragma once

#include <nlohmann/json.hpp>

#include "report/report.hpp"

namespace rehearse::inline view {

/// The report with the keys of `rehearse.report/1`: what the JSON prints and what the CSV flattens.
nlohmann::ordered_json json_view(const Report& report);
/// The JSON Schema (draft 2020-12) of `rehearse.report/1`.
nlohmann::ordered_json report_schema();

}  // namespace rehearse::inline view
