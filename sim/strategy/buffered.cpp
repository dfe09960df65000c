// Replicas of a layout as Megatron-LM keeps them the same (core/distributed): the gradients of each
// part of the model are views of one buffer, to which products add theirs
// (gradient_accumulation_fusion), and buckets are parts of it.
#include <algorithm>
#include <utility>

#include "strategy/replicated.hpp"
#include "strategy/stage_plan.hpp"

namespace rehearse::inline strategy {

namespace {

constexpr Bytes kMiB(1024.0 * 1024.0);
/// distributed_data_parallel.py: gradients of a bucket, and of each replica where that is more.
constexpr double kBucketElements = 40e6, kBucketElementsPerReplica = 1e6;

struct Choice {
  const Ddp& ddp;
  bool sharded;  ///< its optimizer
};

class BufferedProgram {
 public:
  BufferedProgram(const Choice& choice, const Job& job, const Node& node, const std::string& name,
                  const StepCosts& costs)
      : options_(choice),
        job_(job),
        node_(node),
        plan_(*job.stage),
        builder_(name, costs, job),
        nccl_(builder_.lane("nccl", LaneKind::communication)),
        runner_(builder_, plan_),
        element_(main_gradient_element(choice.ddp, job.precision)),
        first_forward_(job.model.units.size()) {
    for (std::size_t part = 0; part < plan_.parts.size(); ++part) {
      const auto [first, end] = std::pair(plan_.parts[part].first, plan_.parts[part].end);
      const auto own = assign_buckets(job.model, first, end, element_, cap(part), cap(part),
                                      plan_.expert_replicas_group.has_value());
      first_bucket_.push_back(buckets_.size());
      buckets_.insert(buckets_.end(), own.begin(), own.end());
    }
    first_bucket_.push_back(buckets_.size());
    if (plan_.expert_replicas_group)
      expert_nccl_ = builder_.lane("nccl (experts' replicas)", LaneKind::communication);
  }

  Program make() {
    add_setup();
    std::vector<After> reduced;
    for (std::size_t action = 0; action < plan_.order.size(); ++action) {
      if (!plan_.is_beside_next(action)) {
        add_action(action, reduced);
        continue;
      }
      ProgramBuilder::Fork fork = builder_.fork();
      add_action(action, reduced);
      builder_.second_of(fork);
      add_action(++action, reduced);
      builder_.join(fork);
    }
    if (!options_.ddp.overlap_grad_reduce)
      for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
        reduced.push_back(reduce(bucket, builder_.last_computed()));
    add_optimizer(std::move(reduced));
    return builder_.finish();
  }

 private:
  Bytes cap(std::size_t part) const;
  void add_setup();
  void add_action(std::size_t action, std::vector<After>& reduced);
  void add_forward(const StagePlan::Part& part, std::vector<After> after);
  void add_backward(std::size_t action, std::vector<After> after, std::vector<After>& reduced);
  After reduce(std::size_t bucket, OpId backward);
  void add_optimizer(std::vector<After> reduced);
  void gather_parameters(OpId step);
  std::size_t end_of(std::size_t bucket, std::size_t part) const;
  void await(std::size_t unit, OpId gather);
  /// Experts' gradients are those of fewer ranks, or of more.
  std::size_t replicas_of(bool experts) const {
    return experts ? plan_.expert_replicas : job_.replicas();
  }
  OpId exchange(CollectiveKind kind, const std::string& what, Bytes size, bool experts, OpId after);
  Shards shards() const;

  const Choice options_;
  const Job& job_;
  const Node& node_;
  const StagePlan& plan_;
  ProgramBuilder builder_;
  LaneId nccl_;
  std::optional<LaneId> expert_nccl_;
  StageRunner runner_;
  Bytes element_;  ///< of a gradient
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> first_bucket_;           ///< by part of the plan, and all
  std::vector<std::optional<OpId>> first_forward_;  ///< by unit: the first operation of a step
};

/// Of a bucket. Without overlap, behind the first stage and of a rank's further parts it is one, as
/// nothing would be gained.
Bytes BufferedProgram::cap(std::size_t part) const {
  if (options_.ddp.bucket_cap_mb > 0) return options_.ddp.bucket_cap_mb * kMiB;
  const bool first_stage = part == 0 && !plan_.parts[0].input;
  if (!options_.ddp.overlap_grad_reduce || !first_stage) return Bytes(1e18);
  const auto replicas = static_cast<double>(job_.replicas());
  return std::max(kBucketElements, kBucketElementsPerReplica * replicas) * element_;
}

void BufferedProgram::add_setup() {
  builder_.hold_parameters();
  builder_.hold_surroundings();
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
    builder_.hold(builder_.tensor(MemoryKind::gradients, buckets_[bucket].size,
                                  builder_.owner("bucket " + std::to_string(bucket))));
}

void BufferedProgram::add_action(std::size_t action, std::vector<After>& reduced) {
  const StagePlan::Part& part = plan_.parts[plan_.order[action].chunk];
  std::vector<After> after = runner_.begin(action);
  switch (plan_.order[action].what) {
    case PipelineAction::forward:
      add_forward(part, std::move(after));
      break;
    case PipelineAction::input:
      for (std::size_t unit = part.end; unit-- > part.first;)
        builder_.backward_input(unit, std::exchange(after, {}));
      break;
    case PipelineAction::backward:
    case PipelineAction::weight:
      add_backward(action, std::move(after), reduced);
  }
  runner_.end(action);
}

void BufferedProgram::add_forward(const StagePlan::Part& part, std::vector<After> after) {
  for (std::size_t unit = part.first; unit < part.end; ++unit) {
    const std::size_t before = builder_.program.ops.size();
    builder_.forward(unit, std::exchange(after, {}));
    if (first_forward_[unit]) continue;
    const auto& ops = builder_.program.ops;
    const auto first = std::find_if(ops.begin() + static_cast<std::ptrdiff_t>(before), ops.end(),
                                    [](const Op& op) { return op.phase == Phase::forward; });
    first_forward_[unit] = OpId(static_cast<std::size_t>(first - ops.begin()));
  }
}

void BufferedProgram::add_backward(std::size_t action, std::vector<After> after,
                                   std::vector<After>& reduced) {
  const bool last = runner_.is_last_backward(action) && options_.ddp.overlap_grad_reduce;
  const bool whole = plan_.order[action].what == PipelineAction::backward;
  const std::size_t which = plan_.order[action].chunk;
  const StagePlan::Part& part = plan_.parts[which];
  std::size_t next = first_bucket_[which];
  for (std::size_t unit = part.end; unit-- > part.first;) {
    const OpId backward =
        whole ? builder_.backward(unit, Gradients::summed, std::exchange(after, {}))
              : builder_.backward_weight(unit, Gradients::summed, std::exchange(after, {}));
    for (; last && next < first_bucket_[which + 1] && buckets_[next].first_unit == unit; ++next)
      reduced.push_back(reduce(next, backward));
  }
}

OpId BufferedProgram::exchange(CollectiveKind kind, const std::string& what, Bytes size,
                               bool experts, OpId after) {
  return builder_.collective(experts ? *expert_nccl_ : nccl_, what,
                             {.kind = kind,
                              .group = experts ? *plan_.expert_replicas_group : 0,
                              .size = size,
                              .algorithm = options_.ddp.algorithm},
                             {{after}});
}

Shards BufferedProgram::shards() const {
  if (!options_.sharded) return 1;
  const auto all = static_cast<std::int64_t>(job_.replicas());
  if (!plan_.expert_replicas_group) return all;
  return {all, static_cast<std::int64_t>(plan_.expert_replicas)};
}

/// Each is looked at for NaNs, and divided by the number of replicas in place: experts' too, whose
/// gradients come of all replicas' tokens (param_and_grad_buffer.py, start_grad_sync).
After BufferedProgram::reduce(std::size_t bucket, OpId backward) {
  const Bytes size = buckets_[bucket].size;
  const bool experts = buckets_[bucket].experts;
  const std::string name = "bucket " + std::to_string(bucket);
  OpId ready = backward;
  const auto pass = [&](const char* what, double passes) {
    ready = builder_.copy(name + what, passes * size, {{ready}}).value_or(ready);
  };
  if (options_.ddp.check_for_nan_in_grad) pass(", checked", 1);
  if (job_.replicas() > 1) pass(", divided", 2);
  if (replicas_of(experts) == 1 && experts) return {ready};
  const auto kind = options_.sharded ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  return {exchange(kind, name, size, experts, ready)};
}

void BufferedProgram::add_optimizer(std::vector<After> reduced) {
  builder_.finish_gradients({nccl_, element_, 1, options_.ddp.algorithm}, reduced);
  builder_.prepare_gradients({.lane = nccl_,
                              .shards = shards(),
                              .width = element_ / parameter_element(job_.precision),
                              .slower = builder_.step_slowdown(node_),
                              .algorithm = options_.ddp.algorithm},
                             reduced);
  const OpId step =
      builder_.optimizer(builder_.optimizer_time(shards(), node_), std::move(reduced));
  builder_.update(step, builder_.trained(shards()));
  Bytes all;
  for (const Bucket& bucket : buckets_) all += bucket.size;
  builder_.copy("zeros to gradients", all, {{step}});
  if (options_.sharded) gather_parameters(step);
  builder_.quantize_weights(step);
}

/// In the order in which the next forward needs them.
void BufferedProgram::gather_parameters(OpId step) {
  const double stored = parameter_element(job_.precision) / element_;
  const auto& order = plan_.order;
  const auto begins = std::ranges::find(order, PipelineAction::forward, &PipelineAction::what);
  for (std::size_t part = 0; part < plan_.parts.size(); ++part) {
    for (std::size_t bucket = first_bucket_[part + 1]; bucket-- > first_bucket_[part];) {
      const auto& [size, first_unit, experts] = buckets_[bucket];
      if (experts && replicas_of(experts) == 1) continue;
      const OpId gather =
          exchange(CollectiveKind::all_gather, "parameters of bucket " + std::to_string(bucket),
                   stored * size, experts, step);
      if (!options_.ddp.overlap_param_gather) {
        await(plan_.parts[begins->chunk].first, gather);
        continue;
      }
      for (std::size_t unit = first_unit; unit < end_of(bucket, part); ++unit) await(unit, gather);
    }
  }
}

/// Behind the last unit with a parameter in the bucket: a unit's may lie in two.
std::size_t BufferedProgram::end_of(std::size_t bucket, std::size_t part) const {
  for (std::size_t later = bucket; later-- > first_bucket_[part];)
    if (buckets_[later].experts == buckets_[bucket].experts) return buckets_[later].first_unit + 1;
  return plan_.parts[part].end;
}

/// The unit's first forward of the next step comes behind it.
void BufferedProgram::await(std::size_t unit, OpId gather) {
  if (first_forward_[unit]) builder_[*first_forward_[unit]].after.push_back({gather, 1});
}

}  // namespace

Bytes main_gradient_element(const Ddp& ddp, Precision precision) {
  const bool in_bf16 = precision == Precision::bf16_master || is_narrow(precision);
  const Bytes own = parameter_element(precision);
  return ddp.grad_reduce_in_fp32.value_or(in_bf16) ? std::max(own, Bytes(4)) : own;
}

Program buffered_program(const Ddp& options, const Job& job, bool sharded_optimizer,
                         const NodeGroup& group, const std::string& name, const StepCosts& costs) {
  const Choice choice{options, sharded_optimizer};
  return BufferedProgram(choice, job, group.node, name, costs).make();
}

}  // namespace rehearse::inline strategy
