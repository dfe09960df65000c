#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "rollout/batcher.hpp"
#include "rollout/rl_options.hpp"

namespace rehearse::inline rollout {

/// A generator on GPUs of its own beside a trainer: what each waits for, and how old trajectories
/// are when they are trained on. The means of the last steps that were played: they are played
/// until two runs of `limit + 4` steps have the same step and age, within half a percent.
struct LagRun {
  Seconds step;             ///< between two updates, steady
  Seconds trainer_waits;    ///< of a step, for trajectories
  Seconds generator_waits;  ///< of a step, for new weights; the mean over copies
  double mean_age = 0;      ///< updates, of trajectories that are trained on
  double most_age = 0;
  std::vector<double> ages;  ///< share of trajectories by age
  BatcherCounts counts;      ///< of all steps
  std::int64_t steps = 0;    ///< that were played
};

/// Batches that are generated whole. Batch k starts where the one before it has ended and the
/// weights of update k - limit are there; new weights take `refit` first. It is trained on where it
/// has ended and the trainer is free. `generation`: of batch k; `training`: from trajectories to
/// new weights.
LagRun lag_by_batches(std::int64_t limit, const std::function<Seconds(std::int64_t)>& generation,
                      Seconds training, Seconds refit);

/// The generator's GPUs, and what stands in their way.
struct Copies {
  const DecodeModel& model;
  std::size_t count = 0;
  double places = 0;
  std::size_t most = 0;  ///< sequences of a copy at a time
};

/// Sequences that go on over a refit, which stops every copy for its time. After an update, and
/// before the first, as many are begun as make limit + 1 steps' worth of those that are not trained
/// on yet (AReaL: arXiv 2505.24298, equation 3; verl: staleness_threshold). A group goes to the
/// copy with the fewest. `staleness.take` says which a step trains on, `staleness.stream` that its
/// updates begin one by one. `requests`: those of step k, the same number in each.
LagRun lag_in_flight(const Copies& copies, const StalenessOptions& staleness, std::int64_t updates,
                     const std::function<std::vector<Request>(std::int64_t)>& requests,
                     Seconds training, Seconds refit);

}  // namespace rehearse::inline rollout
