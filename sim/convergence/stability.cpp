#include "convergence/stability.hpp"

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace rehearse::inline convergence {
namespace {

using Complex = std::complex<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = std::numbers::pi;

/// What does not depend on a, at z = exp(i angle).
struct Frequency {
  Complex own;      ///< (z - 1)(1 - m/z): what one step does by itself
  Complex delayed;  ///< f + (1 - f) P(1/z)
  double square;    ///< mean of |f + (1 - f) z^-k|^2 over the draws of k
};

/// A share that is not 0, and how far it is down to the staleness of the next one, or to 0. Nearly
/// all shares of a constant staleness are 0.
struct Term {
  double share = 0;
  std::size_t down = 0;
};

/// From the stalest on.
std::vector<Term> terms_of(const Staleness& staleness) {
  std::vector<Term> terms;
  for (std::size_t k = staleness.share.size(); k-- > 0;) {
    if (staleness.share[k] != 0) terms.push_back({staleness.share[k], 0});
    if (k > 0 && !terms.empty()) ++terms.back().down;
  }
  return terms;
}

Frequency frequency(const std::vector<Term>& terms, const Descent& descent, double angle) {
  const Complex z = std::polar(1.0, angle);
  const Complex w = std::conj(z);
  Complex sum = 0;
  for (const Term& term : terms) {
    sum += term.share;
    if (term.down == 1) sum *= w;
    if (term.down > 1) sum *= std::polar(1.0, -angle * static_cast<double>(term.down));
  }
  const double now = descent.compensation;
  const double then = 1 - now;
  return {(z - 1.0) * (1.0 - descent.momentum * w), now + then * sum,
          now * now + then * then + 2 * now * then * sum.real()};
}

/// a(w) |P|^2, so that nothing is divided by a P of 0.
Complex boundary(const Frequency& at) { return -at.own * std::conj(at.delayed); }

/// a(w), where the boundary is real.
double value(const Frequency& at) { return boundary(at).real() / std::norm(at.delayed); }

double positive(double a) { return a > 0 ? a : kInfinity; }

/// Where the imaginary part of the boundary changes its sign, to the last bit.
double crossing(const std::vector<Term>& terms, const Descent& descent, double low, double high) {
  const auto below = [&](double angle) {
    return boundary(frequency(terms, descent, angle)).imag() < 0;
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
  check(descent.compensation >= 0, "what was missed is added, not taken away");
  return 16 * (staleness.max() + 4 + static_cast<std::size_t>(1 / (1 - descent.momentum)));
}

/// The half circle's midpoints: sums over them are the trapezoid rule on a periodic analytic
/// function, which converges faster than any power.
std::vector<Frequency> half_circle(const std::vector<Term>& terms, const Descent& descent,
                                   std::size_t points) {
  std::vector<Frequency> circle;
  circle.reserve(points);
  for (std::size_t i = 0; i < points; ++i) {
    const double part = (static_cast<double>(i) + 0.5) / static_cast<double>(points);
    circle.push_back(frequency(terms, descent, kPi * part));
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
    sum.loop += a * a * ((1 + curvature_noise) * at.square - std::norm(at.delayed)) * gain;
  }
  const auto points = static_cast<double>(circle.size());
  return {sum.noise / points, sum.loop / points};
}

/// The a in (0, edge of the mean) where x sustains itself; infinity where so few points do not see
/// it.
double self_sustained(const std::vector<Frequency>& circle, double edge, double curvature_noise) {
  // From 1/2 at 0 to -1/2 at the edge, where the loop's gain has its pole.
  const auto margin = [&](double a) {
    return a == 0 ? 0.5 : 1 / (1 + gains(circle, a, curvature_noise).loop) - 0.5;
  };
  const double last = edge * (1 - 1e-12);
  if (margin(last) >= 0) return kInfinity;
  std::uintmax_t steps = 100;
  const auto [low, high] = boost::math::tools::toms748_solve(
      margin, 0.0, last, boost::math::tools::eps_tolerance<double>(45), steps);
  return 0.5 * (low + high);
}

}  // namespace

double mean_stability_edge(const Staleness& staleness, const Descent& descent) {
  struct Bracket {
    double low, high;  ///< angles
    double least;      ///< a that it may hold, for sure: half the smaller of its ends
  };
  const std::size_t steps = steps_of(staleness, descent);
  const std::vector<Term> terms = terms_of(staleness);
  std::vector<Bracket> brackets;
  double angle_before = 0, a_before = 0;
  bool below_before = false;
  for (std::size_t i = 1; i < steps; ++i) {
    const double angle = kPi * static_cast<double>(i) / static_cast<double>(steps);
    const Frequency at = frequency(terms, descent, angle);
    const bool below = boundary(at).imag() < 0;
    const double a = value(at);
    if (i > 1 && below != below_before)
      brackets.push_back({angle_before, angle, 0.5 * std::min(a, a_before)});
    angle_before = angle;
    a_before = a;
    below_before = below;
  }
  // Most brackets lie far above the least: only what may be the edge is worked out.
  double edge = positive(value(frequency(terms, descent, kPi)));
  std::ranges::sort(brackets, {}, &Bracket::least);
  for (const Bracket& bracket : brackets) {
    if (bracket.least > edge) break;
    const double angle = crossing(terms, descent, bracket.low, bracket.high);
    edge = std::min(edge, positive(value(frequency(terms, descent, angle))));
  }
  return edge;
}

/// Half circles, each twice as fine as the one before, made when they are asked for.
struct StabilityEdges::Circles {
  Staleness staleness;
  Descent descent;
  std::vector<Term> terms;
  double mean_edge;
  std::vector<std::vector<Frequency>> finer;

  Circles(Staleness of, const Descent& with)
      : staleness(std::move(of)),
        descent(with),
        terms(terms_of(staleness)),
        mean_edge(mean_stability_edge(staleness, descent)) {}

  std::size_t points(std::size_t level) const { return steps_of(staleness, descent) << level; }
  const std::vector<Frequency>& at(std::size_t level) {
    if (level == finer.size()) finer.push_back(half_circle(terms, descent, points(level)));
    return finer[level];
  }

  /// What `value_of` says of ever finer half circles, once it stands still to 1e-7 or they become
  /// too many to be quick. Twice the points square what the rule is off by: what stands still to
  /// 1e-7 is off by far less.
  template <class ValueOf>
  double refined(ValueOf&& value_of) {
    constexpr std::size_t kMost = std::size_t{1} << 24;
    double before = kInfinity;
    for (std::size_t level = 0;; ++level) {
      const double value = value_of(at(level));
      const bool costly = points(level + 1) * staleness.share.size() > kMost;
      if (std::abs(value / before - 1) <= 1e-7 || costly) return value;
      before = value;
    }
  }
};

StabilityEdges::StabilityEdges(Staleness staleness, const Descent& descent)
    : circles_(std::make_unique<Circles>(std::move(staleness), descent)) {}
StabilityEdges::~StabilityEdges() = default;
StabilityEdges::StabilityEdges(StabilityEdges&&) noexcept = default;

double StabilityEdges::at(double curvature_noise) {
  check(curvature_noise >= 0, "a variance is not negative");
  const double edge = circles_->mean_edge;
  if (circles_->staleness.share.back() == 1 && curvature_noise == 0) return edge;
  const double sustained = circles_->refined([&](const std::vector<Frequency>& circle) {
    return self_sustained(circle, edge, curvature_noise);
  });
  return std::min(edge, sustained);
}

double stability_edge(const Staleness& staleness, const Descent& descent) {
  return StabilityEdges(staleness, descent).at(descent.curvature_noise);
}

double noise_gain(const Staleness& staleness, double a, const Descent& descent) {
  check(a > 0, "a step has a length");
  StabilityEdges edges(staleness, descent);
  if (a >= edges.at(descent.curvature_noise)) return kInfinity;
  return edges.circles_->refined([&](const std::vector<Frequency>& circle) {
    const Gains both = gains(circle, a, descent.curvature_noise);
    return both.noise / (1 - both.loop);
  });
}

}  // namespace rehearse::inline convergence
