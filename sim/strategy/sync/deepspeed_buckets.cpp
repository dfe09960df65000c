// DeepSpeed's ZeRO-1 and ZeRO-2 (deepspeed/runtime/zero/stage_1_and_2.py; Rajbhandari et al., SC
// 2020), whose parameters stay whole. A hook copies each gradient into a bucket, which is reduced
// once the next one does not fit: all_reduced, as use_multi_rank_bucket_allreduce has it, of which
// a rank keeps its part. Ranks update their parts in fp32, and all gather the parameters at once
// (all_gather_into_tensor_dp_groups): allgather_bucket_size is of no effect.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "strategy/holdings.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {
namespace {

/// Bytes that DeepSpeed's step moves for each gradient of 16 bits in a look for infinities
/// (_has_inf_or_nan): float(), isnan(), isinf(), which is abs() and eq(), logical_or(), float(),
/// max(); and for their norm, in fp64 (get_grad_norm_direct), beside what it reads.
constexpr Bytes kLooks(6 + 5 + 13 + 3 + 5 + 4), kNorm(8 + 8);

class DeepspeedBuckets : public Sync {
 public:
  DeepspeedBuckets(const Zero1& options, const RankJob& rank, const StagePlan& plan,
                   ProgramBuilder& builder)
      : options_(*options.deepspeed),
        algorithm_(options.ddp.algorithm),
        job_(rank.job),
        node_(rank.group.node),
        plan_(plan),
        builder_(builder),
        nccl_(builder.lane("nccl", LaneKind::communication)),
        element_(parameter_element(rank.job.precision)),
        shards_(shards_of(rank.job, plan)) {
    const double experts = expert_bytes(job_.model, job_.precision) / element_;
    const double all = parameter_bytes(job_.model, job_.precision) / element_;
    kinds_[0].part = (all - experts) / static_cast<double>(shards_.all);
    kinds_[1].part = experts / static_cast<double>(shards_.experts);
    kinds_[0].ranks = shards_.all;
    kinds_[1].ranks = shards_.experts;
    kinds_[1].group = plan.expert_replicas_group.value_or(0);
  }

  void setup() override;
  std::vector<After> before_forward(std::size_t unit, const Pass& pass) override;
  std::vector<After> before_backward(std::size_t unit, const Pass& pass) override;
  Gradients gradients(const Pass& pass) const override;
  void after_backward(std::size_t unit, OpId backward, const Pass& pass) override;
  void after_pass(const Pass& pass) override;
  void step() override;

 private:
  /// Parameters that the same ranks share: experts' may be of others.
  struct Kind {
    double part = 0;  ///< elements of a rank's part
    std::int64_t ranks = 1;
    std::size_t group = 0;
    double filled = 0;  ///< elements of the bucket
    double passed = 0;  ///< elements of this pass that are in a bucket, or have been
  };

  static Shards shards_of(const Job& job, const StagePlan& plan) {
    const auto all = static_cast<std::int64_t>(job.replicas());
    return {all,
            plan.expert_replicas_group ? static_cast<std::int64_t>(plan.expert_replicas) : all};
  }
  double capacity() const { return static_cast<double>(options_.reduce_bucket_size); }
  /// PipelineEngine warns that it does not overlap, and reduces behind the last backward.
  bool overlaps() const { return options_.overlap_comm && !plan_.pipelined(); }
  /// Gradients go into buckets in the backward that makes them.
  bool fills(const Pass& pass) const {
    return options_.partitions_gradients || (overlaps() && pass.last);
  }
  bool keeps_partition() const { return !job_.optimizer.offload; }
  Bytes part_bytes() const { return own_bytes(job_, shards_); }

  void take_buckets(OpId backward);
  void fill(std::size_t unit, OpId ready);
  void fill_from_grads();
  void copy_into_bucket();
  void flush();
  void reduce(Kind& kind, const std::string& name);
  bool is_cut(const Kind& kind) const;
  void move(const std::string& what, Bytes moved);
  void finish_pass();
  void prepare(std::vector<After>& ready);
  double largest() const;
  std::vector<Trained> parts() const;
  void update_part(std::vector<After> ready);
  void gather_parameters();
  std::uint32_t owner() const { return builder_.program.tensors[own_.index()].owner; }

  const Zero1::Deepspeed& options_;
  CollectiveAlgorithm algorithm_;
  const Job& job_;
  const Node& node_;
  const StagePlan& plan_;
  ProgramBuilder& builder_;
  LaneId nccl_;
  Bytes element_;
  Shards shards_;
  std::array<Kind, 2> kinds_;
  std::vector<TensorId> buckets_;  ///< taken in each pass
  TensorId own_{}, added_{};
  bool taken_ = false, filled_ = false;
  bool adds_ = false;                 ///< this pass to what has come of this rank's part before
  double copied_ = 0;                 ///< elements that are in the bucket, and not yet copied
  OpId ready_{};                      ///< what the bucket's last gradient came with
  std::vector<std::size_t> waiting_;  ///< units whose own gradients wait for the bucket
  std::vector<After> reduced_;        ///< the last reduction, on its stream
  std::vector<After> awaited_;        ///< what the next computation waits for
  OpId step_{};
};

void DeepspeedBuckets::setup() {
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

std::vector<After> DeepspeedBuckets::before_forward(std::size_t /*unit*/, const Pass& /*pass*/) {
  return std::exchange(awaited_, {});
}

std::vector<After> DeepspeedBuckets::before_backward(std::size_t /*unit*/, const Pass& /*pass*/) {
  return std::exchange(awaited_, {});
}

Gradients DeepspeedBuckets::gradients(const Pass& pass) const {
  if (!fills(pass)) return pass.first ? Gradients::kept : Gradients::added;
  if (options_.contiguous_gradients) return Gradients::added;
  return options_.partitions_gradients || pass.first ? Gradients::collected : Gradients::added;
}

/// The first hook of a pass makes the buckets (setup_buckets).
void DeepspeedBuckets::take_buckets(OpId backward) {
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

void DeepspeedBuckets::after_backward(std::size_t unit, OpId backward, const Pass& pass) {
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
void DeepspeedBuckets::fill(std::size_t unit, OpId ready) {
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

/// What the hooks have copied since the last time.
void DeepspeedBuckets::copy_into_bucket() {
  const Bytes moved = 2 * std::exchange(copied_, 0) * element_;
  if (builder_.costs().copy_time(moved) <= Seconds(0)) return;
  std::vector<After> after = std::exchange(awaited_, {});
  after.push_back({ready_});
  ready_ = *builder_.copy("gradients to the bucket", moved, std::move(after));
}

/// Whether the bucket has gradients of more parts than one, which are put together once more for
/// the all_reduce (allreduce_bucket).
bool DeepspeedBuckets::is_cut(const Kind& kind) const {
  const double from = kind.passed - kind.filled;
  return std::floor(from / kind.part) != std::ceil(kind.passed / kind.part) - 1;
}

/// A kernel behind the last one of the stream that reduces.
void DeepspeedBuckets::move(const std::string& what, Bytes moved) {
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

/// Of two buckets in turn the stream that computes waits for the one before (average_tensor).
void DeepspeedBuckets::flush() {
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
/// Beside ranks that share a sequence the sum is of fp32 (allreduce_bucket).
void DeepspeedBuckets::reduce(Kind& kind, const std::string& name) {
  const Bytes size = kind.filled * element_;
  const Bytes part = size / static_cast<double>(kind.ranks);
  const bool cut = !options_.contiguous_gradients || is_cut(kind);
  const bool widens = plan_.contexts > 1 && element_ < Bytes(4);
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
                                         .algorithm = algorithm_},
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
void DeepspeedBuckets::finish_pass() {
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

void DeepspeedBuckets::after_pass(const Pass& pass) {
  if (pass.what != PipelineAction::forward && pass.what != PipelineAction::input && fills(pass))
    finish_pass();
}

/// Stage 1 behind the last backward: reduce_gradients goes through parameters in their own order.
void DeepspeedBuckets::fill_from_grads() {
  const OpId computed = *builder_.last_computed();
  for (std::size_t unit = 0; unit < job_.model.units.size(); ++unit) {
    fill(unit, computed);
    if (!job_.set_to_none) continue;
    for (const TensorId id : builder_.tapes().gradients(unit)) builder_.give(ready_, id);
  }
  finish_pass();
}

/// A look for infinities in 16 bits and a norm in any case, of each gradient by itself. Then what
/// the optimizer reads, in fp32 and scaled, for which all of the part is put together.
void DeepspeedBuckets::prepare(std::vector<After>& ready) {
  const double elements = part_bytes() / element_;
  const auto pass = [&](Verb verb, const char* what, Bytes moved, double slower = 1) {
    const Seconds time = slower * builder_.costs().copy_time(moved);
    if (time <= Seconds(0)) return false;  // times are given: they have it
    ready = {{builder_.kernel(verb, what, Phase::optimizer, time, std::move(ready))}};
    return true;
  };
  const GradientPasses how{.lane = nccl_, .shards = shards_, .algorithm = algorithm_};
  if (element_ < Bytes(4) && pass(Verb::unscale, "gradients, looked at", elements * kLooks)) {
    add_up(builder_, "infinities in gradients", how, ready);
    builder_.block_host("infinities in gradients", ready);
  }
  if (pass(Verb::clip, "gradients, norm", elements * (kNorm + element_))) {
    const TensorId wide =
        builder_.tensor(MemoryKind::workspace, std::min(largest(), elements) * Bytes(8), owner());
    builder_.take(ready.back().op, wide);
    builder_.give(ready.back().op, wide);
    add_up(builder_, "norm of gradients", how, ready);
  }
  if (keeps_partition()) pass(Verb::copy, "gradients, flat", 2 * part_bytes());
  pass(Verb::clip, "gradients", elements * Bytes(8), step_slowdown(job_, node_));
}

/// Elements of the largest gradient.
double DeepspeedBuckets::largest() const {
  std::int64_t most = 0;
  for (const Unit& unit : job_.model.units)
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      if (unit.trait(i).trained) most = std::max(most, unit.tensors[i]);
  return static_cast<double>(most);
}

/// One tensor for all that is stored alike, as each of DeepSpeed's groups has.
std::vector<Trained> DeepspeedBuckets::parts() const {
  std::map<StoredAs, Trained> all;
  for (const Trained& one : trained(job_, shards_)) {
    Trained& part =
        all.try_emplace(one.storage, Trained{0, owner(), one.storage, {}}).first->second;
    part.elements += one.elements;
  }
  std::vector<Trained> parts;
  for (const auto& [storage, part] : all) parts.push_back(part);
  return parts;
}

/// Gradients of a part are flat, then in fp32, and go as they were; where a part has been a copy of
/// parameters in the same type it is copied back.
void DeepspeedBuckets::update_part(std::vector<After> ready) {
  Seconds time = optimizer_time(builder_, shards_, node_);
  if (!keeps_partition()) time -= part_bytes() / node_.pcie.bandwidth;  // backward has sent them
  step_ = optimizer(builder_, time, std::move(ready));
  if (keeps_partition()) {
    const Bytes master = optimizer_memory(job_.optimizer).master_element;
    const Bytes wide = std::max(master, element_) * (part_bytes() / element_);
    const TensorId flat = builder_.tensor(MemoryKind::gradients, part_bytes(), owner());
    const TensorId read = builder_.tensor(MemoryKind::gradients, wide, owner());
    builder_.take(step_, flat);
    if (master > element_) builder_.take(step_, read);
    builder_.give(step_, own_);
    if (master > element_) builder_.give(step_, flat);
    update(builder_, step_, parts(), {.are_there = true});
    builder_.give(step_, master > element_ ? read : flat);
    if (master == Bytes(0))
      if (const auto copied = builder_.copy("part to parameters", 2 * part_bytes(), {{step_}}))
        step_ = *copied;
  } else {
    builder_.give(step_, own_);
  }
  quantize_weights(builder_, step_);
}

/// In front of the next forward: each kind's all at once.
void DeepspeedBuckets::gather_parameters() {
  OpId last = step_;
  for (const Kind& kind : kinds_) {
    const double elements = kind.part * static_cast<double>(kind.ranks);
    if (elements == 0 || kind.ranks == 1) continue;
    last = builder_.collective(nccl_, &kind == &kinds_[1] ? "parameters of experts" : "parameters",
                               {.kind = CollectiveKind::all_gather,
                                .group = kind.group,
                                .size = elements * element_,
                                .algorithm = algorithm_},
                               {{last}});
    builder_[last].remark = ", updated";
  }
  const auto first = std::ranges::find(builder_.program.ops, Phase::forward, &Op::phase);
  if (first != builder_.program.ops.end()) first->after.push_back({last, 1});
  awaited_ = {{last}};
}

void DeepspeedBuckets::step() {
  if (!options_.partitions_gradients && !overlaps()) fill_from_grads();
  std::vector<After> ready = std::exchange(awaited_, {});
  finish_gradients(builder_, {nccl_, element_, static_cast<double>(shards_.all), algorithm_},
                   ready);
  prepare(ready);
  update_part(std::move(ready));
  gather_parameters();
}

}  // namespace

Program deepspeed_buckets(const Zero1& options, const RankJob& rank) {
  const Job& job = rank.job;
  const StagePlan plan =
      job.stage ? *job.stage : StagePlan::alone(job.model, options.ddp.gradient_accumulation);
  ProgramBuilder builder(rank.name, rank.costs, job);
  DeepspeedBuckets sync(options, rank, plan, builder);
  return walk(plan, builder, sync);
}

}  // namespace rehearse::inline strategy
