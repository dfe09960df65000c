#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "convergence/learning_curve.hpp"

namespace rehearse::inline convergence {

/// Half the width of the interval that holds 90 % of a normal distribution, in its deviations.
inline constexpr double kQuantile90 = 1.6448536269514722;

/// One point of one run.
struct Sample {
  CurvePlace place;
  double log_error = 0;
  double weight = 1;        ///< of its residual: the points of one run do not each count fully
  std::size_t setting = 0;  ///< runs of one setting differ in their seeds
  bool last = false;        ///< of its run
};

/// Standard deviations of ln(error) from run to run and along a run. What staleness costs comes in
/// single falls back, now and then, whose number varies as their mean does: a variance in
/// proportion to it.
struct Spreads {
  double plain = 0.1;        ///< without penalty
  double per_penalty = 0.3;  ///< where the penalty is 1; its square is added per unit of penalty
  double at(double penalty) const { return std::hypot(plain, per_penalty * std::sqrt(penalty)); }
};

/// A curve and how well it is known.
struct FittedCurve {
  LearningCurve curve = learning_curve_prior().mean;
  Eigen::MatrixXd covariance;

  /// The variance of ln(error) there that comes of not knowing the parameters.
  double unknown_variance(const CurvePlace& place) const;
};

struct CurveFit {
  FittedCurve fitted;
  Spreads spreads;
  double log_likelihood = 0;  ///< with the prior, up to a constant
};

/// Least squares of ln(error) with Huber's loss and learning_curve_prior(), from `start`.
CurveFit fit_curve(const std::vector<Sample>& samples, const LearningCurve& start);

/// How well settings are forecast that are left out of the fit: in turns, a tenth of them at a
/// time, or one where there are less than ten. Empty where there is only one.
struct HeldOut {
  std::vector<double> deviations;     ///< |off| in standard deviations that the fit expects
  std::optional<double> final_error;  ///< mean |error - forecast| at the runs' ends, in shares
};
HeldOut hold_out(const std::vector<Sample>& samples, const CurveFit& fit);

}  // namespace rehearse::inline convergence
