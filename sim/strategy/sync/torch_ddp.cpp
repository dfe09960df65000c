// DistributedDataParallel (Li et al., "PyTorch Distributed: Experiences on Accelerating Data
// Parallel Training", VLDB 2020): each bucket of gradients is all-reduced when its last one is
// ready, beside the rest of the backward pass.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "strategy/holdings.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {

namespace {

constexpr Bytes kMiB(1024.0 * 1024.0);

/// Operators that take the host as long as DDP itself: each tensor in forward and in backward, and
/// each bucket, whose hook, event and collective it launches. Forward took 0.04 ms for each tensor
/// where an operator took 49 us, backward 0.02 ms and 0.1 ms for each bucket
/// (tests/validation/hopper, the third day).
constexpr double kTensorForward = 0.85, kTensorBackward = 0.37, kBucket = 2;

/// By part of the plan.
using PartBuckets = std::vector<std::vector<Bucket>>;

/// Whether experts' gradients have a reducer of their own, over the ranks that have the same ones:
/// DDP takes one process group (torch/nn/parallel/distributed.py).
bool reduces_experts(const StagePlan& plan) {
  return plan.expert_replicas_group && plan.expert_replicas > 1;
}

/// Experts that no other rank has are left out of DDP (_ddp_params_and_buffers_to_ignore).
bool has_reducer(const Unit& unit, std::size_t tensor, const StagePlan& plan) {
  if (!unit.trait(tensor).trained) return false;
  return !plan.expert_replicas_group || reduces_experts(plan) || !unit.is_of_experts(tensor);
}

/// Of tensors that are buckets of their own, those that are ready within a cycle of Horovod's
/// thread go together, up to its buffer's size (horovod/common/controller.cc, FuseResponses).
std::vector<Bucket> fused(const std::vector<Bucket>& tensors, const Ddp& ddp,
                          const StepCosts& costs, std::size_t end) {
  std::vector<Bucket> fused;
  Seconds ready;
  std::size_t next = end;
  double cycle = -1;
  for (const Bucket& tensor : tensors) {
    while (next > tensor.first_unit) ready += costs.units[--next].backward;
    const double at = std::floor(ready / ddp.cycle_time);
    const bool fits = !fused.empty() && fused.back().size + tensor.size <= ddp.bucket_cap_mb * kMiB;
    if (at == cycle && fits) {
      fused.back().size += tensor.size;
      fused.back().first_unit = tensor.first_unit;
    } else {
      fused.push_back(tensor);
      fused.back().wakes = at != cycle;
    }
    cycle = at;
  }
  return fused;
}

/// Equal slices of those that are larger than a partition.
std::vector<Bucket> sliced(const std::vector<Bucket>& whole, Bytes partition) {
  if (partition <= Bytes(0)) return whole;
  std::vector<Bucket> slices;
  for (const Bucket& bucket : whole) {
    const auto parts = static_cast<std::size_t>(std::ceil(bucket.size / partition));
    for (std::size_t i = 0; i < parts; ++i) {
      slices.push_back(bucket);
      slices.back().size = bucket.size / static_cast<double>(parts);
      slices.back().wakes = bucket.wakes && i == 0;
    }
  }
  return slices;
}

PartBuckets buckets_of(const Ddp& ddp, const RankJob& rank, const StagePlan& plan) {
  constexpr Bytes kEachTensor(1);
  const Job& job = rank.job;
  const bool cycles = ddp.cycle_time > Seconds(0);
  PartBuckets buckets;
  for (const StagePlan::Part& part : plan.parts) {
    buckets.push_back(assign_buckets(
        job.model, part.first, part.end, parameter_element(job.precision),
        cycles ? kEachTensor : ddp.first_bucket_mb * kMiB,
        cycles ? kEachTensor : ddp.bucket_cap_mb * kMiB, plan.expert_replicas_group.has_value()));
    if (cycles) buckets.back() = fused(buckets.back(), ddp, rank.costs, part.end);
    buckets.back() = sliced(buckets.back(), ddp.partition);
    if (!reduces_experts(plan)) std::erase_if(buckets.back(), std::mem_fn(&Bucket::experts));
  }
  return buckets;
}

/// With what the reducer takes the host. Buckets are reduced in the last of several micro-batches,
/// whose costs are those of the others.
StepCosts with_reducer(StepCosts costs, const Job& job, const Ddp& ddp, const StagePlan& plan,
                       const PartBuckets& buckets) {
  if (job.replicas() == 1) return costs;
  for (std::size_t i = 0; i < job.model.units.size(); ++i) {
    const Unit& unit = job.model.units[i];
    double tensors = 0;
    for (std::size_t tensor = 0; tensor < unit.tensors.size(); ++tensor)
      tensors += has_reducer(unit, tensor, plan) ? 1 : 0;
    costs.units[i].forward_launch += tensors * kTensorForward * costs.host_operator;
    costs.units[i].backward_launch += tensors * kTensorBackward * costs.host_operator;
  }
  for (const std::vector<Bucket>& part : buckets)
    for (const Bucket& bucket : part)
      costs.units[bucket.first_unit].backward_launch +=
          kBucket / ddp.gradient_accumulation * costs.host_operator;
  return costs;
}

Bytes on_the_wire(const Ddp& ddp, Bytes size, Precision precision) {
  const Bytes element = parameter_element(precision);
  if (ddp.compression == Ddp::Compression::none) return size;
  if (ddp.compression == Ddp::Compression::activations)
    return size * std::min(1.0, activation_element(precision) / element);
  return size * (2 / element.value());
}

class TorchDdp : public Sync {
 public:
  TorchDdp(const Replication& options, const RankJob& rank, const StagePlan& plan,
           const PartBuckets& buckets, ProgramBuilder& builder)
      : options_(options),
        job_(rank.job),
        node_(rank.group.node),
        plan_(plan),
        builder_(builder),
        nccl_(builder.lane("nccl", LaneKind::communication)),
        element_(parameter_element(job_.precision)),
        first_forward_(job_.model.units.size()) {
    for (const std::vector<Bucket>& own : buckets) {
      first_bucket_.push_back(buckets_.size());
      buckets_.insert(buckets_.end(), own.begin(), own.end());
    }
    first_bucket_.push_back(buckets_.size());
  }

  void setup() override;
  std::vector<After> before_forward(std::size_t unit, const Pass& pass) override;
  void after_forward(std::size_t unit, OpId forward, const Pass& pass) override;
  Gradients gradients(const Pass& pass) const override;
  void after_backward(std::size_t unit, OpId backward, const Pass& pass) override;
  void after_pass(const Pass& pass) override;
  void step() override;

 private:
  bool crosses_steps() const { return options_.ddp.by_priority && job_.replicas() > 1; }
  void step_by_bucket();
  /// One GPU alone is trained without DDP.
  bool views() const { return options_.ddp.gradient_as_bucket_view && job_.replicas() > 1; }
  After reduce(std::size_t bucket, OpId backward);
  std::vector<After> once_woken(std::size_t bucket, OpId ready);
  std::optional<OpId> wait(std::optional<LaneId> lane, const char* what, Seconds time,
                           std::vector<After> after);
  std::optional<OpId> copy(const std::string& what, Bytes moved, After after);
  Bytes moved_to_convert(std::size_t bucket) const;
  Bytes moved_into(std::size_t bucket) const;
  Bytes moved_out_of(std::size_t bucket) const;
  void gather_parameters(OpId step);
  void rebuild_buckets(OpId step);
  void hold_first_buckets(std::optional<bool> experts, std::uint32_t owner);
  void hold_views_of_experts(std::uint32_t owner);

  const Replication options_;
  const Job& job_;
  const Node& node_;
  const StagePlan& plan_;
  ProgramBuilder& builder_;
  LaneId nccl_;
  std::optional<LaneId> expert_nccl_, cycle_lane_;
  std::optional<OpId> woken_;  ///< of the last cycle
  Bytes element_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> first_bucket_;           ///< by part of the plan, and all
  std::vector<std::optional<OpId>> first_forward_;  ///< by unit: the first operation of a step
  std::size_t begun_ = 0;                           ///< the operation that this forward began with
  std::vector<TensorId> first_buckets_, bucket_tensors_;
  std::vector<After> reduced_;  ///< of this pass
  std::vector<After> ready_;    ///< of this step: gradients are where the optimizer finds them
};

/// One GPU alone is trained without DDP. DDP tells all ranks rank 0's parameters in flat pieces of
/// 250 MiB (_sync_module_states), and its buckets are cut in the order of registration until the
/// first backward has shown that of readiness.
void TorchDdp::setup() {
  hold_parameters(builder_);
  hold_surroundings(builder_);
  if (job_.replicas() == 1) return;
  const std::uint32_t owner = builder_.owner("buckets");
  const Bytes all = parameter_bytes(job_.model, job_.precision);
  if (job_.device == TapeDevice::cuda) {
    const TensorId flat =
        builder_.tensor(MemoryKind::communication, std::min(all, 250 * kMiB), owner);
    builder_.hold(flat);
    builder_.program.setup.push_back({flat, TensorEvent::Action::give});
  }
  const bool apart = plan_.expert_replicas_group.has_value();
  hold_first_buckets(apart ? std::optional(false) : std::nullopt, owner);
  if (reduces_experts(plan_)) {
    expert_nccl_ = builder_.lane("nccl (experts' replicas)", LaneKind::communication);
    hold_first_buckets(true, owner);
  } else if (apart && views()) {
    hold_views_of_experts(owner);
  }
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
    bucket_tensors_.push_back(builder_.tensor(MemoryKind::buckets, buckets_[bucket].size,
                                              builder_.owner("bucket " + std::to_string(bucket))));
}

void TorchDdp::hold_first_buckets(std::optional<bool> experts, std::uint32_t owner) {
  for (const Bytes size :
       registration_buckets(job_.model, element_, options_.ddp.first_bucket_mb * kMiB,
                            options_.ddp.bucket_cap_mb * kMiB, experts)) {
    first_buckets_.push_back(builder_.tensor(MemoryKind::buckets, size, owner));
    builder_.hold(first_buckets_.back());
  }
}

/// Gradients of experts without a reducer stand where views of buckets would.
void TorchDdp::hold_views_of_experts(std::uint32_t owner) {
  const Bytes size = expert_bytes(job_.model, job_.precision);
  if (size > Bytes(0)) builder_.hold(builder_.tensor(MemoryKind::gradients, size, owner));
}

std::vector<After> TorchDdp::before_forward(std::size_t /*unit*/, const Pass& /*pass*/) {
  begun_ = builder_.program.ops.size();
  return {};
}

void TorchDdp::after_forward(std::size_t unit, OpId /*forward*/, const Pass& /*pass*/) {
  if (first_forward_[unit]) return;
  const auto& ops = builder_.program.ops;
  const auto first = std::find_if(ops.begin() + static_cast<std::ptrdiff_t>(begun_), ops.end(),
                                  [](const Op& op) { return op.phase == Phase::forward; });
  first_forward_[unit] = OpId(static_cast<std::size_t>(first - ops.begin()));
}

/// With bucket views `.grad` is a tensor of its own only under no_sync(), until the last
/// micro-batch's gradients are added to it.
Gradients TorchDdp::gradients(const Pass& pass) const {
  if (job_.optimizer.in_backward) return Gradients::used;
  const bool in_buckets = views() && (pass.last || !job_.set_to_none);
  return pass.first && !in_buckets ? Gradients::kept : Gradients::added;
}

/// A part's last backward issues the buckets as they fill.
void TorchDdp::after_backward(std::size_t unit, OpId backward, const Pass& pass) {
  if (job_.optimizer.in_backward) return optimizer_of(builder_, unit);
  if (!pass.last || options_.ddp.behind_backward) return;
  if (!pass.first && views() && job_.set_to_none)
    for (const TensorId id : builder_.tapes().gradients(unit)) builder_.give(backward, id);
  for (std::size_t next = first_bucket_[pass.part] + reduced_.size();
       next < first_bucket_[pass.part + 1] && buckets_[next].first_unit == unit; ++next)
    reduced_.push_back(reduce(next, backward));
}

void TorchDdp::after_pass(const Pass& pass) {
  if (options_.ddp.behind_backward && pass.last && !job_.optimizer.in_backward)
    for (std::size_t next = first_bucket_[pass.part]; next < first_bucket_[pass.part + 1]; ++next)
      reduced_.push_back(reduce(next, *builder_.last_computed()));
  for (std::size_t i = 0; i < reduced_.size() && !crosses_steps(); ++i) {
    const std::size_t bucket = first_bucket_[pass.part] + i;
    if (const auto copied = copy("bucket " + std::to_string(bucket) + " to gradients",
                                 moved_out_of(bucket), reduced_[i]))
      reduced_[i] = {*copied};
  }
  ready_.insert(ready_.end(), reduced_.begin(), reduced_.end());
  reduced_.clear();
}

std::optional<OpId> TorchDdp::copy(const std::string& what, Bytes moved, After after) {
  if (job_.replicas() == 1) return std::nullopt;
  return builder_.copy(what, moved, {after});
}

/// Read and written by a hook that converts a bucket, either way; nothing where it has that type.
Bytes TorchDdp::moved_to_convert(std::size_t bucket) const {
  const Bytes size = buckets_[bucket].size;
  const Bytes converted = on_the_wire(options_.ddp, size, job_.precision);
  return converted == size ? Bytes(0) : size + converted;
}

/// Read and written as a bucket fills: the Reducer divides each gradient by the number of ranks on
/// its way into it, in place where `.grad` is a view of it. Before a hook that compresses it only
/// copies; the hook converts, and divides what it made (fp16_compress_hook in
/// torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py).
Bytes TorchDdp::moved_into(std::size_t bucket) const {
  const Bytes size = buckets_[bucket].size;
  const Bytes sent = on_the_wire(options_.ddp, size, job_.precision);
  const bool as_wide = options_.ddp.compression == Ddp::Compression::activations && sent == size;
  if (options_.ddp.compression == Ddp::Compression::none || as_wide) return 2 * size;
  const Bytes copied = options_.ddp.gradient_as_bucket_view ? Bytes(0) : 2 * size;
  return copied + moved_to_convert(bucket) + 2 * sent;
}

/// And as it is emptied into `.grad`.
Bytes TorchDdp::moved_out_of(std::size_t bucket) const {
  const Bytes copied = options_.ddp.gradient_as_bucket_view ? Bytes(0) : 2 * buckets_[bucket].size;
  return moved_to_convert(bucket) + copied;
}

std::optional<OpId> TorchDdp::wait(std::optional<LaneId> lane, const char* what, Seconds time,
                                   std::vector<After> after) {
  if (time <= Seconds(0) || job_.replicas() == 1) return std::nullopt;
  builder_.add({.of = what,
                .phase = Phase::host,
                .lane = lane,
                .work = Compute{.duration = time, .jittered = false},
                .after = std::move(after)});
  return builder_.last();
}

/// Horovod's thread wakes half a cycle later in the mean.
std::vector<After> TorchDdp::once_woken(std::size_t bucket, OpId ready) {
  if (options_.ddp.cycle_time <= Seconds(0)) return {{ready}};
  if (!cycle_lane_) cycle_lane_ = builder_.lane("cycles", LaneKind::communication);
  if (buckets_[bucket].wakes || !woken_)
    woken_ = wait(*cycle_lane_, "cycle", 0.5 * options_.ddp.cycle_time, {{ready}});
  std::vector<After> after = {{ready}};
  if (woken_) after.push_back({*woken_});
  return after;
}

After TorchDdp::reduce(std::size_t bucket, OpId backward) {
  const auto filled = crosses_steps() ? std::nullopt
                                      : copy("gradients to bucket " + std::to_string(bucket),
                                             moved_into(bucket), {backward});
  const Bytes size = on_the_wire(options_.ddp, buckets_[bucket].size, job_.precision);
  const bool experts = buckets_[bucket].experts;
  const LaneId lane = experts ? *expert_nccl_ : nccl_;
  std::vector<After> ready = once_woken(bucket, filled.value_or(backward));
  const bool by_gloo = job_.cluster.collectives == CollectiveModel::gloo;
  const Seconds launch = by_gloo ? Seconds(0) : options_.ddp.per_collective;
  const auto launches = crosses_steps() ? std::nullopt : std::optional(lane);
  if (const auto launched = wait(launches, "launch", launch, ready)) ready = {{*launched}};
  const OpId op = builder_.collective(lane, "bucket " + std::to_string(bucket),
                                      {.kind = CollectiveKind::all_reduce,
                                       .group = experts ? *plan_.expert_replicas_group : 0,
                                       .size = size,
                                       .algorithm = options_.ddp.algorithm},
                                      std::move(ready));
  if (crosses_steps()) {
    builder_[op].lane.reset();
    std::get<Collective>(builder_[op].work).turn =
        static_cast<std::uint32_t>(buckets_[bucket].first_unit);
  }
  if (options_.ddp.compression != Ddp::Compression::none && !bucket_tensors_.empty()) {
    const std::uint32_t owner = builder_.program.tensors[bucket_tensors_[bucket].index()].owner;
    const TensorId copy = builder_.tensor(MemoryKind::communication, size, owner);
    builder_.take(op, copy);
    builder_.give(op, copy);
  }
  return {op};
}

/// Each bucket's parameters are updated beside what the GPU computes, and the first forward that
/// needs them waits for it in the next step.
void TorchDdp::step_by_bucket() {
  const std::vector<After> reduced = std::exchange(ready_, {});
  const OpId last = *builder_.last_computed();
  update(builder_, last, trained(job_));
  builder_.tapes().give_gradients(last);
  rebuild_buckets(last);
  Bytes all;
  for (const Bucket& bucket : buckets_) all += bucket.size;
  const Seconds time = optimizer_time(builder_, 1, node_);
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    builder_.add({.verb = Verb::optimizer,
                  .of = "bucket " + std::to_string(bucket),
                  .phase = Phase::optimizer,
                  .work = Compute{.duration = time * (buckets_[bucket].size / all)},
                  .after = {reduced[bucket]}});
    if (const auto forward = first_forward_[buckets_[bucket].first_unit])
      builder_[*forward].after.push_back({builder_.last(), 1});
  }
}

void TorchDdp::step() {
  if (crosses_steps()) return step_by_bucket();
  if (job_.optimizer.in_backward) return quantize_weights(builder_, builder_.last());
  std::vector<After> ready = std::exchange(ready_, {});
  finish_gradients(builder_, {nccl_, element_, 1, options_.ddp.algorithm}, ready);
  // Horovod's optimizer.step() waits on the host for every handle (horovod/torch/mpi_ops_v2.cc,
  // WaitAndClear), so that what follows is launched behind them.
  if (options_.ddp.cycle_time > Seconds(0) && job_.replicas() > 1)
    builder_.block_host("handles", ready);
  const std::int64_t shards =
      options_.sharded_optimizer ? static_cast<std::int64_t>(job_.replicas()) : 1;
  prepare_gradients(
      builder_,
      {.lane = nccl_, .slower = step_slowdown(job_, node_), .algorithm = options_.ddp.algorithm},
      ready);
  if (!options_.sharded_optimizer) launch_optimizer(builder_, ready);
  const OpId step = optimizer(builder_, optimizer_time(builder_, shards, node_), std::move(ready));
  update(builder_, step, trained(job_, shards));
  if (!views()) builder_.tapes().give_gradients(step);
  rebuild_buckets(step);
  quantize_weights(builder_, step);
  if (options_.sharded_optimizer) gather_parameters(step);
}

/// The next forward comes behind it.
void TorchDdp::gather_parameters(OpId step) {
  const OpId gather = builder_.collective(nccl_, "parameters",
                                          {.kind = CollectiveKind::all_gather,
                                           .size = parameter_bytes(job_.model, job_.precision),
                                           .algorithm = options_.ddp.algorithm},
                                          {{step}});
  builder_[gather].remark = ", updated";
  const auto first = std::ranges::find(builder_.program.ops, Phase::forward, &Op::phase);
  if (first != builder_.program.ops.end()) first->after.push_back({gather, 1});
}

/// Before the second forward (Reducer::rebuild_buckets).
void TorchDdp::rebuild_buckets(OpId step) {
  if (job_.replicas() == 1) return;
  for (const TensorId id : first_buckets_)
    builder_.note(step, {id, TensorEvent::Action::give, true});
  for (const TensorId id : bucket_tensors_)
    builder_.note(step, {id, TensorEvent::Action::take, true});
}

}  // namespace

Program torch_ddp(const Replication& options, const RankJob& rank) {
  const Job& job = rank.job;
  const StagePlan plan =
      job.stage ? *job.stage : StagePlan::alone(job.model, options.ddp.gradient_accumulation);
  const PartBuckets buckets = buckets_of(options.ddp, rank, plan);
  const StepCosts costs = with_reducer(rank.costs, job, options.ddp, plan, buckets);
  ProgramBuilder builder(rank.name, costs, job);
  TorchDdp sync(options, rank, plan, buckets, builder);
  return walk(plan, builder, sync);
}

}  // namespace rehearse::inline strategy
