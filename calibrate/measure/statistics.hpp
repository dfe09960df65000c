#pragma once

#include <vector>

#include "base/quantity.hpp"

namespace rehearse::inline calibrate {

/// The middle of repeated measurements and how far they lie apart.
struct Spread {
  Seconds median;
  double relative = 0;  ///< interquartile range over the median; 0 where the median is 0
};

/// Quartiles are interpolated between the sorted samples. At least one sample.
Spread spread_of(const std::vector<Seconds>& samples);

}  // namespace rehearse::inline calibrate
