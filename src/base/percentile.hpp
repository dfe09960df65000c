#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/error.hpp"

namespace rehearse::inline base {

/// Between the two nearest of the samples in order, as numpy's default: share 0 is the least, 0.5
/// the median, 1 the most. At least one sample; they need not be sorted.
template <typename Number>
Number percentile(std::vector<Number> samples, double share) {
  check(!samples.empty(), "a percentile of nothing");
  std::sort(samples.begin(), samples.end());
  const double position = share * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (samples[above] - samples[below]) * (position - std::floor(position));
}

}  // namespace rehearse::inline base
