#include "convergence/learning_curve.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse {
namespace {

constexpr double kMiddle = 30;  // of a training, in progress: where `strength` is the slowing's

/// The t of t (1 + slowing (1 + t)^-fading) = progress, by Newton's method. The left side grows
/// with t and is concave, so that from below, where this starts, no step leads too far.
double slowed(double progress, double slowing, double fading) {
  double t = progress / (1 + slowing);
  for (int i = 0; i < 50; ++i) {
    const double now = slowing * std::pow(1 + t, -fading);
    const double step = (progress - t * (1 + now)) / (1 + now * (1 - fading * t / (1 + t)));
    t += step;
    if (std::abs(step) <= 1e-13 * t) break;
  }
  return t;
}

}  // namespace

LearningCurvePrior learning_curve_prior(CurveForm form) {
  constexpr double kHeld = 1e-4;  // a standard deviation of as good as 0
  const double extra = form == CurveForm::freer ? 0.5 : kHeld;
  LearningCurvePrior prior;
  prior.mean << std::log(0.02), std::log(10), 0.7, std::log(0.1), 1, 2, 0, 0.5, 0;
  prior.deviation << 0.7, 2, 0.4, 1.5, 1.5, 0.6, 1.5, 0.3, extra;
  return prior;
}

LogError log_error(const LearningCurve& curve, const CurvePlace& place) {
  constexpr double kNearest = 0.98;     // to the edge
  constexpr double kWorstSlowing = 20;  // in ln, where exp() is still a number
  const double index = std::min(place.index, kNearest);
  const double saturation =
      std::exp(curve[kLogSaturation]) * std::pow(place.batch, curve[kBatchPower]);
  const double progress = std::exp(curve[kLogScale]) * place.updates * place.effective_rate /
                          (1 + place.effective_rate / saturation);
  const double fading = 1 / (1 + std::exp(-curve[kFadingLogit]));
  const double log_slowing =
      curve[kLogStrength] + curve[kSteepness] * std::log(index / (1 - index)) +
      curve[kStalenessPower] * std::log((1 + place.staleness) / 2) + fading * std::log(kMiddle);
  const double slowing = std::exp(std::min(kWorstSlowing, log_slowing));
  const auto healthy = [&](double made) {
    return std::log(std::exp(curve[kLogFloor]) +
                    place.initial_error * std::pow(1 + made, -curve[kPower]));
  };
  const double value = healthy(slowed(progress, slowing, fading));
  return {value, std::max(0.0, value - healthy(progress))};
}

}  // namespace rehearse
