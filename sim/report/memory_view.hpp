#pragma once

#include "report/page.hpp"
#include "report/report.hpp"

namespace rehearse::inline report {

/// Above all else: that a run does not fit, or may not. Nothing where it fits, or is not known to.
void add_memory_headline(const Report& report, Page& page);

/// A report's memory on a terminal: whether it fits, what fills it at its peak, and what would take
/// less.
void add_memory(const Report& report, const MemoryReport& memory, Page& page);

}  // namespace rehearse::inline report
