#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "convergence/forecast.hpp"
#include "convergence/pace.hpp"
#include "convergence/rate_course.hpp"
#include "convergence/training_match.hpp"

namespace rehearse::inline convergence {

/// Question that each strategy is asked.
struct ForecastQuestion {
  /// When: after so much time, else after so many samples, else where the setting's course ends,
  /// else after as many samples as the longest run that the model was fitted to.
  std::optional<Seconds> at;
  std::optional<double> samples;
  std::optional<double> accuracy;  ///< to be reached, as a share
  RateCourse course{};             ///< over the samples that are asked for
};

/// A way to train: its name, the setting that it makes, and its pace where that is known.
struct TrainingPlan {
  std::string name;
  TrainingSetting setting;
  std::optional<Pace> pace;
  std::vector<Doubt> left_out = {};  ///< what the training does that the setting cannot say
};

/// One point of a forecast curve.
struct ForecastPoint {
  double samples = 0;
  std::optional<Seconds> time;
  Estimate<double> accuracy;
};

struct StrategyForecast {
  std::string name;
  double mean_staleness = 0;
  std::size_t p99_staleness = 0;
  double learning_rate = 0, momentum = 0, samples_per_update = 0;
  double delay_compensation = 0;  ///< lambda
  std::optional<Pace> pace;
  double stability_index = 0;
  double failure_probability = 0;
  Verdict verdict = Verdict::converges;

  double samples = 0;           ///< at which the accuracy is told
  std::optional<Seconds> time;  ///< likewise
  Estimate<double> accuracy;
  double mean_accuracy = 0;      ///< of the runs that train, of which `accuracy` has the median
  double staleness_loss = 0;     ///< accuracy of fresh gradients after as many updates, less this
  std::optional<double> target;  ///< the accuracy that was asked for
  Estimate<double> samples_to_target;     ///< infinite where it is never reached
  std::optional<Seconds> time_to_target;  ///< likewise; nothing without a target or a pace
  /// How many times as many updates it takes to the target as fresh gradients do; nothing where
  /// either never gets there.
  std::optional<double> samples_multiplier;

  std::vector<ForecastPoint> curve;  ///< up to `samples`
  std::vector<Doubt> outside_calibration;

  /// Weighed by how likely the run fails.
  double expected_accuracy = 0;
  std::optional<Seconds> time_to(double samples) const;
};

/// Each plan as it is, and with what may help against its staleness: a rate by staleness, corrected
/// momentum, and delay compensation where there is a `lambda` for it.
std::vector<TrainingPlan> with_mitigations(const std::vector<TrainingPlan>& plans,
                                           const std::optional<double>& lambda);

StrategyForecast forecast_strategy(const ConvergenceModel& model, const TrainingPlan& plan,
                                   const ForecastQuestion& question);

/// Which of them is best: the first to the target where one was asked for, else the most expected
/// accuracy; what surely trains goes before what may not. Nothing where none trains.
std::optional<std::size_t> best_of(const std::vector<StrategyForecast>& forecasts);

/// Everything that `rehearse forecast` answers.
struct ForecastReport {
  ConvergenceModel model;
  std::string network, dataset;
  TrainingMatch curves;  ///< whose they are, beside a simulated scenario
  std::vector<StrategyForecast> strategies;
  bool compared = false;  ///< whether the best of them is asked for
};

}  // namespace rehearse::inline convergence
