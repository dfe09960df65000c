#pragma once

#include <limits>
#include <vector>

#include "report/report.hpp"
#include "view/page.hpp"

namespace rehearse::inline view {

/// The lines below a report's memory, at most so many changes; it must have looked for changes.
void add_would_fit(const MemoryReport& memory, Page& page,
                   std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace rehearse::inline view
