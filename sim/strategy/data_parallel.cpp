// What replicas that one GPU holds run, and which program keeps a rank's replicas equal.
#include "base/error.hpp"
#include "strategy/build_schedule.hpp"
#include "strategy/sharding_groups.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {
namespace {

std::int64_t sharers(const ShardedParameters& options, const RankJob& rank) {
  const Job& job = rank.job;
  return static_cast<std::int64_t>(job.stage ? job.replicas() : shard_group_size(options, job));
}

Program flat_or_each(const ShardedParameters& options, const RankJob& rank) {
  const std::int64_t all = sharers(options, rank);
  const StagePlan* stage = rank.job.stage;
  const bool apart = stage && stage->expert_replicas_group;
  return torch_fsdp(options, rank,
                    {all, apart ? static_cast<std::int64_t>(stage->expert_replicas) : all});
}

/// The program of each kind of Strategy::sync.
struct ProgramOf {
  const RankJob& rank;

  Program operator()(const Alone& /*options*/) const { return alone(rank); }
  Program operator()(const TorchDdp& options) const { return torch_ddp(options, rank); }
  Program operator()(const Horovod& options) const { return horovod(options, rank); }
  Program operator()(const MegatronDdp& options) const { return megatron_ddp(options, rank); }
  Program operator()(const DeepspeedAllreduce& options) const {
    return deepspeed_allreduce(options, rank);
  }
  Program operator()(const DeepspeedBuckets& options) const {
    return deepspeed_buckets(options, rank);
  }
  Program operator()(const TorchFsdp1& options) const { return flat_or_each(options, rank); }
  Program operator()(const TorchFsdp2& options) const { return flat_or_each(options, rank); }
  Program operator()(const MegatronFsdp& options) const { return flat_or_each(options, rank); }
  /// Shards in host memory are copied before they are gathered, as FSDP's are.
  Program operator()(const DeepspeedZero3& options) const {
    const std::int64_t all = sharers(options, rank);
    if (options.cpu_offload || all == 1) return flat_or_each(options, rank);
    return deepspeed_zero(options, rank, all);
  }
  Program operator()(const ParameterServer& /*options*/) const {
    throw InternalError("a server's worker has a program of its own");
  }
};

}  // namespace

Program program_of(const Strategy& strategy, const RankJob& rank) {
  return std::visit(ProgramOf{rank}, strategy.sync);
}

Schedule data_parallel_schedule(const Strategy& strategy, const Job& job) {
  const auto sharded = sharded_in(strategy);
  const std::size_t shards = sharded ? shard_group_size(*sharded, job) : 1;
  if (sharded) check_post_forward_group(*sharded, job.cluster.gpu_count());
  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        return program_of(strategy, {job, group, group.name, costs});
      });
  if (sharded) {
    add_sharding_groups(schedule, shards, sharded->hybrid());
    add_post_forward_groups(schedule, static_cast<std::size_t>(sharded->post_forward_group));
  } else if (!is_alone(strategy)) {
    add_world(schedule);
  }
  return schedule;
}

}  // namespace rehearse::inline strategy
