#include "convergence/learning_curve.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse {
namespace {

constexpr double kMiddle = 30;  // of a training, in progress: where `strength` is the slowing's

/// The t of t + slowing ((1 + t)^(1 - fading) - 1) / (1 - fading) = progress, by Newton's method.
/// The left side grows with t and is concave, so that from below, where this starts, no step leads
/// too far.
double slowed(double progress, double slowing, double fading) {
  double t = progress / (1 + slowing);
  for (int i = 0; i < 50; ++i) {
    const double log = std::log1p(t);
    const double rest = (1 - fading) * log;
    const double lost = std::abs(rest) < 1e-9 ? log : std::expm1(rest) / (1 - fading);
    const double step = (progress - t - slowing * lost) / (1 + slowing * std::exp(-fading * log));
    t += step;
    if (std::abs(step) <= 1e-13 * t) break;
  }
  return t;
}

/// How many updates have had their whole effect: each has 1 - m^i of it after i of them.
double effective_updates(double updates, double momentum) {
  return updates - momentum * (1 - std::pow(momentum, updates)) / (1 - momentum);
}

/// Of fresh gradients.
double fresh_progress(const LearningCurve& curve, const CurvePlace& place) {
  const double saturation =
      std::exp(curve[kLogSaturation]) * std::pow(place.batch, curve[kBatchPower]);
  return std::exp(curve[kLogScale]) * effective_updates(place.updates, place.momentum) *
         place.effective_rate / (1 + place.effective_rate / saturation);
}

/// ln(1 + exp(x)), which is x where exp(x) is no number.
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

/// Of updates that are so stale on average, where fresh ones would have made `progress`.
double stale_progress(const LearningCurve& curve, const StalePlace& stale, double spread_gain,
                      double progress) {
  constexpr double kNearest = 0.98;     // to the edge
  constexpr double kWorstSlowing = 20;  // in ln, where exp() is still a number
  const double curvature =
      std::exp(curve[kLogCurvature] - curve[kSpreadPower] * std::log(spread_gain));
  const double index = std::min(curvature * stale.index, kNearest);
  if (index <= 0) return progress;
  const double log_odds = std::log(index / (1 - index));
  const double fading = softplus(curve[kFading] + curve[kFadingByIndex] * log_odds);
  const double log_slowing = curve[kLogStrength] + curve[kSteepness] * log_odds +
                             curve[kStalenessPower] * std::log((1 + stale.staleness) / 2) +
                             fading * std::log(kMiddle);
  return slowed(progress, std::exp(std::min(kWorstSlowing, log_slowing)), fading);
}

/// The part of a cost in ln(error) that goes with the staleness.
double wander(const LearningCurve& curve, double staleness, double cost) {
  const double most = std::exp(curve[kLogWander]) * staleness;
  return most > 0 ? most * (1 - std::exp(-std::max(0.0, cost) / most)) : 0;
}

}  // namespace

LearningCurvePrior learning_curve_prior() {
  LearningCurvePrior prior;
  prior.mean << std::log(0.02), std::log(10), 0.7, std::log(0.1), 1, 2, 0, 0.5, 0, std::log(0.1),
      std::log(2), 0, 0, 0.5, 1, std::log(3);
  prior.deviation << 0.7, 2, 0.4, 1.5, 1.5, 0.6, 1.5, 0.3, 0.5, 1, 1.5, 1, 0.5, 0.5, 1.5, 0.5;
  return prior;
}

LogError log_error(const LearningCurve& curve, const CurvePlace& place) {
  const double floor = std::exp(curve[kLogFloor]) *
                       (1 + std::exp(curve[kLogNoise]) * place.effective_rate / place.batch);
  const auto after = [&](double progress) {
    return std::log(floor + place.initial_error * std::pow(1 + progress, -curve[kPower]));
  };
  const double progress = fresh_progress(curve, place);
  const double healthy = after(progress);
  const auto cost = [&](const StalePlace& stale) {
    return after(stale_progress(curve, stale, place.spread_gain, progress)) - healthy;
  };
  const double so_far = cost(place.so_far);
  const double onset = -std::expm1(
      -std::pow(progress / std::exp(curve[kLogOnset]), std::exp(curve[kLogOnsetPower])));
  const double penalty = onset * (so_far - wander(curve, place.so_far.staleness, so_far) +
                                  wander(curve, place.recent.staleness, cost(place.recent)));
  return {healthy + penalty, std::max(0.0, penalty)};
}

}  // namespace rehearse
