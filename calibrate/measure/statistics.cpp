#include "measure/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace rehearse {
namespace {

Seconds quantile(const std::vector<Seconds>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - std::floor(place));
}

}  // namespace

Spread spread_of(std::vector<Seconds> samples) {
  check(!samples.empty(), "a median needs a sample");
  std::sort(samples.begin(), samples.end());
  const Seconds median = quantile(samples, 0.5);
  if (median == Seconds(0)) return {median, 0};
  return {median, (quantile(samples, 0.75) - quantile(samples, 0.25)) / median};
}

}  // namespace rehearse
