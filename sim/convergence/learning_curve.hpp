#pragma once

#include <Eigen/Core>

namespace rehearse {

/// How the test error of one model on one data set falls, in any setting:
///
///     s = scale updates rate / (1 + rate / (saturation batch^b))  progress of fresh gradients
///     t (1 + slowing) = s                                         progress of stale ones
///     slowing = strength (r / (1 - r))^steepness (30 / (1 + t))^fading ((1 + mean staleness) /
///     2)^extra error = floor + initial (1 + t)^-power                      a power law (Hestness
///     et al.
///                                                                 2017)
///
/// with the rate over 1 - momentum, and the samples per update over those of the fit as the batch.
///
/// The noise of batches bounds what a higher rate gains: far below the noise's own batch size the
/// best rate is proportional to the batch, far above it does not depend on it, and a higher one
/// leads no further (McCandlish, Kaplan, Amodei, "An empirical model of large-batch training",
/// 2018, section 2.2): b lies between 1 and 0. Runs of one batch say nothing of it, and intervals
/// at another are as wide as that leaves them.
///
/// Stale gradients make the steep directions overshoot, from r, the share of the edge at which they
/// do so for ever (StabilityIndices::slowing); the network wanders there, and the loss falls the
/// less. The edge lies at a rate over the curvature, and of a cross-entropy the curvature falls
/// with the error (its Gauss-Newton part holds p (1 - p); seen by Cohen et al., "Gradient descent
/// on neural networks typically occurs at the edge of stability", ICLR 2021), which is why the
/// slowing fades with the progress that was made in spite of it.
///
/// r grows with the staleness as what a gradient misses does while the parameters drift. Of a
/// random walk it misses the root of that: half a power of the staleness, either way, is left open
/// (`extra`), see CurveForm.
enum LearningCurveParameter {
  kLogFloor,
  kLogScale,
  kPower,
  kLogSaturation,
  kLogStrength,
  kSteepness,
  kFadingLogit,  ///< ln(fading / (1 - fading)), as fading lies between 0 and 1
  kBatchPower,
  kStalenessPower,  ///< `extra`
  kLearningCurveParameters
};
using LearningCurve = Eigen::Matrix<double, kLearningCurveParameters, 1>;

/// Whether kStalenessPower is a parameter (freer) or 0 (plain). Runs of a few staleness levels
/// hardly tell the two apart; far beyond these they differ.
enum class CurveForm { plain, freer };

/// What is known of such curves before any is seen: mean and standard deviation of each parameter.
/// As vague as lets a handful of curves decide what they show, and no more.
struct LearningCurvePrior {
  LearningCurve mean, deviation;
};
LearningCurvePrior learning_curve_prior(CurveForm form = CurveForm::plain);

/// Where on which curve.
struct CurvePlace {
  double effective_rate = 0.1;
  double batch = 1;      ///< samples per update over the fit's
  double index = 0;      ///< r; from 1 on nothing trains, and it is taken for 0.98
  double staleness = 1;  ///< mean
  double updates = 0;
  double initial_error = 0.9;
};

struct LogError {
  double value = 0;    ///< ln of the error
  double penalty = 0;  ///< how much of that is the index's doing
};
LogError log_error(const LearningCurve& curve, const CurvePlace& place);

}  // namespace rehearse
