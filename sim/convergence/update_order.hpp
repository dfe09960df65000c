#pragma once

#include <cstdint>
#include <vector>

#include "convergence/stability.hpp"

namespace rehearse::inline convergence {

/// The largest learning rate x curvature at which gradient descent with momentum is stable when its
/// updates are as stale as `staleness` says, in that order, over and over. stability_edge() draws
/// them in no order: what it cannot see is that updates come in bursts. N gradients that were all
/// computed from one read and are applied one after the other (staleness 0, 1, ... N - 1, again and
/// again) are one step of N times the length, stable up to 2 / N; that is what a staleness bound
/// makes of fast workers that wait for a slow one.
///
/// Found by playing x(t+1) = x(t) + m (x(t) - x(t-1)) - a (f x(t) + (1 - f) x(t - staleness(t)))
/// with the momentum m and the compensation f of `descent`; good to 1 %.
double ordered_stability_edge(const std::vector<std::uint32_t>& staleness,
                              const Descent& descent = {});

/// ordered_stability_edge() over stability_edge() of the same updates in no order; at most 1, and 1
/// for no updates.
double order_factor(const std::vector<std::uint32_t>& staleness, const Descent& descent = {});

}  // namespace rehearse::inline convergence
