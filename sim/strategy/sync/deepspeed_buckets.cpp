// DeepSpeed's ZeRO-1 and ZeRO-2 (deepspeed/runtime/zero/stage_1_and_2.py; Rajbhandari et al., SC
// 2020), whose parameters stay whole. A hook copies each gradient into a bucket, which is reduced
// once the next one does not fit: all_reduced, as use_multi_rank_bucket_allreduce has it, of which
// a rank keeps its part. Ranks update their parts in fp32, and all gather the parameters at once
// (all_gather_into_tensor_dp_groups): allgather_bucket_size is of no effect.
#include "strategy/sync/deepspeed_buckets.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace rehearse::inline strategy {

void DeepspeedZero12::setup() {
  hold_parameters(builder_);
  hold_surroundings(builder_);
  const std::uint32_t owner = builder_.owner("gradients");
  const std::size_t buckets = options_.contiguous_gradients ? (overlaps() ? 2 : 1) : 0;
  for (std::size_t i = 0; i < buckets; ++i)
    buckets_.push_back(builder_.tensor(MemoryKind::buckets, capacity() * element_, owner));
  const Bytes own = keeps_partition() ? part_bytes() : Bytes(0);
  own_ = builder_.tensor(MemoryKind::gradients, own, owner);
  added_ = builder_.tensor(MemoryKind::gradients, own, owner);
  // The part that is updated is a copy in any precision (single_partition_of_fp32_groups).
  const bool has_master = optimizer_memory(job_.optimizer).master_element > Bytes(0);
  if (!has_master && keeps_partition())
    builder_.hold(builder_.tensor(MemoryKind::optimizer_state, part_bytes(), owner));
}

std::vector<After> DeepspeedZero12::before_forward(std::size_t /*unit*/, const Pass& /*pass*/) {
  return std::exchange(awaited_, {});
}

std::vector<After> DeepspeedZero12::before_backward(std::size_t /*unit*/, const Pass& /*pass*/) {
  return std::exchange(awaited_, {});
}

Gradients DeepspeedZero12::gradients(const Pass& pass) const {
  if (!fills(pass)) return pass.first ? Gradients::kept : Gradients::added;
  if (options_.contiguous_gradients) return Gradients::added;
  return options_.partitions_gradients || pass.first ? Gradients::collected : Gradients::added;
}

/// The first hook of a pass makes the buckets (setup_buckets).
void DeepspeedZero12::take_buckets(OpId backward) {
  if (std::exchange(taken_, true)) return;
  std::vector<TensorEvent>& events = builder_[backward].memory;
  const auto is_gradient = [&](const TensorEvent& event) {
    return event.action == TensorEvent::Action::take &&
           builder_.program.tensors[event.tensor.index()].kind == MemoryKind::gradients;
  };
  const auto made = std::ranges::find_if(events, is_gradient);
  if (made == events.end()) {
    for (const TensorId id : buckets_) builder_.take(backward, id);
    return;
  }
  std::vector<TensorEvent> takes;
  for (const TensorId id : buckets_) takes.push_back({id, TensorEvent::Action::take});
  events.insert(made + 1, takes.begin(), takes.end());
}

void DeepspeedZero12::after_backward(std::size_t unit, OpId backward, const Pass& pass) {
  if (job_.model.units[unit].trainable_parameters() == 0) return;
  take_buckets(backward);
  if (!fills(pass)) return;
  adds_ = options_.partitions_gradients && !pass.first;
  fill(unit, backward);
  const bool kept = !options_.partitions_gradients && !pass.first;
  if (options_.contiguous_gradients && kept && job_.set_to_none)
    for (const TensorId id : builder_.tapes().gradients(unit)) builder_.give(ready_, id);
  if (!options_.contiguous_gradients) waiting_.push_back(unit);
}

/// In the order in which backward makes them, which is that of parameters turned round.
void DeepspeedZero12::fill(std::size_t unit, OpId ready) {
  ready_ = ready;
  const Unit& of = job_.model.units[unit];
  for (std::size_t i = of.tensors.size(); i-- > 0;) {
    if (!of.trait(i).trained) continue;
    const auto elements = static_cast<double>(of.tensors[i]);
    const double held = kinds_[0].filled + kinds_[1].filled;
    if (held > 0 && held + elements > capacity()) flush();
    Kind& kind = kinds_[of.is_of_experts(i) ? 1 : 0];
    kind.filled += elements;
    kind.passed += elements;
    if (options_.contiguous_gradients && elements <= capacity()) copied_ += elements;
  }
  copy_into_bucket();
}

/// Elements that the hooks have copied since the last time.
void DeepspeedZero12::copy_into_bucket() {
  const Bytes moved = 2 * std::exchange(copied_, 0) * element_;
  if (builder_.costs().copy_time(moved) <= Seconds(0)) return;
  std::vector<After> after = std::exchange(awaited_, {});
  after.push_back({ready_});
  ready_ = *builder_.copy("gradients to the bucket", moved, std::move(after));
}

/// Whether the bucket has gradients of more parts than one, which are put together once more for
/// the all_reduce (allreduce_bucket).
bool DeepspeedZero12::is_cut(const Kind& kind) const {
  const double from = kind.passed - kind.filled;
  return std::floor(from / kind.part) != std::ceil(kind.passed / kind.part) - 1;
}

/// A kernel behind the last one of the stream that reduces.
void DeepspeedZero12::move(const std::string& what, Bytes moved) {
  const Seconds time = builder_.costs().copy_time(moved);
  if (time <= Seconds(0)) return;
  if (!overlaps()) {
    reduced_ = {{*builder_.copy(what, moved, std::move(reduced_))}};
    return;
  }
  builder_.add({.verb = Verb::copy,
                .of = what,
                .phase = Phase::communication,
                .lane = nccl_,
                .work = Compute{.duration = time, .jittered = false},
                .after = std::move(reduced_)});
  reduced_ = {{builder_.last()}};
}

/// Where two buckets take turns, computation waits for the one before (average_tensor).
void DeepspeedZero12::flush() {
  copy_into_bucket();
  if (kinds_[0].filled + kinds_[1].filled == 0) return;
  if (overlaps()) awaited_ = reduced_;
  reduced_ = {{ready_}};
  for (Kind& kind : kinds_)
    if (kind.filled > 0) reduce(kind, &kind == &kinds_[1] ? "bucket of experts" : "bucket");
  if (!overlaps()) awaited_ = reduced_;
  if (!overlaps()) ready_ = reduced_.back().op;
  for (const std::size_t unit : std::exchange(waiting_, {}))
    for (const TensorId id : builder_.tapes().gradients(unit))
      builder_.give(reduced_.back().op, id);
}

/// Divided, put together, summed, and of a rank's part copied back and into what stays of it.
/// Beside ranks that share a sequence the sum is of fp32 (seq_parallel_communication_data_type),
/// else where it is asked for (communication_data_type; both allreduce_bucket).
void DeepspeedZero12::reduce(Kind& kind, const std::string& name) {
  const Bytes size = kind.filled * element_;
  const Bytes part = size / static_cast<double>(kind.ranks);
  const bool cut = !options_.contiguous_gradients || is_cut(kind);
  const bool widens = (plan_.contexts > 1 || options_.communicates_fp32) && element_ < Bytes(4);
  const Bytes wire = widens ? kind.filled * Bytes(4) : size;
  kind.filled = 0;
  if (kind.ranks > 1) {
    move(name + ", divided", 2 * size);
    if (cut) move(name + ", in one piece", 2 * size);
    if (widens) move(name + ", in fp32", size + wire);
    const OpId op = builder_.collective(nccl_, name,
                                        {.kind = CollectiveKind::all_reduce,
                                         .group = kind.group,
                                         .size = wire,
                                         .algorithm = options_.algorithm},
                                        std::move(reduced_));
    const TensorId copy = builder_.tensor(
        MemoryKind::communication, (cut ? size : Bytes(0)) + (widens ? wire : Bytes(0)), owner());
    builder_.take(op, copy);
    builder_.give(op, copy);
    reduced_ = {{op}};
    if (widens) move(name + ", narrow", size + wire);
    if (cut) move(name + ", of this part", 2 * (options_.contiguous_gradients ? part : size));
  }
  if (!std::exchange(filled_, true)) builder_.take(reduced_.back().op, adds_ ? added_ : own_);
  if (options_.contiguous_gradients) move("gradients of this part", 2 * part);
  if (!keeps_partition()) {
    const Seconds time = (part / element_) * Bytes(4) / node_.pcie.bandwidth;
    builder_.add({.verb = Verb::copy_to_host,
                  .of = "gradients of this part",
                  .phase = Phase::communication,
                  .lane = nccl_,
                  .work = Compute{.duration = time, .jittered = false},
                  .after = std::move(reduced_)});
    reduced_ = {{builder_.last()}};
  }
}

/// Behind the last bucket of a pass.
void DeepspeedZero12::finish_pass() {
  flush();
  if (reduced_.empty()) return;
  if (overlaps()) builder_.block_host("reductions", reduced_);
  awaited_ = reduced_;
  if (adds_ && keeps_partition())
    if (const auto sum = builder_.copy("gradients of this part, added", 3 * part_bytes(), reduced_))
      awaited_ = {{*sum}};
  const OpId last = awaited_.back().op;
  if (std::exchange(adds_, false)) builder_.give(last, added_);
  for (const TensorId id : buckets_) builder_.give(last, id);
  taken_ = filled_ = false;
  for (Kind& kind : kinds_) kind.passed = 0;
}

void DeepspeedZero12::after_pass(const Pass& pass) {
  if (pass.what != PipelineAction::forward && pass.what != PipelineAction::input && fills(pass))
    finish_pass();
}

/// Stage 1 behind the last backward: reduce_gradients goes through parameters in their own order.
void DeepspeedZero12::fill_from_grads() {
  const OpId computed = *builder_.last_computed();
  for (std::size_t unit = 0; unit < job_.model.units.size(); ++unit) {
    fill(unit, computed);
    if (!job_.set_to_none) continue;
    for (const TensorId id : builder_.tapes().gradients(unit)) builder_.give(ready_, id);
  }
  finish_pass();
}

Program deepspeed_buckets(const DeepspeedBuckets& options, const RankJob& rank) {
  const Job& job = rank.job;
  const StagePlan plan =
      job.stage ? *job.stage : StagePlan::alone(job.model, options.gradient_accumulation);
  ProgramBuilder builder(rank.name, rank.costs, job);
  DeepspeedZero12 sync(options, rank, plan, builder);
  return walk(plan, builder, sync);
}

}  // namespace rehearse::inline strategy
