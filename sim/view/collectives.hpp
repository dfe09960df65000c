#pragma once

#include <vector>

#include "report/report.hpp"
#include "view/page.hpp"

namespace rehearse::inline view {

/// Prints the collectives that take longest, a line each.
void add_collectives(const std::vector<CollectiveReport>& collectives, Page& page);

}  // namespace rehearse::inline view
