#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rehearse::inline rollout {

/// Lengths in tokens: log-normal, cut at the limit. `mean` is that of what is cut, as frameworks'
/// logs have it; `deviation` that of the distribution before the cut.
struct Lengths {
  double mean = 0, deviation = 0;
  double limit = 0;  ///< 0: none
};

/// Mean of the logarithm before the cut, so that what is cut has the mean. std::invalid_argument
/// where the limit does not lie above the mean, or no such distribution is within reach.
double log_mean(const Lengths& lengths);

/// `count` lengths from the stream of this name and seed, whole tokens and at least 1. They are one
/// of each `count`th of the distribution, in an order that is drawn: their mean is the
/// distribution's, whatever the seed.
std::vector<double> draw(const Lengths& lengths, std::size_t count, std::uint64_t seed,
                         std::string_view name, std::uint64_t step);

}  // namespace rehearse::inline rollout
