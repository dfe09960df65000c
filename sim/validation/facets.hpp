#pragma once

#include <nlohmann/json_fwd.hpp>

#include "validation/compare.hpp"

namespace rehearse::inline validation {

/// Facets of a report `rehearse.report/1`; what it does not say is empty.
Facets facets_of(const nlohmann::json& report);

}  // namespace rehearse::inline validation
