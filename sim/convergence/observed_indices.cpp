#include "convergence/observed_indices.hpp"

namespace rehearse {

double compensated_part(const TrainingSetting& setting, double strength) {
  return strength * setting.delay_compensation / setting.samples_per_update;
}

double slowing_index(const TrainingSetting& setting, double compensation) {
  const double edge =
      mean_stability_edge(nearly_constant_staleness(setting.staleness.mean()),
                          {.momentum = setting.momentum, .compensation = compensation});
  return setting.learning_rate / edge;
}

std::vector<double> slowing_indices(const std::vector<Observation>& observations, double strength) {
  std::vector<double> result;
  result.reserve(observations.size());
  for (const Observation& seen : observations)
    result.push_back(slowing_index(seen.setting, compensated_part(seen.setting, strength)));
  return result;
}

FailingIndices::FailingIndices(const std::vector<Observation>& observations, double reference,
                               double strength)
    : observations_(observations), reference_(reference) {
  for (const Observation& seen : observations) {
    edges_.emplace_back(seen.setting.staleness,
                        Descent{.momentum = seen.setting.momentum,
                                .compensation = compensated_part(seen.setting, strength)});
  }
}

std::vector<double> FailingIndices::at(double curvature_noise) {
  std::vector<double> result;
  for (std::size_t i = 0; i < observations_.size(); ++i) {
    const TrainingSetting& setting = observations_[i].setting;
    const double noise = curvature_noise * reference_ / setting.samples_per_update;
    result.push_back(setting.learning_rate / edges_[i].at(noise));
  }
  return result;
}

}  // namespace rehearse
