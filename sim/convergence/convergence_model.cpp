#include "convergence/convergence_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "convergence/curve_fit.hpp"
#include "convergence/stability.hpp"

namespace rehearse {
namespace {

constexpr double kIndependentPoints = 3;  // of a run
constexpr double kCurvatureNoises[] = {0, 0.25, 0.5, 1, 2, 4};

/// Observations of one setting get one number, in the order in which settings come.
std::vector<std::size_t> number_settings(const std::vector<Observation>& observations) {
  std::map<std::tuple<long, double, double, double>, std::size_t> numbers;
  std::vector<std::size_t> result;
  for (const Observation& seen : observations) {
    const long staleness = std::lround(4 * seen.setting.staleness.mean());
    const auto key = std::tuple(staleness, seen.setting.learning_rate, seen.setting.momentum,
                                seen.setting.samples_per_update);
    result.push_back(numbers.try_emplace(key, numbers.size()).first->second);
  }
  return result;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The edges of all observations, for any noise of the curvature.
class ObservedEdges {
 public:
  ObservedEdges(const std::vector<Observation>& observations, double reference)
      : observations_(observations), reference_(reference) {
    for (const Observation& seen : observations)
      edges_.emplace_back(seen.setting.staleness, seen.setting.momentum);
  }

  /// Their stability indices.
  std::vector<double> indices(double curvature_noise) {
    std::vector<double> result;
    for (std::size_t i = 0; i < observations_.size(); ++i) {
      const TrainingSetting& setting = observations_[i].setting;
      const double noise = curvature_noise * reference_ / setting.samples_per_update;
      result.push_back(setting.learning_rate / (setting.order_factor * edges_[i].at(noise)));
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

FittedDomain domain_of(const std::vector<Observation>& observations,
                       const std::vector<double>& index) {
  const TrainingSetting& first = observations.front().setting;
  FittedDomain domain{.least_rate = first.learning_rate,
                      .most_rate = first.learning_rate,
                      .least_momentum = first.momentum,
                      .most_momentum = first.momentum,
                      .least_samples = first.samples_per_update,
                      .most_samples = first.samples_per_update};
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& seen = observations[i];
    const TrainingSetting& setting = seen.setting;
    domain.least_rate = std::min(domain.least_rate, setting.learning_rate);
    domain.most_rate = std::max(domain.most_rate, setting.learning_rate);
    domain.least_momentum = std::min(domain.least_momentum, setting.momentum);
    domain.most_momentum = std::max(domain.most_momentum, setting.momentum);
    domain.least_samples = std::min(domain.least_samples, setting.samples_per_update);
    domain.most_samples = std::max(domain.most_samples, setting.samples_per_update);
    domain.most_staleness = std::max(domain.most_staleness, setting.staleness.mean());
    if (seen.failed) continue;
    domain.most_updates = std::max(domain.most_updates, seen.updates);
    domain.most_index = std::max(domain.most_index, index[i]);
  }
  return domain;
}

double mean_initial_error(const std::vector<Observation>& observations) {
  double sum = 0;
  for (const Observation& seen : observations) sum += seen.initial_error;
  return sum / static_cast<double>(observations.size());
}

double median_samples(const std::vector<Observation>& observations) {
  std::vector<double> samples;
  for (const Observation& seen : observations) samples.push_back(seen.setting.samples_per_update);
  return median(samples);
}

/// Of runs that went on to some end; by definition where there is none.
double least_failed_error(const std::vector<Observation>& observations, double initial_error) {
  double least = 1;
  bool seen_any = false;
  for (const Observation& seen : observations) {
    if (!seen.failed || seen.points.empty()) continue;
    least = std::min(least, seen.points.back().error);
    seen_any = true;
  }
  return seen_any ? std::min(least, initial_error) : kFailedShare * initial_error;
}

DivergenceOdds odds_of(const std::vector<Observation>& observations,
                       const std::vector<double>& index) {
  std::vector<TrainingOutcome> outcomes;
  for (std::size_t i = 0; i < observations.size(); ++i)
    outcomes.push_back({index[i], observations[i].failed});
  return DivergenceOdds(outcomes);
}

/// The noise of the curvature with which curves and failures are likeliest, and the fit with it.
std::pair<double, CurveFit> fit_noise(const std::vector<Observation>& observations,
                                      ObservedEdges& edges, double initial_error) {
  std::pair<double, CurveFit> best;
  best.second.curve = learning_curve_prior().mean;
  best.second.log_likelihood = -std::numeric_limits<double>::infinity();
  for (const double noise : kCurvatureNoises) {
    const std::vector<double> index = edges.indices(noise);
    CurveFit fit = fit_curve(samples_of(observations, index, initial_error), best.second.curve);
    fit.log_likelihood += odds_of(observations, index).log_evidence();
    if (fit.log_likelihood > best.second.log_likelihood) best = {noise, std::move(fit)};
  }
  return best;
}

}  // namespace

double stability_index(const ConvergenceModel& model, const TrainingSetting& setting) {
  const double noise = model.curvature_noise * model.reference_samples / setting.samples_per_update;
  const double edge = stability_edge(setting.staleness, {setting.momentum, noise});
  return setting.learning_rate / (setting.order_factor * edge);
}

ConvergenceModel fit_convergence(const std::vector<Observation>& observations) {
  const auto failed = std::ranges::count_if(observations, &Observation::failed);
  const auto runs = static_cast<std::ptrdiff_t>(observations.size());
  check(failed < runs, "a fit has a run that trained");
  const double reference = median_samples(observations);
  const double initial_error = mean_initial_error(observations);
  ObservedEdges edges(observations, reference);
  const auto [noise, fit] = fit_noise(observations, edges, initial_error);
  const std::vector<double> index = edges.indices(noise);
  const HeldOut held_out = hold_out(samples_of(observations, index, initial_error), fit);
  const std::vector<std::size_t> settings = number_settings(observations);
  return {.curve = fit.curve,
          .covariance = fit.covariance,
          .curvature_noise = noise,
          .reference_samples = reference,
          .initial_error = initial_error,
          .spreads = fit.spreads,
          .inflation = inflation_of(held_out.deviations),
          .held_out_error = held_out.final_error,
          .settings = static_cast<int>(*std::ranges::max_element(settings)) + 1,
          .runs = static_cast<int>(runs),
          .failed_runs = static_cast<int>(failed),
          .least_failed_error = least_failed_error(observations, initial_error),
          .odds = odds_of(observations, index),
          .domain = domain_of(observations, index)};
}

}  // namespace rehearse
