#pragma once

#include <cstdint>
#include <string>

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// FSDP's program of one rank. Beside a pipeline its units are gathered once in a step, before
/// their first forward, and reduced once, after their last backward (torchtitan, whose
/// reshard_after_forward is false there).
Program sharded_program(const Fsdp& options, const Job& job, const NodeGroup& group,
                        const std::string& name, const StepCosts& costs);
/// The same of ZeRO-3 as DeepSpeed runs it (Fsdp::stage3), of so many ranks.
Program stage3_program(const Fsdp& options, const Job& job, const NodeGroup& group,
                       const std::string& name, const StepCosts& costs, std::int64_t shards);

}  // namespace rehearse::inline strategy
