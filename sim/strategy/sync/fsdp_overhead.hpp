#pragma once

#include <vector>

#include "strategy/sync/fsdp_memory.hpp"

namespace rehearse::inline strategy {

/// Whether parameters are freed after forward and gathered once more.
bool reshards_after_forward(const ShardedParameters& options,
                            const std::vector<FlatParameter>& runs);

/// A unit's costs with what FSDP adds to them: its hooks on the host, and copies and conversions of
/// shares, gathered parameters and gradients on the GPU.
StepCosts with_fsdp_overhead(StepCosts costs, const std::vector<FlatParameter>& runs,
                             const ShardedParameters& options, const Job& job,
                             const Shards& shards);

}  // namespace rehearse::inline strategy
