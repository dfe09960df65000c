#include "convergence/observed_indices.hpp"

namespace rehearse::inline convergence {
namespace {

double edge_of(const TrainingSetting& setting, const Staleness& staleness, double compensation) {
  return mean_stability_edge(staleness,
                             {.momentum = setting.momentum, .compensation = compensation});
}

double slowing_index(const TrainingSetting& setting, double staleness, double compensation) {
  return setting.learning_rate /
         edge_of(setting, nearly_constant_staleness(staleness), compensation);
}

}  // namespace

double compensated_part(const TrainingSetting& setting, double strength) {
  return strength * setting.delay_compensation / setting.samples_per_update;
}

Slowing slowing_of(const TrainingSetting& setting, double compensation, double order_factor) {
  const double index = slowing_index(setting, setting.staleness.mean(), compensation);
  const double edge = edge_of(setting, setting.staleness, compensation);
  return {.index = index / order_factor,
          .spread_gain = edge * index / setting.learning_rate,
          .order_factor = order_factor,
          .compensation = compensation};
}

CurvePlace place_of(const TrainingSetting& setting, const Slowing& slowing, double updates,
                    double reference, double initial_error) {
  const double always = setting.staleness.mean();
  const auto stale = [&](double mean) {
    if (mean == always) return StalePlace{mean, slowing.index};
    return StalePlace{mean,
                      slowing_index(setting, mean, slowing.compensation) / slowing.order_factor};
  };
  const PastStaleness past = setting.past_after(updates);
  return {.effective_rate = setting.effective_rate(),
          .momentum = setting.momentum,
          .batch = setting.samples_per_update / reference,
          .so_far = stale(past.mean),
          .recent = stale(past.recent),
          .spread_gain = slowing.spread_gain,
          .updates = updates,
          .initial_error = initial_error};
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

}  // namespace rehearse::inline convergence
