// DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences on Accelerating Data
// Parallel Training", VLDB 2020): each bucket of gradients is all-reduced when its last one is
// ready, beside the rest of the backward pass.
#include <algorithm>
#include <utility>

#include "strategy/replicated.hpp"
#include "strategy/stage_plan.hpp"

namespace rehearse::inline strategy {

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

class DdpProgram {
 public:
  DdpProgram(const Options& options, const Node& node, const std::string& name,
             const StepCosts& costs)
      : options_(options),
        job_(options.job),
        node_(node),
        plan_(StagePlan::alone(job_.model, options.ddp.gradient_accumulation)),
        builder_(name, costs, job_),
        nccl_(builder_.lane("nccl", LaneKind::communication)),
        runner_(builder_, plan_),
        element_(parameter_element(job_.precision)) {
    for (const StagePlan::Part& part : plan_.parts) {
      const auto own =
          assign_buckets(job_.model, part.first, part.end, element_,
                         options.ddp.first_bucket_mb * kMiB, options.ddp.bucket_cap_mb * kMiB);
      first_bucket_.push_back(buckets_.size());
      buckets_.insert(buckets_.end(), own.begin(), own.end());
    }
  }

  Program make() {
    add_setup();
    std::vector<After> reduced;
    for (std::size_t action = 0; action < plan_.order.size(); ++action) {
      builder_.micro_batch(plan_.order[action].micro, options_.ddp.gradient_accumulation);
      add_action(action, reduced);
    }
    add_optimizer(std::move(reduced));
    return std::move(builder_.program);
  }

 private:
  void add_setup();
  void add_action(std::size_t action, std::vector<After>& reduced);
  std::vector<After> add_backward(std::size_t action, std::vector<After> after);
  Gradients gradients(bool first, bool last) const;
  After reduce(std::size_t bucket, OpId backward);
  std::optional<OpId> copy(const std::string& what, Bytes moved, After after);
  Bytes moved_to_convert(std::size_t bucket) const;
  Bytes moved_into(std::size_t bucket) const;
  Bytes moved_out_of(std::size_t bucket) const;
  void add_optimizer(std::vector<After> reduced);
  void rebuild_buckets(OpId step);

  const Options& options_;
  const Job& job_;
  const Node& node_;
  const StagePlan plan_;
  ProgramBuilder builder_;
  LaneId nccl_;
  StageRunner runner_;
  Bytes element_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> first_bucket_;  ///< by part of the plan
  std::vector<TensorId> first_buckets_, bucket_tensors_;
};

/// One GPU alone is trained without DDP. DDP tells all ranks rank 0's parameters in flat pieces of
/// 250 MiB (_sync_module_states), and its buckets are cut in the order of registration until the
/// first backward has shown that of readiness.
void DdpProgram::add_setup() {
  builder_.hold_parameters();
  builder_.hold_surroundings();
  if (job_.cluster.gpu_count() == 1) return;
  const std::uint32_t owner = builder_.owner("buckets");
  const Bytes all = parameter_bytes(job_.model, job_.precision);
  if (job_.device == TapeDevice::cuda) {
    const TensorId flat =
        builder_.tensor(MemoryKind::communication, std::min(all, 250 * kMiB), owner);
    builder_.hold(flat);
    builder_.program.setup.push_back({flat, TensorEvent::Action::give});
  }
  for (const Bytes size :
       registration_buckets(job_.model, element_, options_.ddp.first_bucket_mb * kMiB,
                            options_.ddp.bucket_cap_mb * kMiB)) {
    first_buckets_.push_back(builder_.tensor(MemoryKind::buckets, size, owner));
    builder_.hold(first_buckets_.back());
  }
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
    bucket_tensors_.push_back(builder_.tensor(MemoryKind::buckets, buckets_[bucket].size,
                                              builder_.owner("bucket " + std::to_string(bucket))));
}

/// With bucket views `.grad` is a tensor of its own only under no_sync(), until the last
/// micro-batch's gradients are added to it.
Gradients DdpProgram::gradients(bool first, bool last) const {
  const bool views = options_.ddp.gradient_as_bucket_view && (last || !job_.set_to_none) &&
                     job_.cluster.gpu_count() > 1;
  if (job_.optimizer.in_backward) return Gradients::used;
  return first && !views ? Gradients::kept : Gradients::added;
}

void DdpProgram::add_action(std::size_t action, std::vector<After>& reduced) {
  const StagePlan::Part& part = plan_.parts[plan_.order[action].chunk];
  std::vector<After> after = runner_.begin(action);
  const auto take = [&] { return std::exchange(after, {}); };
  switch (plan_.order[action].what) {
    case PipelineAction::forward:
      for (std::size_t unit = part.first; unit < part.end; ++unit) builder_.forward(unit, take());
      break;
    case PipelineAction::input:
      for (std::size_t unit = part.end; unit-- > part.first;) builder_.backward_input(unit, take());
      break;
    case PipelineAction::backward:
    case PipelineAction::weight:
      for (const After& one : add_backward(action, take())) reduced.push_back(one);
  }
  runner_.end(action);
}

/// One backward pass; a part's last issues the buckets as they fill.
std::vector<After> DdpProgram::add_backward(std::size_t action, std::vector<After> after) {
  const bool first = runner_.is_first_backward(action), last = runner_.is_last_backward(action);
  const bool whole = plan_.order[action].what == PipelineAction::backward;
  const std::size_t which = plan_.order[action].chunk;
  const StagePlan::Part& part = plan_.parts[which];
  const std::size_t end =
      which + 1 < first_bucket_.size() ? first_bucket_[which + 1] : buckets_.size();
  std::vector<After> reduced;
  std::size_t next = first_bucket_[which];
  for (std::size_t unit = part.end; unit-- > part.first;) {
    const OpId backward =
        whole ? builder_.backward(unit, gradients(first, last), std::exchange(after, {}))
              : builder_.backward_weight(unit, gradients(first, last), std::exchange(after, {}));
    if (job_.optimizer.in_backward) {
      builder_.optimizer_of(unit);
      continue;
    }
    if (last && !first && options_.ddp.gradient_as_bucket_view && job_.set_to_none &&
        job_.cluster.gpu_count() > 1)
      for (const TensorId id : builder_.gradients(unit)) builder_.give(backward, id);
    for (; last && next < end && buckets_[next].first_unit == unit; ++next)
      reduced.push_back(reduce(next, backward));
  }
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    const std::size_t bucket = first_bucket_[which] + i;
    if (const auto copied = copy("bucket " + std::to_string(bucket) + " to gradients",
                                 moved_out_of(bucket), reduced[i]))
      reduced[i] = {*copied};
  }
  return reduced;
}

/// One GPU alone is trained without DDP.
std::optional<OpId> DdpProgram::copy(const std::string& what, Bytes moved, After after) {
  if (job_.replicas() == 1) return std::nullopt;
  return builder_.copy(what, moved, {after});
}

/// Read and written by a hook that converts a bucket, either way; nothing where it has that type.
Bytes DdpProgram::moved_to_convert(std::size_t bucket) const {
  const Bytes size = buckets_[bucket].size;
  const Bytes converted = on_the_wire(options_.ddp, size, element_);
  return converted == size ? Bytes(0) : size + converted;
}

/// Read and written as a bucket fills: the Reducer divides each gradient by the number of ranks on
/// its way into it, in place where `.grad` is a view of it. Before a hook that compresses it only
/// copies; the hook converts, and divides what it made (fp16_compress_hook in
/// torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py).
Bytes DdpProgram::moved_into(std::size_t bucket) const {
  const Bytes size = buckets_[bucket].size;
  if (options_.ddp.compression == Ddp::Compression::none) return 2 * size;
  const Bytes copied = options_.ddp.gradient_as_bucket_view ? Bytes(0) : 2 * size;
  return copied + moved_to_convert(bucket) + 2 * on_the_wire(options_.ddp, size, element_);
}

/// And as it is emptied into `.grad`.
Bytes DdpProgram::moved_out_of(std::size_t bucket) const {
  const Bytes copied = options_.ddp.gradient_as_bucket_view ? Bytes(0) : 2 * buckets_[bucket].size;
  return moved_to_convert(bucket) + copied;
}

After DdpProgram::reduce(std::size_t bucket, OpId backward) {
  const auto filled =
      copy("gradients to bucket " + std::to_string(bucket), moved_into(bucket), {backward});
  const Bytes size = on_the_wire(options_.ddp, buckets_[bucket].size, element_);
  const OpId op = builder_.collective(
      nccl_, "bucket " + std::to_string(bucket),
      {.kind = CollectiveKind::all_reduce, .size = size, .algorithm = options_.ddp.algorithm},
      {{filled.value_or(backward)}});
  if (options_.ddp.compression != Ddp::Compression::none && !bucket_tensors_.empty()) {
    const std::uint32_t owner = builder_.program.tensors[bucket_tensors_[bucket].index()].owner;
    const TensorId copy = builder_.tensor(MemoryKind::communication, size, owner);
    builder_.take(op, copy);
    builder_.give(op, copy);
  }
  return {op};
}

void DdpProgram::add_optimizer(std::vector<After> reduced) {
  if (job_.optimizer.in_backward) return builder_.quantize_weights(builder_.last());
  const std::int64_t shards =
      options_.sharded_optimizer ? static_cast<std::int64_t>(job_.replicas()) : 1;
  builder_.prepare_gradients(
      {.lane = nccl_, .slower = builder_.step_slowdown(node_), .algorithm = options_.ddp.algorithm},
      reduced);
  if (!options_.sharded_optimizer) builder_.launch_optimizer(reduced);
  const OpId step = builder_.optimizer(builder_.optimizer_time(shards, node_), std::move(reduced));
  builder_.update(step, builder_.trained(shards));
  const bool views = options_.ddp.gradient_as_bucket_view && job_.cluster.gpu_count() > 1;
  if (!views) builder_.give_gradients(step);
  rebuild_buckets(step);
  builder_.quantize_weights(step);
  if (!options_.sharded_optimizer) return;
  const OpId gather = builder_.collective(nccl_, "parameters",
                                          {.kind = CollectiveKind::all_gather,
                                           .size = parameter_bytes(job_.model, job_.precision),
                                           .algorithm = options_.ddp.algorithm},
                                          {{step}});
  builder_[builder_.last()].remark = ", updated";
  for (Op& op : builder_.program.ops)
    if (op.phase == Phase::forward) {
      op.after.push_back({gather, 1});
      break;
    }
}

/// Before the second forward (Reducer::rebuild_buckets).
void DdpProgram::rebuild_buckets(OpId step) {
  if (job_.cluster.gpu_count() == 1) return;
  for (const TensorId id : first_buckets_)
    builder_.note(step, {id, TensorEvent::Action::give, true});
  for (const TensorId id : bucket_tensors_)
    builder_.note(step, {id, TensorEvent::Action::take, true});
}

}  // namespace

Program replicated_program(const Ddp& ddp, const Job& job, bool sharded_optimizer,
                           const NodeGroup& group, const std::string& name,
                           const StepCosts& costs) {
  const Options options{ddp, job, sharded_optimizer};
  return DdpProgram(options, group.node, name, costs).make();
}

Schedule build_replicated(const Ddp& ddp, const Job& job, bool sharded_optimizer) {
  require_gpus(job);
  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        return replicated_program(ddp, job, sharded_optimizer, group, group.name, costs);
      });
  add_world(schedule);
  return schedule;
}

Schedule build(const Ddp& options, const Job& job) { return build_replicated(options, job, false); }

}  // namespace rehearse::inline strategy
