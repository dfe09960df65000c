#pragma once

#include <string>

#include "strategy/sharded_parameters.hpp"
#include "strategy/walk.hpp"

namespace rehearse::inline strategy {

/// The rank whose program is written: of a node group, in a job or in a stage of its layout.
struct RankJob {
  const Job& job;
  const NodeGroup& group;
  std::string name;
  const StepCosts& costs;
};

/// A GPU on its own.
Program alone(const RankJob& rank);

/// Each kind of Strategy::sync as its options say, which have the sources.
Program torch_ddp(const TorchDdp& options, const RankJob& rank);
Program horovod(const Horovod& options, const RankJob& rank);
Program deepspeed_allreduce(const DeepspeedAllreduce& options, const RankJob& rank);
/// In a layout: gradients add up in one buffer, in buckets that are reduced as they fill or behind
/// the last backward (core/distributed/param_and_grad_buffer.py).
Program megatron_ddp(const MegatronDdp& options, const RankJob& rank);
Program deepspeed_buckets(const DeepspeedBuckets& options, const RankJob& rank);

/// torch.distributed.fsdp, either of the two. Beside a pipeline its units are gathered once in a
/// step, before their first forward, and reduced once, after their last backward (torchtitan, whose
/// reshard_after_forward is false there).
Program torch_fsdp(const ShardedParameters& options, const RankJob& rank, const Shards& shards);
Program deepspeed_zero(const DeepspeedZero3& options, const RankJob& rank, const Shards& shards);
/// The one of all these that keeps the rank's replicas equal; a server's worker has one of its own.
Program program_of(const Strategy& strategy, const RankJob& rank);

}  // namespace rehearse::inline strategy
