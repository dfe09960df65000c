#include "measure/statistics.hpp"

#include "base/percentile.hpp"

namespace rehearse::inline calibrate {

Spread spread_of(const std::vector<Seconds>& samples) {
  const Seconds median = percentile(samples, 0.5);
  if (median == Seconds(0)) return {median, 0};
  return {median, (percentile(samples, 0.75) - percentile(samples, 0.25)) / median};
}

}  // namespace rehearse::inline calibrate
