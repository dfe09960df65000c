#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "rollout/batcher.hpp"
#include "rollout/rl_options.hpp"

namespace rehearse::inline rollout {

/// A generator on GPUs of its own beside a trainer: what each waits for, and how old trajectories
/// are when they are trained on.
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
LagRun lag_by_batches(std::int64_t limit, std::int64_t steps,
                      const std::function<Seconds(std::int64_t)>& generation, Seconds training,
                      Seconds refit);

/// Sequences that go on: a copy starts a new one where it has place and where no more than
/// limit + 1 steps' worth are ahead of what is trained. Trajectories are trained on in the order in
/// which they end. A refit stops every copy for its time. `requests`: those of step k.
LagRun lag_in_flight(const DecodeModel& model, std::size_t copies, double places, std::size_t most,
                     std::int64_t limit, std::int64_t steps,
                     const std::function<std::vector<Request>(std::int64_t)>& requests,
                     Seconds training, Seconds refit);

}  // namespace rehearse::inline rollout
