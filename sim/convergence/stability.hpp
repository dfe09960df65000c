#pragma once

#include <memory>

#include "convergence/staleness.hpp"

namespace rehearse::inline convergence {

/// Gradient descent with stale gradients and momentum on a quadratic of curvature h, a = learning
/// rate x h: x(t+1) = x(t) + m (x(t) - x(t-1)) - a x(t-k), k drawn anew from the staleness at every
/// update. With P(w) = sum over k of P(k) w^k the mean of x is a sum of z^t, where
///
///     (z - 1)(1 - m/z) + a P(1/z) = 0,
///
/// and it dies out while all these z lie inside the unit circle. Its square does so only if also
/// the noise that the draws of k themselves make, sustained by x, does not sustain x:
///
///     a^2 mean over w of (1 + c - |P|^2) / |(z - 1)(1 - m/z) + a P(1/z)|^2 < 1,   z = exp(i w)
///
/// (a small gain of state-dependent noise: Willems, Blankenship, "Frequency domain stability
/// criteria for stochastic systems", IEEE Trans. Automatic Control 16, 1971). c is the variance of
/// the curvature from batch to batch over its mean's square: fresh gradients without momentum are
/// stable up to 2 / (1 + c) (Wu, Ma, E, "How SGD selects the global minima", NeurIPS 2018).
///
/// Delay compensation (Zheng et al., ICML 2017) adds to the gradient h x(t-k) of the parameters
/// that were read a part f of what they have missed, h (x(t) - x(t-k)): all of it where its
/// estimate of the Hessian is exact (f = 1: nothing is stale), nothing at f = 0. On the quadratic
/// that is
///
///     f x(t) + (1 - f) x(t-k),   so P becomes f + (1 - f) P, and 1 - |P|^2, the variance of the
///     draws, (1 - f)^2 (1 - |P|^2); with c, the 1 in 1 + c is mean |f + (1 - f) w^k|^2.
///
/// More than 1 is more than was missed, and less stable again.
struct Descent {
  double momentum = 0;         ///< m in [0, 0.99999)
  double curvature_noise = 0;  ///< c >= 0
  double compensation = 0;     ///< f >= 0
};

/// The largest a at which the mean dies out. 2 sin(pi / (2 (2k + 1))) for a constant staleness k
/// without momentum, which is 2 for k = 0; 2 (1 + m) for fresh gradients with momentum m; 2 (1 + q)
/// / (1 - q) for a geometric staleness, which is to the mean what momentum q is (Mitliagkas et al.
/// 2016).
///
/// A root crosses the circle where a(w) = -(z - 1)(1 - m/z) / P(1/z) is real and above 0
/// (D-decomposition, Neimark 1949). The edge is the least of those, as roots lie inside for the
/// smallest a.
double mean_stability_edge(const Staleness& staleness, const Descent& descent = {});

/// The largest a at which the mean square dies out: at most the mean's, and equal where the
/// staleness is constant and the curvature has no noise.
double stability_edge(const Staleness& staleness, const Descent& descent = {});

/// The same for one staleness and descent, and many noises of the curvature in place of the
/// descent's, of which all but the first cost little.
class StabilityEdges {
 public:
  StabilityEdges(Staleness staleness, const Descent& descent);
  ~StabilityEdges();
  StabilityEdges(StabilityEdges&&) noexcept;
  double at(double curvature_noise);

 private:
  friend double noise_gain(const Staleness& staleness, double a, const Descent& descent);
  struct Circles;
  std::unique_ptr<Circles> circles_;
};

/// How noise in the gradients adds up: the variance of x where each step besides has independent
/// noise of variance 1. 1 / (a (2 - a)) for fresh gradients; infinity from the edge on.
///
/// Parseval's theorem: the mean over w of 1 / |(z - 1)(1 - m/z) + a P(1/z)|^2, over 1 - (the small
/// gain above).
double noise_gain(const Staleness& staleness, double a, const Descent& descent = {});

}  // namespace rehearse::inline convergence
