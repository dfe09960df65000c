#pragma once

#include "strategy/strategy.hpp"

namespace rehearse {

/// DDP's schedule, its optimizer whole on every rank or (ZeRO-1) a share on each with an all_gather
/// of the new parameters.
Program replicated_program(const Ddp& options, const Job& job, bool sharded_optimizer,
                           const NodeGroup& group, const std::string& name,
                           const StepCosts& costs);
Schedule build_replicated(const Ddp& options, const Job& job, bool sharded_optimizer);

}  // namespace rehearse
