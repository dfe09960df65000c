// Plain data parallelism: every rank trains the whole model, or a part of each layer's parameters.
#include <functional>

#include "strategy/build_schedule.hpp"
#include "strategy/sharding_groups.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {
namespace {

Schedule replicated(const Job& job, const std::function<Program(const RankJob&)>& program) {
  require_gpus(job);
  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        return program({job, group, group.name, costs});
      });
  add_world(schedule);
  return schedule;
}

}  // namespace

Schedule build(const Ddp& options, const Job& job) {
  return replicated(job, [&](const RankJob& rank) { return torch_ddp({options, false}, rank); });
}

Schedule build(const Zero1& options, const Job& job) {
  return replicated(job, [&](const RankJob& rank) {
    return options.deepspeed ? deepspeed_buckets(options, rank)
                             : torch_ddp({options.ddp, true}, rank);
  });
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

Schedule build(const Fsdp& options, const Job& job) {
  require_gpus(job);
  const std::size_t shards = shard_group_size(options, job);
  check_post_forward_group(options, job.cluster.gpu_count());
  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        return sharded(options, {job, group, group.name, costs});
      });
  add_sharding_groups(schedule, shards, options.sharding == Fsdp::Sharding::hybrid_shard);
  add_post_forward_groups(schedule, static_cast<std::size_t>(options.post_forward_group));
  return schedule;
}

}  // namespace rehearse::inline strategy
