#include "convergence/staleness_histogram.hpp"

#include <cmath>

#include "base/error.hpp"

namespace rehearse::inline convergence {

std::uint64_t updates(const StalenessHistogram& histogram) {
  std::uint64_t sum = 0;
  for (const auto& [staleness, count] : histogram) sum += count;
  return sum;
}

double mean(const StalenessHistogram& histogram) {
  check(!histogram.empty(), "a mean of no update");
  double sum = 0;
  for (const auto& [staleness, count] : histogram) sum += static_cast<double>(count) * staleness;
  return sum / static_cast<double>(updates(histogram));
}

std::uint32_t percentile(const StalenessHistogram& histogram, double share) {
  check(!histogram.empty(), "a percentile of no update");
  const auto wanted =
      static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(updates(histogram))));
  std::uint64_t seen = 0;
  for (const auto& [staleness, count] : histogram) {
    seen += count;
    if (seen >= wanted) return staleness;
  }
  return histogram.rbegin()->first;
}

}  // namespace rehearse::inline convergence
