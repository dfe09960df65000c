#pragma once

#include <string>

#include "strategy/walk.hpp"

namespace rehearse::inline strategy {

/// The rank whose program is written: of a node group, in a job or in a stage of its layout.
struct RankJob {
  const Job& job;
  const NodeGroup& group;
  std::string name;
  const StepCosts& costs;
};

/// How replicas that hold all parameters stay equal.
struct Replication {
  Ddp ddp;
  /// Each updates its share of the parameters, and all gather these (ZeRO-1, or Megatron-LM's
  /// distributed optimizer).
  bool sharded_optimizer = false;
};

/// A GPU on its own.
Program alone(const RankJob& rank);

/// torch.nn.parallel.DistributedDataParallel, with torch.distributed.optim.ZeroRedundancyOptimizer
/// where the optimizer is sharded.
Program torch_ddp(const Replication& options, const RankJob& rank);
/// Megatron-LM's DistributedDataParallel and distributed optimizer
/// (core/distributed/param_and_grad_buffer.py), in a layout: gradients add up in one buffer, in
/// buckets that are reduced as they fill or behind the last backward.
Program megatron_ddp(const Replication& options, const RankJob& rank);

/// DeepSpeed's ZeRO-1 and ZeRO-2 (Zero1::deepspeed).
Program deepspeed_buckets(const Zero1& options, const RankJob& rank);

/// torch.distributed.fsdp, either of the two. Beside a pipeline its units are gathered once in a
/// step, before their first forward, and reduced once, after their last backward (torchtitan, whose
/// reshard_after_forward is false there).
Program torch_fsdp(const Fsdp& options, const RankJob& rank, const Shards& shards);
/// ZeRO-3 as DeepSpeed runs it (Fsdp::stage3).
Program deepspeed_zero(const Fsdp& options, const RankJob& rank, const Shards& shards);
/// The one of all these that keeps the rank's replicas equal; a server's worker has one of its own.
Program program_of(const Strategy& strategy, const RankJob& rank);

}  // namespace rehearse::inline strategy
