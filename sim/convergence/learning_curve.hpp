#pragma once

#include <Eigen/Core>

namespace rehearse {

/// How the test error of one model on one data set falls, in any setting:
///
///     s = scale rate^rate_power updates                      progress
///     healthy = floor + initial (1 + s)^-power               a power law (Hestness et al. 2017)
///     penalty = strength (r / (1 - r))^steepness ((1 + s) / 100)^-fading
///     1 / error = 1 / (healthy exp(penalty)) + 1 / initial   at most what untrained parameters
///     have
///
/// with the rate over 1 - momentum, and r, the stability index, the share of the stability edge
/// that the rate takes up: staleness, momentum and batch size enter through r alone. Noise of
/// gradients adds up as 1 / (1 - r) near the edge (noise_gain), and most while the loss still falls
/// steeply, which is why the penalty fades with progress.
enum LearningCurveParameter {
  kLogFloor,
  kLogScale,
  kPower,
  kRatePower,
  kLogStrength,
  kSteepness,
  kFading,
  kLearningCurveParameters
};
using LearningCurve = Eigen::Matrix<double, kLearningCurveParameters, 1>;

/// What is known of such curves before any is seen: mean and standard deviation of each parameter.
/// As vague as lets a handful of curves decide what they show, and no more.
struct LearningCurvePrior {
  LearningCurve mean, deviation;
};
LearningCurvePrior learning_curve_prior();

/// Where on which curve.
struct CurvePlace {
  double effective_rate = 0.1;
  double index = 0;  ///< r; from 1 on nothing trains, and it is taken for 0.98
  double updates = 0;
  double initial_error = 0.9;
};

struct LogError {
  double value = 0;    ///< ln of the error
  double penalty = 0;  ///< how much of that is the index's doing
};
LogError log_error(const LearningCurve& curve, const CurvePlace& place);

}  // namespace rehearse
