#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convergence/convergence_model.hpp"

namespace rehearse::inline convergence {

/// Why a forecast lies outside of what its fit has seen.
struct Doubt {
  std::string subject;  ///< "mean staleness"
  std::string text;     ///< "mean staleness 5: fitted on 0 to 3"
};

enum class Verdict { converges, may_diverge, diverges };
std::string to_string(Verdict verdict);

/// Forecast by a fitted model for one setting. Making one takes the time of a stability edge (up to
/// some milliseconds), each question some microseconds.
///
/// A run fails with the probability that DivergenceOdds says; else ln(error) is normally
/// distributed about the curve. Its variance is that of runs plus that of the fitted parameters.
/// Beyond the fit's staleness, what another power of the staleness than the fit's may make of it is
/// added (a discrepancy of the model, which no fitted parameter has in it: Kennedy, O'Hagan,
/// "Bayesian calibration of computer models", 2001). So is what the strength of delay compensation
/// may make of it. Intervals hold 90 % of all runs: where nine in ten train, of those, with equal
/// tails of what is left; else from the 5 % quantile of both together to the 95 % one, which has
/// failed. The value is the median of the runs that do not fail, or the untrained accuracy where
/// the verdict is that it diverges.
class Forecast {
 public:
  Forecast(const ConvergenceModel& model, TrainingSetting setting);

  const TrainingSetting& setting() const { return setting_; }
  /// StabilityIndices::failing.
  double stability_index() const { return index_.failing; }
  double failure_probability() const { return failure_; }
  /// Diverges from a probability of 0.75 on, may from 0.05.
  Verdict verdict() const;

  /// Accuracy of one run.
  Estimate<double> accuracy_after(double updates) const;
  /// The mean of the runs that do not fail, of which accuracy_after() gives the median: what the
  /// mean of many runs is to be set beside. The error is normally distributed in its logarithm, cut
  /// off at the untrained error, so the mean lies below the median, the more the wider runs spread.
  double mean_accuracy_after(double updates) const;
  /// Updates that it takes to come to an accuracy, with the ends of accuracy_after; nothing where
  /// it never does.
  Estimate<std::optional<double>> updates_to(double accuracy) const;
  /// Reasons why the model was not fitted to anything like the setting: "learning rate 0.4: fitted
  /// on 0.02 to 0.2". `updates` are how far it is asked.
  std::vector<Doubt> outside_calibration(double updates) const;

 private:
  CurvePlace place(double updates, const StabilityIndices& index) const;
  /// The shares of all runs, from the best, between which the interval lies.
  std::pair<double, double> interval_parts() const;
  double log_error_at(double updates) const;
  /// Variance of ln(error) without what differs from run to run. It is that of the parameters, and
  /// beyond the fit's staleness (kPowerBeyond ln((1 + staleness) / (1 + fitted)) d ln(error) / d
  /// ln(slowing))^2.
  double unknown_variance(const CurvePlace& at) const;
  /// Deviation of ln(error), to its worse or its better side.
  double deviation_at(double updates, bool worse) const;
  double error_quantile(double updates, double part) const;
  std::optional<double> updates_until(double error, double part) const;

  const ConvergenceModel& model_;
  TrainingSetting setting_;
  StabilityIndices index_;
  StabilityIndices weak_index_, strong_index_;  ///< with compensation at the ends of its interval
  double failure_ = 0;
};

/// The same without staleness: what its staleness costs is told against it.
TrainingSetting fresh(TrainingSetting setting);

}  // namespace rehearse::inline convergence
