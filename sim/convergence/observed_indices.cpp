#include "convergence/observed_indices.hpp"

#include <algorithm>
#include <utility>

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

/// The parts of a training until so many updates.
std::vector<CurveStretch> stretches_until(const TrainingSetting& setting, const Slowing& slowing,
                                          double updates, double reference) {
  std::vector<CurveStretch> parts;
  double samples = 0, left = updates;
  for (std::size_t i = 0; i < setting.stretches.size() && (left > 0 || i == 0); ++i) {
    const TrainingStretch& one = setting.stretches[i];
    const double whole = (one.samples - samples) / one.samples_per_update;
    const bool last = i + 1 == setting.stretches.size();
    parts.push_back({.effective_rate = one.learning_rate / (1 - setting.momentum),
                     .batch = one.samples_per_update / reference,
                     .stale = {one.staleness, slowing.stretches[i]},
                     .updates = last ? left : std::min(left, whole)});
    left -= parts.back().updates;
    samples = one.samples;
  }
  return parts;
}

}  // namespace

double compensated_part(const TrainingSetting& setting, double strength) {
  return strength * setting.delay_compensation / setting.samples_per_update;
}

Slowing slowing_of(const TrainingSetting& setting, double compensation, double order_factor) {
  const double index = slowing_index(setting, setting.staleness.mean(), compensation);
  const double edge = edge_of(setting, setting.staleness, compensation);
  std::vector<double> stretches;
  for (const TrainingStretch& one : setting.stretches)
    stretches.push_back(one.learning_rate /
                        edge_of(setting, nearly_constant_staleness(one.staleness), compensation) /
                        order_factor);
  return {.index = index / order_factor,
          .spread_gain = edge * index / setting.learning_rate,
          .order_factor = order_factor,
          .compensation = compensation,
          .stretches = std::move(stretches)};
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
          .initial_error = initial_error,
          .stretches = stretches_until(setting, slowing, updates, reference)};
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
