#pragma once

#include "report/report.hpp"
#include "view/page.hpp"

namespace rehearse::inline view {

/// A report's memory on a terminal: whether it fits, what fills it at its peak, and what would take
/// less.
void add_memory(const Report& report, const MemoryReport& memory, Page& page);

}  // namespace rehearse::inline view
