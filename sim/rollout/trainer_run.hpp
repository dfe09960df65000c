#pragma once

#include <vector>

#include "rollout/refit.hpp"
#include "rollout/rl_step.hpp"

namespace rehearse::inline rollout {

/// What the trainer does of a step, in order, as it was played.
std::vector<RlPhase> trainer_phases(const RlOptions& options, const TrainerRun& run);

/// What a trainer that sleeps waits for its own states: 0 of one that does not.
struct TrainerSleep {
  Seconds before_generation;  ///< for its parameters, whose copy the generator takes
  Refit step;                 ///< of the whole step, and between what published rates it lies
};
TrainerSleep trainer_sleep(const RlOptions& options, const TrainerParts& parts);

}  // namespace rehearse::inline rollout
