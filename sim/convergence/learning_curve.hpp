#pragma once

#include <Eigen/Core>
#include <vector>

namespace rehearse::inline convergence {

/// How the test error of one model on one data set falls, in any setting:
///
///     n = updates - m (1 - m^updates) / (1 - m)
///     s = scale n rate / (1 + rate / (saturation batch^b))
///     dt / ds = 1 / (1 + slowing(t)):
///         t + slowing(0) ((1 + t)^(1 - fading) - 1) / (1 - fading) = s
///     q = h r / gain^b
///     slowing(t) = strength (q / (1 - q))^steepness (30 / (1 + t))^fading ((1 + k) / 2)^extra
///     fading = ln(1 + exp(f + g ln(q / (1 - q))))
///     error(t) = floor (1 + noise rate / batch) + initial (1 + t)^-power
///     cost = ln(error(t)) - ln(error(s))
///     wander = w k (1 - exp(-cost / (w k)))
///     onset = 1 - exp(-(s / c)^o)
///     ln(error) = ln(error(s)) + onset ((cost - wander)(so far) + wander(recently))
///
/// s is the progress of fresh gradients, t that of stale ones, k the mean staleness, and the error
/// a power law (Hestness et al., "Deep learning scaling is predictable, empirically", 2017),
/// with the rate over 1 - momentum m, and the samples per update over those of the fit as the
/// batch. With momentum a gradient's effect comes over the following updates, and after the first
/// few most of it is still to come: n updates have had theirs.
///
/// The noise of batches bounds what a higher rate gains: far below the noise's own batch size the
/// best rate is proportional to the batch, far above it does not depend on it, and a higher one
/// leads no further (McCandlish, Kaplan, Amodei, "An empirical model of large-batch training",
/// 2018, section 2.2): b lies between 1 and 0. Runs of one batch say nothing of it, and intervals
/// at another are as wide as that leaves them. And it keeps the parameters at a distance from the
/// minimum whose square grows with the rate over the batch (Mandt, Hoffman, Blei, "Stochastic
/// gradient descent as approximate Bayesian inference", JMLR 2017; Smith, Le, ICLR 2018): `noise`.
///
/// Stale gradients make the steep directions overshoot, which they do for ever where their
/// curvature h times r, the rate over the edge at a curvature of 1 (StabilityIndices::slowing),
/// is 1; the network wanders there, and the loss falls the less. r is of updates that are all as
/// stale as they are on average. Those whose staleness spreads are stable up to a higher rate, as
/// what some overshoot others, fresher ones, take back: on a quadratic by `gain`, the edge of the
/// mean of their distribution over that of the mean staleness (Slowing::spread_gain), of a network
/// by a power b of it. Of a cross-entropy the curvature falls with the error (its Gauss-Newton part
/// holds p (1 - p); seen by Cohen et al., "Gradient descent on neural networks typically occurs at
/// the edge of stability", ICLR 2021), which is why the slowing fades with the progress that was
/// made in spite of it: each step is slowed by what is slow then, so that a network whose slowing
/// fades faster than it progresses (a fading above 1) catches up in the end. Near the edge it need
/// not fade as it does far from it, where it may be gone for good: g.
///
/// Nor is the curvature there from the start: it grows as the network begins to learn
/// ("progressive sharpening", Cohen et al.). At a low rate the first tens of updates go as if
/// nothing were stale, and then the error rises again, up to where such staleness holds it:
/// `onset`, with c the progress after which staleness costs 63 % of what it will.
///
/// r grows with the staleness as what a gradient misses does while the parameters drift. Of a
/// random walk it misses the root of that: half a power of the staleness, either way, is left open
/// (`extra`).
///
/// What staleness costs has two parts. What was not learned stays missing when the staleness is
/// gone; what the network wanders off by is gone with it, within tens of updates, as noise is when
/// a rate is lowered. A small cost is all wandering; of a large one no more than w k, in proportion
/// to the staleness as what a gradient misses is to the updates that it has missed. So the part
/// that stays is that of a run as stale as all updates until then were on average, and the other
/// that of one as stale as the last ones. At one staleness throughout the two add up to the cost.
enum LearningCurveParameter {
  kLogFloor,
  kLogScale,
  kPower,
  kLogSaturation,
  kLogStrength,
  kSteepness,
  kFading,  ///< f: fading = ln(1 + exp(f)) halfway to the edge
  kBatchPower,
  kStalenessPower,  ///< `extra`
  kLogWander,       ///< of w
  kLogNoise,
  kLogCurvature,   ///< of h
  kFadingByIndex,  ///< g
  kSpreadPower,    ///< b
  kLogOnset,       ///< of c
  kLogOnsetPower,  ///< of o
  kLearningCurveParameters
};
using LearningCurve = Eigen::Matrix<double, kLearningCurveParameters, 1>;

/// Prior knowledge of such curves, before any is seen: mean and standard deviation of each
/// parameter. It is just vague enough to let a handful of curves decide what they show.
struct LearningCurvePrior {
  LearningCurve mean, deviation;
};
LearningCurvePrior learning_curve_prior();

/// How stale some updates were.
struct StalePlace {
  double staleness = 0;  ///< mean
  double index = 0;      ///< r; nothing trains where h r is 1, and it is taken for 0.98 at most
};

/// A part of a training whose rate, batch and staleness stay as they are.
struct CurveStretch {
  double effective_rate = 0.1;
  double batch = 1;  ///< samples per update over the fit's
  StalePlace stale;
  double updates = 0;  ///< in it
};

/// Where on which curve.
struct CurvePlace {
  double effective_rate = 0.1;
  double momentum = 0;
  double batch = 1;        ///< samples per update over the fit's
  StalePlace so_far;       ///< all updates until then
  StalePlace recent;       ///< the last ones; PastStaleness::recent
  double spread_gain = 1;  ///< Slowing::spread_gain
  double updates = 0;
  double initial_error = 0.9;
  /// Of a training whose rate or protocol changes: its parts until then in order, the last one as
  /// far as it has come; empty: rate, batch and staleness above stay. The progress t of one part
  /// begins where that of the part before ended, so that what staleness costs early, while the
  /// rate is high, a rate that has decayed does not catch up with.
  std::vector<CurveStretch> stretches{};
};

struct LogError {
  double value = 0;    ///< ln of the error
  double penalty = 0;  ///< how much of that is the staleness's doing
};
LogError log_error(const LearningCurve& curve, const CurvePlace& place);

/// The same value, and how it changes with each parameter.
struct LogErrorSlope {
  double value = 0;
  LearningCurve slope;
};
LogErrorSlope log_error_slope(const LearningCurve& curve, const CurvePlace& place);

}  // namespace rehearse::inline convergence
