// What replicas that one GPU holds run, and which program keeps a rank's replicas equal.
#include "strategy/build_schedule.hpp"
#include "strategy/sharding_groups.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {
namespace {

Program replicated(const Replication& replication, const RankJob& rank) {
  const StagePlan* stage = rank.job.stage;
  const bool torch = !stage || replication.ddp.reducer;
  return torch ? torch_ddp(replication, rank) : megatron_ddp(replication, rank);
}

Program sharded(const Fsdp& options, const RankJob& rank) {
  const Job& job = rank.job;
  const auto all =
      static_cast<std::int64_t>(job.stage ? job.replicas() : shard_group_size(options, job));
  // Shards in host memory are copied before they are gathered, as FSDP's are.
  if (options.stage3 && !options.cpu_offload && all > 1) return deepspeed_zero(options, rank, all);
  const bool apart = job.stage && job.stage->expert_replicas_group;
  const Shards shards(all, apart ? static_cast<std::int64_t>(job.stage->expert_replicas) : all);
  return torch_fsdp(options, rank, shards);
}

}  // namespace

Program program_of(const Strategy& strategy, const RankJob& rank) {
  if (const Ddp* ddp = ddp_in(strategy)) return replicated({*ddp, false}, rank);
  if (const Fsdp* fsdp = fsdp_in(strategy)) return sharded(*fsdp, rank);
  const Zero1* zero = zero_in(strategy);
  if (zero == nullptr) return alone(rank);
  return zero->deepspeed ? deepspeed_buckets(*zero, rank) : replicated({zero->ddp, true}, rank);
}

Schedule data_parallel_schedule(const Strategy& strategy, const Job& job) {
  const Fsdp* fsdp = fsdp_in(strategy);
  const std::size_t shards = fsdp ? shard_group_size(*fsdp, job) : 1;
  if (fsdp) check_post_forward_group(*fsdp, job.cluster.gpu_count());
  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        return program_of(strategy, {job, group, group.name, costs});
      });
  if (fsdp) {
    add_sharding_groups(schedule, shards, fsdp->sharding == Fsdp::Sharding::hybrid_shard);
    add_post_forward_groups(schedule, static_cast<std::size_t>(fsdp->post_forward_group));
  } else if (!is_alone(strategy)) {
    add_world(schedule);
  }
  return schedule;
}

}  // namespace rehearse::inline strategy
