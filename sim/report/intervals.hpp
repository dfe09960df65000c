#pragma once

#include <vector>

#include "report/report.hpp"

namespace rehearse::inline report {

/// Moments covered by any of some time intervals; sorted and disjoint once united.
using Intervals = std::vector<Ends<Seconds>>;

/// Sorts, clips to the window, drops what is empty and merges what touches.
Intervals unite(Intervals intervals, const Ends<Seconds>& window);
/// Both must be united.
Intervals intersect(const Intervals& a, const Intervals& b);
Seconds length(const Intervals& united);

}  // namespace rehearse::inline report
