#pragma once

#include <string>
#include <vector>

#include "base/ends.hpp"

namespace rehearse::inline convergence {

/// One batch, and how long training with it took to come to a target.
struct ReferencePoint {
  double batch = 0;      ///< samples of a step, of all workers
  double amount = 0;     ///< mean of the runs, in any unit that grows with the samples
  int runs = 1;          ///< that it is the mean of
  double deviation = 0;  ///< their standard deviation over the mean
};

/// How far beyond the batches seen a law is asked, either way.
inline constexpr double kBatchesBeyond = 2;

/// A law's error before its points have said anything: that of the law's form, in ln.
struct BatchLawPrior {
  double freedom = 3, deviation = 0.03;
};

/// Samples to a target by batch: amount(B) = E (1 + B / B_c), with E samples however small the
/// batch, and twice as many at the batch B_c. It is McCandlish et al.'s trade of steps for samples
/// ("An empirical model of large-batch training", 2018: (S / S_min - 1) (E / E_min - 1) = 1) with
/// samples E = B S.
///
/// E and E / B_c are fitted by least squares of relative errors, neither below 0. Intervals are
/// Student's: the deviation of the points about the law, with the prior's share, and the leverage
/// of the batch that is asked for.
class BatchLaw {
 public:
  /// InputError (without a place) for fewer than two batches.
  explicit BatchLaw(const std::vector<ReferencePoint>& points, const BatchLawPrior& prior = {});

  double fewest() const { return fewest_; }
  /// B_c: infinite where a larger batch takes no more samples.
  double critical_batch() const;
  /// From half the smallest batch seen to twice the largest.
  Ends<double> range() const { return range_; }
  bool holds_at(double batch) const { return batch >= range_.low && batch <= range_.high; }

  /// The 90 % interval holds the mean of many runs.
  Estimate<double> mean_amount(double batch) const;
  /// The 90 % interval holds one run: runs of one batch differ, too.
  Estimate<double> amount(double batch) const;

 private:
  Estimate<double> estimate(double batch, double more_variance) const;

  double fewest_ = 0, slope_ = 0;  ///< amount = fewest + slope x batch
  double scale_ = 1;               ///< the mean batch, in units of which the covariance is
  double covariance_[2][2] = {};   ///< of (fewest, slope x scale), of errors of 1
  double freedom_ = 3, variance_ = 0, seeds_ = 0;
  Ends<double> range_;
};

}  // namespace rehearse::inline convergence
