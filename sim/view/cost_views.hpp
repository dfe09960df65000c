#pragma once

#include "report/report.hpp"
#include "view/page.hpp"

namespace rehearse::inline view {

/// Money without its unit: cents of less than 100, else four digits, for no prediction knows more.
std::string money(double usd);

/// Goodput, start and energy on a terminal, as far as the report has them.
void add_economy(const Report& report, Page& page);

}  // namespace rehearse::inline view
