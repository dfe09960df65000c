#pragma once

#include <vector>

#include "rollout/refit.hpp"
#include "rollout/rl_step.hpp"

namespace rehearse::inline rollout {

/// Lists the trainer's phases of a step, in order, as they were played.
std::vector<RlPhase> trainer_phases(const RlOptions& options, const TrainerRun& run);

/// A trainer that sleeps waits for its own states so long; one that does not, 0.
struct TrainerSleep {
  Seconds before_generation;  ///< for its parameters, whose copy the generator takes
  Refit step;                 ///< of the whole step, and between what published rates it lies
};
TrainerSleep trainer_sleep(const RlOptions& options, const TrainerParts& parts);

}  // namespace rehearse::inline rollout
