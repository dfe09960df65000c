#pragma once

#include <vector>

#include "report/json_view.hpp"
#include "report/page.hpp"
#include "report/report.hpp"

namespace rehearse::inline report {

/// A list, with the keys that `rehearse collective --format json` has.
nlohmann::ordered_json json_view(const std::vector<CollectiveReport>& collectives);
/// Prints the collectives that take longest, a line each.
void add_collectives(const std::vector<CollectiveReport>& collectives, Page& page);

}  // namespace rehearse::inline report
