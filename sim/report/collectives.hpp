#pragma once

#include <vector>

#include "report/page.hpp"
#include "report/report.hpp"

namespace rehearse::inline report {

/// Prints the collectives that take longest, a line each.
void add_collectives(const std::vector<CollectiveReport>& collectives, Page& page);

}  // namespace rehearse::inline report
