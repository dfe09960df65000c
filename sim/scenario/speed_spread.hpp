#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rehearse {

/// How much longer each of `gpus` nominally alike GPUs takes for the same work, for good: lognormal
/// about a median of 1 with the standard deviation `spread` of the logarithm (0.015: 1.5 %).
///
/// They are the quantiles of that distribution at (i - 3/8) / (gpus + 1/4) (Blom 1958), close to
/// what the i-th of so many GPUs takes on average, in an order that the seed draws: so that the
/// slowest of them, which synchronous steps wait for, is the expected one and not the luck of a
/// seed. One GPU takes 1.
std::vector<double> spread_slowdowns(double spread, std::size_t gpus, std::uint64_t seed);

}  // namespace rehearse
