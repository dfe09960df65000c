#include "convergence/fitted_domain.hpp"

#include <algorithm>

#include "base/percentile.hpp"

namespace rehearse::inline convergence {

bool compensated(const TrainingSetting& setting) {
  return setting.delay_compensation > 0 && setting.staleness.max() > 0;
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
    if (compensated(setting))
      domain.most_compensation = std::max(domain.most_compensation, setting.delay_compensation);
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
  samples.reserve(observations.size());
  for (const Observation& seen : observations) samples.push_back(seen.setting.samples_per_update);
  return base::percentile(samples, 0.5);
}

double least_failed_error(const std::vector<Observation>& observations, double initial_error,
                          double trained_error) {
  double least = 1;
  bool seen_any = false;
  for (const Observation& seen : observations) {
    if (!seen.failed || seen.points.empty()) continue;
    least = std::min(least, seen.points.back().error);
    seen_any = true;
  }
  return seen_any ? std::min(least, initial_error) : failed_error(initial_error, trained_error);
}

}  // namespace rehearse::inline convergence
