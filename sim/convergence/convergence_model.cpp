#include "convergence/convergence_model.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "convergence/curve_fit.hpp"
#include "convergence/stability.hpp"
#include "convergence/update_order.hpp"

namespace rehearse {
namespace {

constexpr double kIndependentPoints = 3;  // of a run
constexpr double kCurvatureNoises[] = {0, 0.25, 0.5, 1, 2, 4};
/// Of delay compensation, in units of lambda / samples per update.
constexpr double kStrengths[] = {0, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256};

/// Mean staleness in quarters of an update: runs of one setting differ a little in theirs.
long staleness_level(const Observation& seen) {
  return std::lround(4 * seen.setting.staleness.mean());
}

/// Least and most of the runs that trained.
std::pair<long, long> staleness_range(const std::vector<Observation>& observations) {
  std::pair<long, long> range{std::numeric_limits<long>::max(), 0};
  for (const Observation& seen : observations) {
    if (seen.failed) continue;
    range.first = std::min(range.first, staleness_level(seen));
    range.second = std::max(range.second, staleness_level(seen));
  }
  return range;
}

/// Observations of one setting get one number, in the order in which settings come.
std::vector<std::size_t> number_settings(const std::vector<Observation>& observations) {
  std::map<std::tuple<long, double, double, double, double>, std::size_t> numbers;
  std::vector<std::size_t> result;
  for (const Observation& seen : observations) {
    const auto key =
        std::tuple(staleness_level(seen), seen.setting.learning_rate, seen.setting.momentum,
                   seen.setting.samples_per_update, seen.setting.delay_compensation);
    result.push_back(numbers.try_emplace(key, numbers.size()).first->second);
  }
  return result;
}

/// What delay compensation makes up for, if it is so strong.
double part_of(const TrainingSetting& setting, double strength) {
  return strength * setting.delay_compensation / setting.samples_per_update;
}

/// The edges of all observations, for any noise of the curvature.
class ObservedEdges {
 public:
  ObservedEdges(const std::vector<Observation>& observations, double reference, double strength)
      : observations_(observations), reference_(reference) {
    for (const Observation& seen : observations) {
      edges_.emplace_back(seen.setting.staleness,
                          Descent{.momentum = seen.setting.momentum,
                                  .compensation = part_of(seen.setting, strength)});
    }
  }

  /// Their stability indices.
  std::vector<double> indices(double curvature_noise) {
    std::vector<double> result;
    for (std::size_t i = 0; i < observations_.size(); ++i) {
      const TrainingSetting& setting = observations_[i].setting;
      const double noise = curvature_noise * reference_ / setting.samples_per_update;
      result.push_back(setting.learning_rate / edges_[i].at(noise));
    }
    return result;
  }

 private:
  const std::vector<Observation>& observations_;
  double reference_;
  std::vector<StabilityEdges> edges_;
};

std::vector<Sample> samples_of(const std::vector<Observation>& observations,
                               const std::vector<double>& index, double initial_error) {
  const std::vector<std::size_t> settings = number_settings(observations);
  const auto [least, most] = staleness_range(observations);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& seen = observations[i];
    if (seen.failed) continue;
    const double weight =
        std::sqrt(std::min(1.0, kIndependentPoints / static_cast<double>(seen.points.size())));
    for (const ErrorPoint& point : seen.points) {
      samples.push_back(
          {.place = {seen.setting.effective_rate(), index[i], point.update, initial_error},
           .log_error = std::log(point.error),
           .weight = weight,
           .setting = settings[i],
           .last = &point == &seen.points.back(),
           .stalest = most > least && staleness_level(seen) == most});
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

/// The fit with this noise, with how likely the failures are on top.
CurveFit fit_with(const std::vector<Observation>& observations, const std::vector<double>& index,
                  double initial_error, const LearningCurve& start) {
  CurveFit fit = fit_curve(samples_of(observations, index, initial_error), start);
  fit.log_likelihood += odds_of(observations, index).log_evidence();
  return fit;
}

/// The noise of the curvature with which curves and failures are likeliest, and the fit with it.
std::pair<double, CurveFit> fit_noise(const std::vector<Observation>& observations,
                                      ObservedEdges& edges, double initial_error) {
  std::pair<double, CurveFit> best;
  best.second.curve = learning_curve_prior().mean;
  best.second.log_likelihood = -std::numeric_limits<double>::infinity();
  for (const double noise : kCurvatureNoises) {
    CurveFit fit = fit_with(observations, edges.indices(noise), initial_error, best.second.curve);
    if (fit.log_likelihood > best.second.log_likelihood) best = {noise, std::move(fit)};
  }
  return best;
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
Bracketed fit_strength(const std::vector<Observation>& observations, double reference, double noise,
                       double initial_error, const LearningCurve& start) {
  constexpr double kNearly = 0.5 * kQuantile90 * kQuantile90;
  constexpr std::size_t kCount = std::size(kStrengths);
  std::vector<double> likelihood;
  for (const double strength : kStrengths) {
    ObservedEdges edges(observations, reference, strength);
    likelihood.push_back(
        fit_with(observations, edges.indices(noise), initial_error, start).log_likelihood);
  }
  const auto best = std::ranges::max_element(likelihood);
  const auto nearly = [&](double value) { return value >= *best - kNearly; };
  const auto first =
      static_cast<std::size_t>(std::ranges::find_if(likelihood, nearly) - likelihood.begin());
  const auto last =
      kCount - 1 -
      static_cast<std::size_t>(std::find_if(likelihood.rbegin(), likelihood.rend(), nearly) -
                               likelihood.rbegin());
  return {kStrengths[first > 0 ? first - 1 : 0], kStrengths[best - likelihood.begin()],
          kStrengths[std::min(last + 1, kCount - 1)]};
}

}  // namespace

Bracketed compensation_of(const ConvergenceModel& model, const TrainingSetting& setting) {
  if (!compensated(setting)) return {};
  if (!model.compensation) return {0, std::min(1.0, part_of(setting, 1)), 1};
  const Bracketed& strength = *model.compensation;
  return {part_of(setting, strength.low), part_of(setting, strength.value),
          part_of(setting, strength.high)};
}

double stability_index(const ConvergenceModel& model, const TrainingSetting& setting,
                       double compensation) {
  const Descent descent{.momentum = setting.momentum,
                        .curvature_noise = model.curvature_noise * model.reference_samples /
                                           setting.samples_per_update,
                        .compensation = compensation};
  const double edge = stability_edge(setting.staleness, descent);
  return setting.learning_rate / (order_factor(setting.order, descent) * edge);
}

ConvergenceModel fit_convergence(const std::vector<Observation>& observations) {
  const auto failed = std::ranges::count_if(observations, &Observation::failed);
  const auto runs = static_cast<std::ptrdiff_t>(observations.size());
  check(failed < runs, "a fit has a run that trained");
  const double reference = median_samples(observations);
  const double initial_error = mean_initial_error(observations);
  const bool any_compensated = std::ranges::any_of(
      observations, [](const Observation& seen) { return compensated(seen.setting); });
  const std::vector<Observation> plain = without_compensation(observations);
  ObservedEdges plain_edges(plain, reference, 1);
  auto [noise, fit] = fit_noise(plain, plain_edges, initial_error);
  std::optional<Bracketed> strength;
  if (any_compensated)
    strength = fit_strength(observations, reference, noise, initial_error, fit.curve);
  ObservedEdges edges(observations, reference, strength ? strength->value : 0);
  const std::vector<double> index = edges.indices(noise);
  if (any_compensated) fit = fit_with(observations, index, initial_error, fit.curve);
  const HeldOut held_out = hold_out(samples_of(observations, index, initial_error), fit);
  const double inflation = inflation_of(held_out.deviations);
  const std::vector<std::size_t> settings = number_settings(observations);
  return {.curve = fit.curve,
          .covariance = fit.covariance,
          .curvature_noise = noise,
          .reference_samples = reference,
          .initial_error = initial_error,
          .spreads = fit.spreads,
          .compensation = strength,
          .inflation = inflation,
          .inflation_beyond = std::max(inflation, inflation_of(held_out.beyond)),
          .held_out_error = held_out.final_error,
          .settings = static_cast<int>(*std::ranges::max_element(settings)) + 1,
          .runs = static_cast<int>(runs),
          .failed_runs = static_cast<int>(failed),
          .least_failed_error = least_failed_error(observations, initial_error),
          .odds = odds_of(observations, index),
          .domain = domain_of(observations, index)};
}

}  // namespace rehearse
