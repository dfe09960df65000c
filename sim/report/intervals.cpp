#include "report/intervals.hpp"

#include <algorithm>

namespace rehearse::inline report {

Intervals unite(Intervals intervals, const Ends<Seconds>& window) {
  std::erase_if(intervals, [&](const Ends<Seconds>& interval) {
    return interval.high <= window.low || window.high <= interval.low;
  });
  // Spans of one lane are in order.
  if (!std::ranges::is_sorted(intervals, {}, &Ends<Seconds>::low))
    std::ranges::sort(intervals, {}, &Ends<Seconds>::low);
  Intervals united;
  for (const Ends<Seconds>& interval : intervals) {
    const Ends<Seconds> part{std::max(interval.low, window.low),
                             std::min(interval.high, window.high)};
    if (part.low >= part.high) continue;
    if (!united.empty() && part.low <= united.back().high) {
      united.back().high = std::max(united.back().high, part.high);
    } else {
      united.push_back(part);
    }
  }
  return united;
}

Intervals intersect(const Intervals& a, const Intervals& b) {
  Intervals common;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Ends<Seconds> part{std::max(a[i].low, b[j].low), std::min(a[i].high, b[j].high)};
    if (part.low < part.high) common.push_back(part);
    if (a[i].high < b[j].high)
      ++i;
    else
      ++j;
  }
  return common;
}

Seconds length(const Intervals& united) {
  Seconds sum;
  for (const Ends<Seconds>& interval : united) sum += interval.high - interval.low;
  return sum;
}

}  // namespace rehearse::inline report
