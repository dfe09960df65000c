#include "convergence/strategy_forecast.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rehearse::inline convergence {
namespace {

constexpr int kCurvePoints = 16;
constexpr int kEndPoints = 16;
constexpr double kCurveSpan = 100;  // from a hundredth of the samples on

double samples_asked(const ConvergenceModel& model, const TrainingPlan& plan,
                     const ForecastQuestion& question) {
  if (question.at && plan.pace) return plan.pace->samples_by(*question.at);
  if (question.samples) return *question.samples;
  const TrainingSetting& setting = plan.setting;
  if (!setting.course.empty()) return setting.samples_after(setting.course.back().update);
  return model.domain.most_updates * model.reference_samples;
}

/// Of the samples asked for: of equal width in their logarithm, and where the staleness changes,
/// as it does at a run's end, between the last two evenly.
std::vector<double> curve_shares(const TrainingSetting& setting) {
  std::vector<double> shares;
  for (int i = 0; i < kCurvePoints; ++i) {
    const double left = static_cast<double>(kCurvePoints - 1 - i) / (kCurvePoints - 1);
    shares.push_back(std::pow(kCurveSpan, -left));
  }
  if (setting.course.empty()) return shares;
  const double last = shares[kCurvePoints - 2];
  shares.pop_back();
  for (int i = 1; i <= kEndPoints; ++i)
    shares.push_back(std::lerp(last, 1.0, static_cast<double>(i) / kEndPoints));
  return shares;
}

std::vector<ForecastPoint> curve_of(const Forecast& forecast, const StrategyForecast& told) {
  std::vector<ForecastPoint> curve;
  for (const double share : curve_shares(forecast.setting())) {
    const double samples = told.samples * share;
    curve.push_back({samples, told.time_to(samples),
                     forecast.accuracy_after(forecast.setting().updates_after(samples))});
  }
  return curve;
}

void add_target(const Forecast& forecast, const Forecast& without, double accuracy,
                StrategyForecast& told) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const Estimate<std::optional<double>> needed = forecast.updates_to(accuracy);
  const auto samples = [&](const std::optional<double>& updates) {
    return updates ? forecast.setting().samples_after(*updates) : kNever;
  };
  told.target = accuracy;
  told.samples_to_target = {samples(needed.value), samples(needed.low), samples(needed.high)};
  told.time_to_target = told.time_to(told.samples_to_target.value);
  const Estimate<std::optional<double>> fresh = without.updates_to(accuracy);
  if (needed.value && fresh.value && *fresh.value > 0)
    told.samples_multiplier = *needed.value / *fresh.value;
}

/// Smaller is better.
std::pair<int, double> rank_of(const StrategyForecast& told) {
  const double figure = !told.target          ? -told.expected_accuracy
                        : told.time_to_target ? told.time_to_target->value()
                                              : told.samples_to_target.value;
  return {static_cast<int>(told.verdict), figure};
}

}  // namespace

std::optional<Seconds> StrategyForecast::time_to(double of_samples) const {
  if (!pace) return std::nullopt;
  return pace->time_to(of_samples);
}

std::vector<TrainingPlan> with_mitigations(const std::vector<TrainingPlan>& plans,
                                           const std::optional<double>& lambda) {
  std::vector<TrainingPlan> all;
  for (const TrainingPlan& plan : plans) {
    all.push_back(plan);
    if (plan.setting.staleness.max() == 0) continue;
    const auto workers = static_cast<std::uint32_t>(std::lround(plan.setting.staleness.mean())) + 1;
    const auto add = [&](const char* name, const Mitigation& by) {
      all.push_back({plan.name + ", " + name, mitigated(plan.setting, by, workers), plan.pace,
                     plan.left_out});
    };
    Mitigation aware;
    aware.staleness_aware = true;
    add("rate by staleness", aware);
    if (lambda) {
      Mitigation compensated;
      compensated.delay_compensation = *lambda;
      add("delay compensated", compensated);
    }
    if (plan.setting.momentum == 0) continue;
    Mitigation corrected;
    corrected.momentum_correction = true;
    add("momentum corrected", corrected);
  }
  return all;
}

StrategyForecast forecast_strategy(const ConvergenceModel& model, const TrainingPlan& asked,
                                   const ForecastQuestion& question) {
  TrainingPlan plan = asked;
  plan.setting = along(plan.setting, question.course, samples_asked(model, asked, question));
  const Forecast forecast(model, plan.setting);
  const Forecast without(model, fresh(plan.setting));
  StrategyForecast told;
  told.name = plan.name;
  told.mean_staleness = asked.setting.staleness.mean();
  told.p99_staleness = asked.setting.staleness.percentile(0.99);
  told.learning_rate = asked.setting.learning_rate;
  told.momentum = plan.setting.momentum;
  told.delay_compensation = plan.setting.delay_compensation;
  told.samples_per_update = asked.setting.samples_per_update;
  told.pace = plan.pace;
  told.stability_index = forecast.stability_index();
  told.failure_probability = forecast.failure_probability();
  told.verdict = forecast.verdict();
  told.samples = samples_asked(model, asked, question);
  told.time = told.time_to(told.samples);
  const double updates = plan.setting.updates_after(told.samples);
  told.accuracy = forecast.accuracy_after(updates);
  told.mean_accuracy = forecast.mean_accuracy_after(updates);
  told.staleness_loss = without.accuracy_after(updates).value - told.accuracy.value;
  told.expected_accuracy = (1 - told.failure_probability) * told.accuracy.value +
                           told.failure_probability * (1 - model.initial_error);
  if (question.accuracy) add_target(forecast, without, *question.accuracy, told);
  told.curve = curve_of(forecast, told);
  told.outside_calibration = forecast.outside_calibration(updates);
  told.outside_calibration.insert(told.outside_calibration.end(), plan.left_out.begin(),
                                  plan.left_out.end());
  return told;
}

std::optional<std::size_t> best_of(const std::vector<StrategyForecast>& forecasts) {
  if (forecasts.empty()) return std::nullopt;
  const auto best = std::ranges::min_element(forecasts, {}, rank_of);
  if (best->verdict == Verdict::diverges) return std::nullopt;
  if (best->target && !std::isfinite(best->samples_to_target.value)) return std::nullopt;
  return static_cast<std::size_t>(best - forecasts.begin());
}

}  // namespace rehearse::inline convergence
