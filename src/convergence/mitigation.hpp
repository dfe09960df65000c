#pragma once

#include <cstdint>
#include <optional>

namespace rehearse::inline convergence {

/// The outer step of local SGD: torch.optim.SGD on pseudo-gradients, which are how far workers came
/// from what they began with. DiLoCo takes it with the mean of all (Douillard et al. 2023), an
/// asynchronous server with each that comes (Liu et al., "Asynchronous Local-SGD Training for
/// Language Modeling", 2024).
struct OuterSgd {
  double learning_rate = 0.7;
  double momentum = 0.9;
  bool nesterov = true;
  bool operator==(const OuterSgd&) const = default;
};

/// Measures of a training run against stale gradients; by default none.
struct Mitigation {
  /// Each update's learning rate over its staleness, where that is above 1 (Zhang, Gupta, Lian,
  /// Liu, "Staleness-aware Async-SGD for Distributed Deep Learning", IJCAI 2016).
  bool staleness_aware = false;
  /// Explicit momentum lowered by what the delay of the workers adds by itself (Mitliagkas et al.,
  /// "Asynchrony begets Momentum", Allerton 2016).
  bool momentum_correction = false;
  /// The lambda of delay compensation, g + lambda g g (w - w_read); 0: none (Zheng et al.,
  /// "Asynchronous Stochastic Gradient Descent with Delay Compensation", ICML 2017: DC-ASGD-c).
  double delay_compensation = 0;
  /// Iterations that a worker may be ahead of the slowest; nothing: unbounded.
  std::optional<std::uint64_t> staleness_bound{};
  std::uint32_t backup_workers = 0;  ///< whose gradients of a synchronous round are dropped
  std::uint64_t warmup_rounds = 0;   ///< synchronous rounds before the asynchronous ones
  /// Local SGD: steps of its own that a worker takes between two exchanges; what it sends is how
  /// far it came (McMahan et al., "Communication-Efficient Learning", AISTATS 2017).
  std::uint32_t local_steps = 1;
  /// Outer optimizer that handles how far workers came; nothing: what they send is applied as it
  /// is.
  std::optional<OuterSgd> outer{};
};

/// Result of momentum correction for SGD's options with `workers`. A delay of M - 1 updates on
/// average and a momentum m' both make a step an average over past gradients. These are M - 1 and
/// m' / (1 - m') gradients; m' is such that together they are m / (1 - m), as without a delay, but
/// at least 0. The rate keeps rate / (1 - momentum), which is how far a constant gradient leads.
struct MomentumAndRate {
  double momentum = 0, learning_rate = 0;
};
MomentumAndRate corrected_momentum(const MomentumAndRate& asked, std::uint32_t workers);

}  // namespace rehearse::inline convergence
