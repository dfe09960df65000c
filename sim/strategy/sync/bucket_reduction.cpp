// Gradients in buckets, as c10d's Reducer has them: of PyTorch's DDP, and of what is played like
// it.
#include "strategy/sync/bucket_reduction.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "strategy/holdings.hpp"

namespace rehearse::inline strategy {

namespace {

/// Operators that take the host as long as DDP itself: each tensor in forward and in backward, and
/// each bucket, whose hook, event and collective it launches. Forward took 0.04 ms for each tensor
/// where an operator took 49 us, backward 0.02 ms and 0.1 ms for each bucket
/// (tests/validation/hopper, the third day).
constexpr double kTensorForward = 0.85, kTensorBackward = 0.37, kBucket = 2;

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

}  // namespace

StagePlan plan_of(const RankJob& rank, int micro_batches) {
  return rank.job.stage ? *rank.job.stage : StagePlan::alone(rank.job.model, micro_batches);
}

PartBuckets cut_buckets(const BucketOptions& options, const RankJob& rank, const StagePlan& plan,
                        const Refine& refine) {
  constexpr Bytes kEachTensor(1);
  const Job& job = rank.job;
  PartBuckets buckets;
  for (const StagePlan::Part& part : plan.parts) {
    buckets.push_back(assign_buckets(job.model, part.first, part.end,
                                     parameter_element(job.precision),
                                     options.tensor_by_tensor ? kEachTensor : options.first,
                                     options.tensor_by_tensor ? kEachTensor : options.cap,
                                     plan.expert_replicas_group.has_value()));
    if (refine) buckets.back() = refine(std::move(buckets.back()), part);
    if (!reduces_experts(plan)) std::erase_if(buckets.back(), std::mem_fn(&Bucket::experts));
  }
  return buckets;
}

StepCosts with_reducer(StepCosts costs, const Job& job, const BucketOptions& options,
                       const StagePlan& plan, const PartBuckets& buckets) {
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
          kBucket / options.gradient_accumulation * costs.host_operator;
  return costs;
}

BucketReduction::BucketReduction(const BucketOptions& options, const RankJob& rank,
                                 const StagePlan& plan, const PartBuckets& buckets,
                                 ProgramBuilder& builder)
    : options_(options),
      job_(rank.job),
      node_(rank.group.node),
      plan_(plan),
      builder_(builder),
      nccl_(builder.lane("nccl", LaneKind::communication)),
      element_(parameter_element(job_.precision)) {
  for (const std::vector<Bucket>& own : buckets) {
    first_bucket_.push_back(buckets_.size());
    buckets_.insert(buckets_.end(), own.begin(), own.end());
  }
  first_bucket_.push_back(buckets_.size());
}

/// One GPU alone is trained without it. DDP tells all ranks rank 0's parameters in flat pieces of
/// 250 MiB (_sync_module_states), and its buckets are cut in the order of registration until the
/// first backward has shown that of readiness.
void BucketReduction::setup() {
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

void BucketReduction::hold_first_buckets(std::optional<bool> experts, std::uint32_t owner) {
  for (const Bytes size :
       registration_buckets(job_.model, element_, options_.first, options_.cap, experts)) {
    first_buckets_.push_back(builder_.tensor(MemoryKind::buckets, size, owner));
    builder_.hold(first_buckets_.back());
  }
}

/// Gradients of experts without a reducer stand where views of buckets would.
void BucketReduction::hold_views_of_experts(std::uint32_t owner) {
  const Bytes size = expert_bytes(job_.model, job_.precision);
  if (size > Bytes(0)) builder_.hold(builder_.tensor(MemoryKind::gradients, size, owner));
}

/// With bucket views `.grad` is a tensor of its own only under no_sync(), until the last
/// micro-batch's gradients are added to it.
Gradients BucketReduction::gradients(const Pass& pass) const {
  if (job_.optimizer.in_backward) return Gradients::used;
  const bool in_buckets = views() && (pass.last || !job_.set_to_none);
  return pass.first && !in_buckets ? Gradients::kept : Gradients::added;
}

std::optional<OpId> BucketReduction::copy(const std::string& what, Bytes moved, After after) {
  if (job_.replicas() == 1) return std::nullopt;
  return builder_.copy(what, moved, {after});
}

std::optional<OpId> BucketReduction::wait(std::optional<LaneId> lane, const char* what,
                                          Seconds time, std::vector<After> after) {
  if (time <= Seconds(0) || job_.replicas() == 1) return std::nullopt;
  builder_.add({.of = what,
                .phase = Phase::host,
                .lane = lane,
                .work = Compute{.duration = time, .jittered = false},
                .after = std::move(after)});
  return builder_.last();
}

/// Before the second forward (Reducer::rebuild_buckets).
void BucketReduction::rebuild_buckets(OpId step) {
  if (job_.replicas() == 1) return;
  for (const TensorId id : first_buckets_)
    builder_.note(step, {id, TensorEvent::Action::give, true});
  for (const TensorId id : bucket_tensors_)
    builder_.note(step, {id, TensorEvent::Action::take, true});
}

/// A part's last backward issues the buckets as they fill.
void BucketReduction::after_backward(std::size_t unit, OpId backward, const Pass& pass) {
  if (job_.optimizer.in_backward) return optimizer_of(builder_, unit);
  if (!pass.last || !options_.overlaps) return;
  if (!pass.first && views() && job_.set_to_none)
    for (const TensorId id : builder_.tapes().gradients(unit)) builder_.give(backward, id);
  for (std::size_t next = first_bucket_[pass.part] + reduced_.size();
       next < first_bucket_[pass.part + 1] && buckets_[next].first_unit == unit; ++next)
    reduced_.push_back(reduce(next, backward));
}

void BucketReduction::after_pass(const Pass& pass) {
  if (!options_.overlaps && pass.last && !job_.optimizer.in_backward)
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

/// Read and written by a hook that converts a bucket, either way; nothing where it has that type.
Bytes BucketReduction::moved_to_convert(std::size_t bucket) const {
  const Bytes size = buckets_[bucket].size;
  return sent(bucket) == size ? Bytes(0) : size + sent(bucket);
}

/// Read and written as a bucket fills: the Reducer divides each gradient by the number of ranks on
/// its way into it, in place where `.grad` is a view of it. Before a hook that compresses it only
/// copies; the hook converts, and divides what it made (fp16_compress_hook in
/// torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py).
Bytes BucketReduction::moved_into(std::size_t bucket) const {
  const Bytes size = buckets_[bucket].size;
  if (!options_.hooked) return 2 * size;
  const Bytes copied = options_.views ? Bytes(0) : 2 * size;
  return copied + moved_to_convert(bucket) + 2 * sent(bucket);
}

/// And as it is emptied into `.grad`.
Bytes BucketReduction::moved_out_of(std::size_t bucket) const {
  const Bytes copied = options_.views ? Bytes(0) : 2 * buckets_[bucket].size;
  return moved_to_convert(bucket) + copied;
}

After BucketReduction::reduce(std::size_t bucket, OpId backward) {
  const auto filled = crosses_steps() ? std::nullopt
                                      : copy("gradients to bucket " + std::to_string(bucket),
                                             moved_into(bucket), {backward});
  const Bytes size = sent(bucket);
  const bool experts = buckets_[bucket].experts;
  const LaneId lane = experts ? *expert_nccl_ : nccl_;
  std::vector<After> ready = once_filled(bucket, filled.value_or(backward));
  const bool by_gloo = job_.cluster.collectives == CollectiveModel::gloo;
  const Seconds launch = by_gloo ? Seconds(0) : options_.per_collective;
  const auto launches = crosses_steps() ? std::nullopt : std::optional(lane);
  if (const auto launched = wait(launches, "launch", launch, ready)) ready = {{*launched}};
  const OpId op = builder_.collective(lane, "bucket " + std::to_string(bucket),
                                      {.kind = CollectiveKind::all_reduce,
                                       .group = experts ? *plan_.expert_replicas_group : 0,
                                       .size = size,
                                       .algorithm = options_.algorithm},
                                      std::move(ready));
  if (crosses_steps()) {
    builder_[op].lane.reset();
    std::get<Collective>(builder_[op].work).turn =
        static_cast<std::uint32_t>(buckets_[bucket].first_unit);
  }
  if (options_.hooked && !bucket_tensors_.empty()) {
    const std::uint32_t owner = builder_.program.tensors[bucket_tensors_[bucket].index()].owner;
    const TensorId copy = builder_.tensor(MemoryKind::communication, size, owner);
    builder_.take(op, copy);
    builder_.give(op, copy);
  }
  return {op};
}

void BucketReduction::step() {
  if (job_.optimizer.in_backward) return quantize_weights(builder_, builder_.last());
  std::vector<After> ready = std::exchange(ready_, {});
  finish_gradients(builder_, {nccl_, element_, 1, options_.algorithm}, ready);
  before_step(ready);
  const std::int64_t shards = options_.shares_step ? static_cast<std::int64_t>(job_.replicas()) : 1;
  prepare_gradients(
      builder_,
      {.lane = nccl_, .slower = step_slowdown(job_, node_), .algorithm = options_.algorithm},
      ready);
  if (!options_.shares_step) launch_optimizer(builder_, ready);
  const OpId step = optimizer(builder_, optimizer_time(builder_, shards, node_), std::move(ready));
  update(builder_, step, trained(job_, shards));
  if (!views()) builder_.tapes().give_gradients(step);
  rebuild_buckets(step);
  quantize_weights(builder_, step);
  after_step(step);
}

}  // namespace rehearse::inline strategy
