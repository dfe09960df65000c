#pragma once

#include <vector>

#include "fit/segments.hpp"

namespace rehearse::inline fit {

/// Sorted by size, one point per size (the median time), all positive; std::invalid_argument where
/// one is not.
std::vector<TimedSize> tidy(std::vector<TimedSize> points);

/// Sizes of up to 1 KiB measure the start-up alone. A sweep that begins at 8 bytes repeats that
/// eight times, with jitter that would claim a regime of its own: they count as one point, their
/// median.
std::vector<TimedSize> merge_tiny(const std::vector<TimedSize>& points);

/// At most 64 of the points, evenly among them.
std::vector<TimedSize> thinned(const std::vector<TimedSize>& points);

}  // namespace rehearse::inline fit
