#pragma once

#include "schedule/schedule.hpp"

namespace rehearse::inline rollout {

/// The forward passes of a training step alone, on the same ranks and micro-batches: of a policy's
/// or a reference's log-probabilities, a reward model, a teacher. All other operations join what
/// they come after. What a forward pass needs stays: gathered parameters, exchanges of a layer,
/// activations between stages, launches.
Schedule forward_passes(Schedule training);

}  // namespace rehearse::inline rollout
