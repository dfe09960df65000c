#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "report/page.hpp"
#include "report/report.hpp"

namespace rehearse::inline report {

/// `memory.would_fit` of `rehearse.report/1`.
nlohmann::ordered_json json_view(const std::vector<FittingChange>& changes);
/// The lines below a report's memory, at most so many changes; it must have looked for changes.
void add_would_fit(const MemoryReport& memory, Page& page,
                   std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace rehearse::inline report
