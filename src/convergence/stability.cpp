#include "convergence/stability.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <vector>

#include "base/error.hpp"

namespace rehearse {
namespace {

using Complex = std::complex<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = std::numbers::pi;

/// What does not depend on a, at z = exp(i angle).
struct Frequency {
  Complex own;      ///< (z - 1)(1 - m/z): what one step does by itself
  Complex delayed;  ///< P(1/z)
};

Frequency frequency(const Staleness& staleness, double momentum, double angle) {
  const Complex z = std::polar(1.0, angle);
  const Complex w = 1.0 / z;
  Complex sum = 0;
  for (auto share = staleness.share.rbegin(); share != staleness.share.rend(); ++share)
    sum = sum * w + *share;
  return {(z - 1.0) * (1.0 - momentum * w), sum};
}

/// a(w) |P|^2, so that nothing is divided by a P of 0.
Complex boundary(const Frequency& at) { return -at.own * std::conj(at.delayed); }

/// Where the imaginary part of the boundary changes its sign, to the last bit.
double crossing(const Staleness& staleness, double momentum, double low, double high) {
  const auto below = [&](double angle) {
    return boundary(frequency(staleness, momentum, angle)).imag() < 0;
  };
  const bool first = below(low);
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (below(middle) == first ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

/// Steps on the half circle: 16 for every oscillation of z^-max, and for how long momentum lasts.
std::size_t steps_of(const Staleness& staleness, const Descent& descent) {
  check(descent.momentum >= 0 && descent.momentum < 0.99999, "momentum lies in [0, 0.99999)");
  check(descent.curvature_noise >= 0, "a variance is not negative");
  return 16 * (staleness.max() + 4 + static_cast<std::size_t>(1 / (1 - descent.momentum)));
}

/// The half circle's midpoints: sums over them are the trapezoid rule on a periodic analytic
/// function, which converges faster than any power.
std::vector<Frequency> half_circle(const Staleness& staleness, double momentum,
                                   std::size_t points) {
  std::vector<Frequency> circle;
  circle.reserve(points);
  for (std::size_t i = 0; i < points; ++i) {
    const double part = (static_cast<double>(i) + 0.5) / static_cast<double>(points);
    circle.push_back(frequency(staleness, momentum, kPi * part));
  }
  return circle;
}

struct Gains {
  double noise = 0;  ///< of noise from outside
  double loop = 0;   ///< of the noise that x itself makes
};

Gains gains(const std::vector<Frequency>& circle, double a, double curvature_noise) {
  Gains sum;
  for (const Frequency& at : circle) {
    const double gain = 1 / std::norm(at.own + a * at.delayed);
    sum.noise += gain;
    sum.loop += a * a * (1 + curvature_noise - std::norm(at.delayed)) * gain;
  }
  const auto points = static_cast<double>(circle.size());
  return {sum.noise / points, sum.loop / points};
}

/// The a in (0, edge of the mean) where x sustains itself; infinity where so few points do not see
/// it.
double self_sustained(const std::vector<Frequency>& circle, double edge, double curvature_noise) {
  constexpr int kHalvings = 50;
  double low = 0;
  double high = kInfinity;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + std::min(high, edge));
    (gains(circle, middle, curvature_noise).loop < 1 ? low : high) = middle;
  }
  return high;
}

/// What `value_of` says of ever finer half circles, once it stands still to 1e-10 or they become
/// too many to be quick.
template <class ValueOf>
double refined(const Staleness& staleness, const Descent& descent, ValueOf&& value_of) {
  constexpr std::size_t kMost = std::size_t{1} << 24;
  const std::size_t terms = staleness.share.size();
  double before = kInfinity;
  for (std::size_t points = steps_of(staleness, descent);; points *= 2) {
    const double value = value_of(half_circle(staleness, descent.momentum, points));
    if (std::abs(value / before - 1) <= 1e-10 || 2 * points * terms > kMost) return value;
    before = value;
  }
}

}  // namespace

double mean_stability_edge(const Staleness& staleness, const Descent& descent) {
  const double momentum = descent.momentum;
  const std::size_t steps = steps_of(staleness, descent);
  double edge = kInfinity;
  const auto consider = [&](double angle) {
    const Frequency at = frequency(staleness, momentum, angle);
    const double a = boundary(at).real() / std::norm(at.delayed);
    if (a > 0) edge = std::min(edge, a);
  };
  consider(kPi);
  double before = 0;
  bool below_before = false;
  for (std::size_t i = 1; i < steps; ++i) {
    const double angle = kPi * static_cast<double>(i) / static_cast<double>(steps);
    const bool below = boundary(frequency(staleness, momentum, angle)).imag() < 0;
    if (i > 1 && below != below_before) consider(crossing(staleness, momentum, before, angle));
    before = angle;
    below_before = below;
  }
  return edge;
}

double stability_edge(const Staleness& staleness, const Descent& descent) {
  const double edge = mean_stability_edge(staleness, descent);
  if (staleness.share.back() == 1 && descent.curvature_noise == 0) return edge;
  const auto sustained = [&](const std::vector<Frequency>& circle) {
    return self_sustained(circle, edge, descent.curvature_noise);
  };
  return std::min(edge, refined(staleness, descent, sustained));
}

double noise_gain(const Staleness& staleness, double a, const Descent& descent) {
  check(a > 0, "a step has a length");
  if (a >= stability_edge(staleness, descent)) return kInfinity;
  return refined(staleness, descent, [&](const std::vector<Frequency>& circle) {
    const Gains both = gains(circle, a, descent.curvature_noise);
    return both.noise / (1 - both.loop);
  });
}

}  // namespace rehearse
