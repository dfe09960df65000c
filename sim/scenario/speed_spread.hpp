#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rehearse::inline scenario {

/// Spreads by which GPUs of one kind differ where a scenario says nothing: speed_spread for good,
/// and the coefficient of variation of what one computes from step to step.
///
/// speed_spread: 8 % on average over applications and clusters (Sinha et al., "Not All GPUs Are
/// Created Equal", SC22, arXiv:2208.11035), taken as the range of a box plot's whiskers, 5.4
/// standard deviations. Public scaling agrees: from 2 to 8 V100s of a DGX-1 four networks lose 1.0,
/// 1.7, 2.5 and 2.0 % under DDP (PyTorch, benchmarks/distributed/ddp/README.md). Spreads of 1.2,
/// 2.0, 2.9 and 2.4 % lose as much. Llama 3.1 8B on 8 to 128 H100s loses 0.5 % in bf16 and 2.2 % in
/// fp8 (NVIDIA/dgxc-benchmarking v25.04.02), as 0.4 and 1.8 % do.
///
/// jitter: steps on one V100 (the same table) are 0 to 0.6 % longer at the 95th percentile than at
/// the median, 0.3 % in the middle: 1.64 standard deviations.
struct UsualFleet {
  double speed_spread, jitter;
};
inline constexpr UsualFleet kUsualFleet{.speed_spread = 0.015, .jitter = 0.002};
/// Half-width of the 90 % interval of the logarithm of both: from the 0.4 % of bf16 above to the
/// 4.1 % that Sinha et al.'s worst application (22 %) is.
inline constexpr double kUsualFleetError = 1;

/// How much longer each of `gpus` nominally alike GPUs takes for the same work, for good: lognormal
/// about a median of 1 with the standard deviation `spread` of the logarithm (0.015: 1.5 %).
///
/// They are the quantiles of that distribution at (i - 3/8) / (gpus + 1/4) (Blom 1958), close to
/// what the i-th of so many GPUs takes on average, in an order that the seed draws: so that the
/// slowest of them, which synchronous steps wait for, is the expected one and not the luck of a
/// seed. One GPU takes 1.
std::vector<double> spread_slowdowns(double spread, std::size_t gpus, std::uint64_t seed);

}  // namespace rehearse::inline scenario
