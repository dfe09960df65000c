#pragma once

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// DDP's schedule, its optimizer whole on every rank or (ZeRO-1) a share on each with an all_gather
/// of the new parameters.
Program replicated_program(const Ddp& options, const Job& job, bool sharded_optimizer,
                           const NodeGroup& group, const std::string& name, const StepCosts& costs);
/// The same of a rank of a layout, as Megatron-LM's DistributedDataParallel and distributed
/// optimizer (core/distributed/param_and_grad_buffer.py): gradients add up in one buffer, in
/// buckets that are reduced as they fill or behind the last backward.
Program buffered_program(const Ddp& options, const Job& job, bool sharded_optimizer,
                         const NodeGroup& group, const std::string& name, const StepCosts& costs);
Schedule build_replicated(const Ddp& options, const Job& job, bool sharded_optimizer);

}  // namespace rehearse::inline strategy
