#include "convergence/convergence_model.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "convergence/curve_fit.hpp"
#include "convergence/observed_indices.hpp"
#include "convergence/stability.hpp"
#include "convergence/update_order.hpp"

namespace rehearse::inline convergence {
namespace {

constexpr double kIndependentPoints = 3;  // of a run
constexpr double kCurvatureNoises[] = {0, 0.25, 0.5, 1, 2, 4};
/// Of delay compensation, in units of lambda / samples per update.
constexpr double kStrengths[] = {0, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256};

constexpr double kStalenessLevels = 4;  // to an update
/// Mean staleness in quarters of an update: runs of one setting differ a little in theirs.
long staleness_level(const Observation& seen) {
  return std::lround(kStalenessLevels * seen.setting.staleness.mean());
}

/// Observations of one setting get one number, in the order in which settings come.
std::vector<std::size_t> number_settings(const std::vector<Observation>& observations) {
  using Stretches = std::vector<std::tuple<double, double, double>>;
  std::map<std::tuple<long, double, double, double, double, Stretches>, std::size_t> numbers;
  std::vector<std::size_t> result;
  for (const Observation& seen : observations) {
    Stretches stretches;
    for (const TrainingStretch& one : seen.setting.stretches)
      stretches.emplace_back(one.samples, one.learning_rate, one.staleness);
    const auto key =
        std::tuple(staleness_level(seen), seen.setting.learning_rate, seen.setting.momentum,
                   seen.setting.samples_per_update, seen.setting.delay_compensation, stretches);
    result.push_back(numbers.try_emplace(key, numbers.size()).first->second);
  }
  return result;
}

/// Of the observations.
struct Averages {
  double samples = 1;  ///< per update
  double initial_error = 0;
};

/// `strength`: of delay compensation.
std::vector<Sample> samples_of(const std::vector<Observation>& observations, double strength,
                               const Averages& averages) {
  const std::vector<std::size_t> settings = number_settings(observations);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& seen = observations[i];
    if (seen.failed) continue;
    double stretches = 0;
    for (const ErrorPoint& point : seen.points) stretches += point.share;
    const double weight = std::min(1.0, kIndependentPoints / stretches);
    const Slowing slowing = slowing_of(seen.setting, compensated_part(seen.setting, strength));
    for (const ErrorPoint& point : seen.points) {
      samples.push_back({.place = place_of(seen.setting, slowing, point.update, averages.samples,
                                           averages.initial_error),
                         .log_error = std::log(point.error),
                         .weight = std::sqrt(weight * point.share),
                         .setting = settings[i],
                         .last = &point == &seen.points.back()});
    }
  }
  return samples;
}

double inflation_of(std::vector<double> deviations) {
  if (deviations.empty()) return 1;
  const auto at = static_cast<std::size_t>(0.9 * static_cast<double>(deviations.size()));
  const auto place = deviations.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(deviations.begin(), place, deviations.end());
  return std::max(1.0, *place / kQuantile90);
}

DivergenceOdds odds_of(const std::vector<Observation>& observations,
                       const std::vector<double>& index) {
  std::vector<TrainingOutcome> outcomes;
  for (std::size_t i = 0; i < observations.size(); ++i)
    outcomes.push_back({index[i], observations[i].failed});
  return DivergenceOdds(outcomes);
}

/// The noise of the curvature with which it is likeliest that just those failed that did; of
/// several the least.
double fit_noise(const std::vector<Observation>& observations, FailingIndices& indices) {
  std::pair<double, double> best{0, -std::numeric_limits<double>::infinity()};
  for (const double noise : kCurvatureNoises) {
    const double evidence = odds_of(observations, indices.at(noise)).log_evidence();
    if (evidence > best.second) best = {noise, evidence};
  }
  return best.first;
}

/// Those without delay compensation; all, where none of these trained.
std::vector<Observation> without_compensation(const std::vector<Observation>& observations) {
  std::vector<Observation> plain;
  std::ranges::copy_if(observations, std::back_inserter(plain),
                       [](const Observation& seen) { return !compensated(seen.setting); });
  return std::ranges::all_of(plain, &Observation::failed) ? observations : plain;
}

/// The likeliest strength, and those about it whose likelihood is above what leaves 90 % of a
/// normal distribution, a step of the grid further on either side.
Estimate<double> fit_strength(const std::vector<Observation>& observations,
                              const Averages& averages, double noise, const LearningCurve& start) {
  constexpr double kNearly = 0.5 * kQuantile90 * kQuantile90;
  constexpr std::size_t kCount = std::size(kStrengths);
  std::vector<double> likelihood;
  for (const double strength : kStrengths) {
    FailingIndices failing(observations, averages.samples, strength);
    const CurveFit fit = fit_curve(samples_of(observations, strength, averages), start);
    likelihood.push_back(fit.log_likelihood +
                         odds_of(observations, failing.at(noise)).log_evidence());
  }
  const auto best = std::ranges::max_element(likelihood);
  const auto nearly = [&](double value) { return value >= *best - kNearly; };
  const auto first =
      static_cast<std::size_t>(std::ranges::find_if(likelihood, nearly) - likelihood.begin());
  const auto last =
      kCount - 1 -
      static_cast<std::size_t>(std::find_if(likelihood.rbegin(), likelihood.rend(), nearly) -
                               likelihood.rbegin());
  return {.value = kStrengths[best - likelihood.begin()],
          .low = kStrengths[first > 0 ? first - 1 : 0],
          .high = kStrengths[std::min(last + 1, kCount - 1)]};
}

}  // namespace

Estimate<double> compensation_of(const ConvergenceModel& model, const TrainingSetting& setting) {
  if (!compensated(setting)) return {};
  if (!model.compensation)
    return {.value = std::min(1.0, compensated_part(setting, 1)), .low = 0, .high = 1};
  const Estimate<double>& strength = *model.compensation;
  return {.value = compensated_part(setting, strength.value),
          .low = compensated_part(setting, strength.low),
          .high = compensated_part(setting, strength.high)};
}

StabilityIndices stability_indices(const ConvergenceModel& model, const TrainingSetting& setting,
                                   double compensation) {
  const Descent descent{.momentum = setting.momentum,
                        .curvature_noise = model.curvature_noise * model.reference_samples /
                                           setting.samples_per_update,
                        .compensation = compensation};
  const double factor = order_factor(setting.order, descent);
  const double edge = stability_edge(setting.staleness, descent);
  return {.failing = setting.learning_rate / (factor * edge),
          .slowing = slowing_of(setting, compensation, factor)};
}

ConvergenceModel fit_convergence(const std::vector<Observation>& observations,
                                 double trained_error) {
  const auto failed = std::ranges::count_if(observations, &Observation::failed);
  const auto runs = static_cast<std::ptrdiff_t>(observations.size());
  check(failed < runs, "a fit has a run that trained");
  const Averages averages{median_samples(observations), mean_initial_error(observations)};
  const std::vector<Observation> plain = without_compensation(observations);
  FailingIndices plain_failing(plain, averages.samples, 1);
  const double noise = fit_noise(plain, plain_failing);
  CurveFit fit = fit_curve(samples_of(plain, 1, averages), learning_curve_prior().mean);
  std::optional<Estimate<double>> strength;
  if (std::ranges::any_of(observations,
                          [](const Observation& seen) { return compensated(seen.setting); }))
    strength = fit_strength(observations, averages, noise, fit.fitted.curve);
  const double likeliest = strength ? strength->value : 0;
  const std::vector<Sample> samples = samples_of(observations, likeliest, averages);
  if (strength) fit = fit_curve(samples, fit.fitted.curve);
  const HeldOut held_out = hold_out(samples, fit);
  const std::vector<double> index =
      FailingIndices(observations, averages.samples, likeliest).at(noise);
  const std::vector<std::size_t> settings = number_settings(observations);
  return {
      .fitted = fit.fitted,
      .curvature_noise = noise,
      .reference_samples = averages.samples,
      .initial_error = averages.initial_error,
      .spreads = fit.spreads,
      .compensation = strength,
      .inflation = inflation_of(held_out.deviations),
      .held_out_error = held_out.final_error,
      .settings = static_cast<int>(*std::ranges::max_element(settings)) + 1,
      .runs = static_cast<int>(runs),
      .failed_runs = static_cast<int>(failed),
      .trained_error = trained_error,
      .least_failed_error = least_failed_error(observations, averages.initial_error, trained_error),
      .odds = odds_of(observations, index),
      .domain = domain_of(observations, index)};
}

}  // namespace rehearse::inline convergence
