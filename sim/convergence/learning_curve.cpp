#include "convergence/learning_curve.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse {

LearningCurvePrior learning_curve_prior() {
  LearningCurvePrior prior;
  prior.mean << std::log(0.02), std::log(10), 0.7, 1, 1, 2, 0.3;
  prior.deviation << 0.7, 2, 0.4, 0.15, 1.5, 0.6, 0.3;
  return prior;
}

LogError log_error(const LearningCurve& curve, const CurvePlace& place) {
  constexpr double kNearest = 0.98;     // to the edge
  constexpr double kWorstPenalty = 20;  // where exp() is still a number
  const double index = std::min(place.index, kNearest);
  const double progress = std::exp(curve[kLogScale]) *
                          std::pow(place.effective_rate, curve[kRatePower]) * place.updates;
  const double healthy =
      std::exp(curve[kLogFloor]) + place.initial_error * std::pow(1 + progress, -curve[kPower]);
  const double penalty =
      std::min(kWorstPenalty, std::exp(curve[kLogStrength]) *
                                  std::pow(index / (1 - index), curve[kSteepness]) *
                                  std::pow((1 + progress) / 100, -curve[kFading]));
  const auto capped = [&](double factor) {
    return -std::log(1 / (healthy * factor) + 1 / place.initial_error);
  };
  const double value = capped(std::exp(penalty));
  return {value, value - capped(1)};
}

}  // namespace rehearse
