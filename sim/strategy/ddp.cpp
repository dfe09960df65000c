// DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences on Accelerating Data
// Parallel Training", VLDB 2020): each bucket of gradients is all-reduced when its last one is
// ready, beside the rest of the backward pass.
#include "strategy/program_builder.hpp"
#include "strategy/replicated.hpp"

namespace rehearse {

namespace {

constexpr Bytes kMiB(1024.0 * 1024.0);

struct Options {
  const Ddp& ddp;
  const Job& job;
  bool sharded_optimizer;
};

Bytes on_the_wire(const Ddp& ddp, Bytes size, Bytes element) {
  return ddp.compression == Ddp::Compression::none ? size : size * (2 / element.value());
}

void add_resident(ProgramBuilder& builder, const Options& options,
                  const std::vector<Bucket>& buckets) {
  const Job& job = options.job;
  const double shards =
      options.sharded_optimizer ? static_cast<double>(job.cluster.gpu_count()) : 1;
  builder.resident(MemoryKind::parameters, parameter_bytes(job.model, job.precision));
  builder.resident(MemoryKind::optimizer_state, optimizer_state_bytes(job.model, job) / shards);
  Bytes bucketed;
  for (const Bucket& bucket : buckets) bucketed += bucket.size;
  builder.resident(MemoryKind::buckets, bucketed);
}

// One backward pass; the last micro-batch's issues the buckets as they fill. Gradients are taken in
// the first one, unless they live in the buckets.
std::vector<After> add_backward(ProgramBuilder& builder, const Options& options,
                                const std::vector<Bucket>& buckets, bool first, bool last,
                                LaneId nccl) {
  std::vector<After> reduced;
  std::size_t next = 0;
  const Bytes element = parameter_element(options.job.precision);
  for (std::size_t unit = options.job.model.units.size(); unit-- > 0;) {
    const OpId backward = builder.backward(unit);
    const Bytes gradients = parameter_bytes(options.job.model.units[unit], options.job.precision);
    if (first && !options.ddp.gradient_as_bucket_view)
      builder[backward].memory.push_back({MemoryKind::gradients, gradients});
    for (; last && next < buckets.size() && buckets[next].first_unit == unit; ++next)
      reduced.push_back(
          {builder.collective(nccl, "bucket " + std::to_string(next),
                              {.kind = CollectiveKind::all_reduce,
                               .size = on_the_wire(options.ddp, buckets[next].size, element),
                               .algorithm = options.ddp.algorithm},
                              {{backward}})});
  }
  return reduced;
}

void add_optimizer(ProgramBuilder& builder, const Options& options, std::vector<After> reduced,
                   LaneId nccl) {
  const Job& job = options.job;
  const double ranks = static_cast<double>(job.cluster.gpu_count());
  const Seconds whole = builder.costs().optimizer;
  const OpId step =
      builder.optimizer(options.sharded_optimizer ? whole / ranks : whole, std::move(reduced));
  if (!options.ddp.gradient_as_bucket_view)  // zero_grad(set_to_none=True)
    builder[step].memory.push_back(
        {MemoryKind::gradients, -parameter_bytes(job.model, job.precision)});
  if (!options.sharded_optimizer) return;
  const OpId gather = builder.collective(nccl, "parameters",
                                         {.kind = CollectiveKind::all_gather,
                                          .size = parameter_bytes(job.model, job.precision),
                                          .algorithm = options.ddp.algorithm},
                                         {{step}});
  builder[OpId(builder.program.ops.size() - 1)].label += ", updated";
  for (Op& op : builder.program.ops)
    if (op.phase == Phase::forward) {
      op.after.push_back({gather, 1});
      break;
    }
}

Program make_program(const Options& options, const NodeGroup& group, const StepCosts& costs) {
  const Job& job = options.job;
  ProgramBuilder builder(group.name, costs, job.model);
  const LaneId nccl = builder.lane("nccl", LaneKind::communication);
  const auto buckets =
      assign_buckets(job.model, parameter_element(job.precision),
                     options.ddp.first_bucket_mb * kMiB, options.ddp.bucket_cap_mb * kMiB);
  add_resident(builder, options, buckets);
  std::vector<After> reduced;
  for (int micro = 0; micro < options.ddp.gradient_accumulation; ++micro) {
    for (std::size_t unit = 0; unit < job.model.units.size(); ++unit) builder.forward(unit);
    const bool last = micro + 1 == options.ddp.gradient_accumulation;
    reduced = add_backward(builder, options, buckets, micro == 0, last, nccl);
  }
  add_optimizer(builder, options, std::move(reduced), nccl);
  return std::move(builder.program);
}

}  // namespace

Schedule build_replicated(const Ddp& ddp, const Job& job, bool sharded_optimizer) {
  require_gpus(job);
  const Options options{ddp, job, sharded_optimizer};
  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        return make_program(options, group, costs);
      });
  add_world(schedule);
  return schedule;
}

Schedule build(const Ddp& options, const Job& job) { return build_replicated(options, job, false); }

Schedule build_schedule(const Strategy& strategy, const Job& job) {
  return std::visit([&job](const auto& options) { return build(options, job); }, strategy);
}

}  // namespace rehearse
