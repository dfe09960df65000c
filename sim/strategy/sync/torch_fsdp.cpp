// FullyShardedDataParallel (Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data
// Parallel", VLDB 2023).
//
// All collectives of one process group run on one NCCL stream in the order in which the host issues
// them. That order, and the rate limiter, are what the options change:
//   backward_pre   gathers the next unit before a unit's gradients are computed, so before their
//   reduce_scatter; backward_post  after they are computed, still before the reduce_scatter; none
//   when the next unit's backward begins: behind the reduce_scatter, and so behind the gradients.
#include <utility>

#include "base/error.hpp"
#include "strategy/sharding_groups.hpp"
#include "strategy/sync/free_events.hpp"
#include "strategy/sync/fsdp_memory.hpp"
#include "strategy/sync/fsdp_overhead.hpp"
#include "strategy/sync/host_optimizer.hpp"
#include "strategy/sync/programs.hpp"

namespace rehearse::inline strategy {

namespace {

/// What the hooks of torch.distributed.fsdp write around the units of each FlatParameter, or of
/// FSDP2 around each group of parameters.
class TorchFsdp : public Sync {
 public:
  TorchFsdp(const ShardedParameters& options, const RankJob& rank, const StagePlan& plan,
            const std::vector<FlatParameter>& runs, const Shards& shards, ProgramBuilder& builder)
      : options_(options),
        job_(rank.job),
        node_(rank.group.node),
        shards_(shards),
        plan_(plan),
        runs_(runs),
        builder_(builder),
        memory_(builder, options, runs, shards),
        begins_(rank.job.model.units.size()),
        ends_(begins_.size()),
        gather_of_(runs.size()),
        first_gather_of_(runs.size()),
        gathered_(runs.size()) {
    for (std::size_t j = 0; j < runs.size(); ++j) {
      begins_[runs[j].first] = ends_[runs[j].last] = j;
      const std::vector<std::size_t>& apart = runs[j].apart;
      if (!apart.empty()) root_goes_on_ = apart.back() + 1 == rank.job.model.units.size();
    }
  }

  void setup() override;
  std::vector<After> before_forward(std::size_t unit, const Pass& pass) override;
  void after_forward(std::size_t unit, OpId forward, const Pass& pass) override;
  std::vector<After> before_backward(std::size_t unit, const Pass& pass) override;
  Gradients gradients(const Pass& pass) const override {
    if (options_.adds_to_views()) return Gradients::summed;
    return keeps_whole() && !pass.first ? Gradients::added : Gradients::collected;
  }
  void after_backward(std::size_t unit, OpId backward, const Pass& pass) override;
  void step() override;

 private:
  bool reshards_after_forward() const { return rehearse::reshards_after_forward(options_, runs_); }
  /// Units stay gathered from their first forward in a step to their last backward.
  bool keeps_whole() const { return plan_.pipelined(); }

  /// Of a run: what all share of it, and its experts where other ranks share these.
  struct Sizes {
    Bytes all, experts;
  };
  /// The groups that do.
  struct Slots {
    std::size_t all = 0;
    std::optional<std::size_t> experts{};
  };
  std::vector<std::size_t> frozen_checkpoints() const;
  OpId both(std::size_t j, CollectiveKind kind, const Sizes& sizes, const Slots& slots,
            std::vector<After> after);
  Slots sharing(std::size_t j, bool after_forward) const;
  Seconds copy_time(Bytes size) const { return node_.pcie.latency + size / node_.pcie.bandwidth; }
  OpId add_copy(Verb way, const std::string& what, Bytes size, std::vector<After> after);
  void gather(std::size_t j, bool backward = false);
  void prefetch(std::size_t j);
  bool ends_root(std::size_t unit) const;
  bool hooks_adapters(std::size_t j) const;
  bool waits_at_once() const;
  void wait_for_gather(std::size_t j);
  void gather_part(std::size_t part);
  std::vector<After> gather_once(std::size_t j);
  void reduce(std::size_t j, OpId backward, const Pass& pass);
  Seconds optimizer_time() const;

  const ShardedParameters& options_;
  const Job& job_;
  const Node& node_;
  Shards shards_;
  const StagePlan& plan_;
  const std::vector<FlatParameter>& runs_;
  ProgramBuilder& builder_;
  FsdpMemory memory_;
  LaneId nccl_{};
  std::optional<LaneId> replicas_, copies_;
  FreeEvents free_events_;
  std::vector<std::optional<std::size_t>> begins_, ends_;  ///< by unit, the run that does
  std::optional<HostOptimizer> host_;                      ///< where it works beside backward
  std::vector<std::optional<OpId>> gather_of_, first_gather_of_;
  std::vector<bool> gathered_;  ///< in this step, where units stay so
  bool root_goes_on_ = false;   ///< to the last unit, where backward begins
  std::vector<After> reduced_;
  std::optional<OpId> first_gather_, reducing_;
};

void TorchFsdp::setup() {
  nccl_ = builder_.lane("nccl", LaneKind::communication);
  if (options_.hybrid()) replicas_ = builder_.lane("nccl (replicas)", LaneKind::communication);
  if (options_.cpu_offload) copies_ = builder_.lane("copies", LaneKind::communication);
  if (job_.optimizer.overlaps_backward())
    host_.emplace(builder_, node_, runs_.size(),
                  options_.keeps_tensors() ? 0 : static_cast<double>(options_.sub_group_size));
  memory_.hold();
  if (options_.reentrant_checkpoints && !plan_.pipelined())
    builder_.tapes().keep_until_end(frozen_checkpoints());
}

/// Checkpointed units of which a part is frozen, and so has a flat tensor without a gradient.
std::vector<std::size_t> TorchFsdp::frozen_checkpoints() const {
  std::vector<std::size_t> units;
  for (std::size_t unit = 0; unit < job_.model.units.size(); ++unit) {
    const Unit& own = job_.model.units[unit];
    const bool frozen = own.trainable_parameters() < own.parameters();
    if (job_.is_checkpointed(unit) && frozen &&
        options_.held == ShardedParameters::Held::flat_trained)
      units.push_back(unit);
  }
  return units;
}

/// A collective of what all ranks share, and one of the experts among those that share these.
OpId TorchFsdp::both(std::size_t j, CollectiveKind kind, const Sizes& sizes, const Slots& slots,
                     std::vector<After> after) {
  const std::string& name = job_.model.units[runs_[j].first].name;
  std::optional<OpId> op;
  const auto add = [&](LaneId lane, const std::string& what, std::size_t group, Bytes size) {
    op = builder_.collective(
        lane, what, {.kind = kind, .group = group, .size = size, .algorithm = options_.algorithm},
        after);
  };
  const LaneId lane = kind == CollectiveKind::all_reduce ? *replicas_ : nccl_;
  if (sizes.all > Bytes(0)) add(lane, name, slots.all, sizes.all);
  if (slots.experts && sizes.experts > Bytes(0))
    add(lane, name + ", experts", *slots.experts, sizes.experts);
  check(op.has_value(), "a run that no ranks share");
  return *op;
}

/// The ranks that shard, or those that keep what is left after forward.
TorchFsdp::Slots TorchFsdp::sharing(std::size_t j, bool after_forward) const {
  Slots slots;
  if (after_forward && plan_.after_forward_group) slots.all = *plan_.after_forward_group;
  if (runs_[j].experts == 0 || shards_.experts == 1) return slots;
  slots.experts = plan_.expert_replicas_group;
  if (after_forward && plan_.expert_after_forward_group)
    slots.experts = plan_.expert_after_forward_group;
  return slots;
}

OpId TorchFsdp::add_copy(Verb way, const std::string& what, Bytes size, std::vector<After> after) {
  builder_.add({.verb = way,
                .of = what,
                .moves = size,
                .phase = Phase::communication,
                .lane = copies_,
                .work = Compute{.duration = copy_time(size), .jittered = false},
                .after = std::move(after)});
  return builder_.last();
}

void TorchFsdp::gather(std::size_t j, bool backward) {
  std::vector<After> after;
  const auto freed = options_.limit_all_gathers ? free_events_.take_if_full() : std::nullopt;
  if (freed) {
    after.push_back({freed->op});
    builder_.block_host("a free unit", after);
  }
  const std::string& name = job_.model.units[runs_[j].first].name;
  if (copies_) {
    after = {{add_copy(Verb::copy_to_gpu, name, memory_.stored(j), std::move(after))}};
    memory_.copy_in(j, builder_.last());
  }
  const bool first = !first_gather_;
  const std::size_t begin = builder_.program.ops.size();
  const Bytes element = memory_.gathered_element();
  const Bytes experts = static_cast<double>(runs_[j].experts) * element;
  gather_of_[j] =
      both(j, CollectiveKind::all_gather, {FsdpMemory::whole(runs_[j], element) - experts, experts},
           sharing(j, backward), std::move(after));
  if (!first_gather_of_[j]) first_gather_of_[j] = gather_of_[j];
  if (freed) memory_.finish(*gather_of_[j], freed->tensors);
  memory_.gather(j, *gather_of_[j], backward);
  if (waits_at_once()) builder_.block_host("all_gather", {{*gather_of_[j]}});
  if (first) first_gather_ = OpId(copies_ ? begin - 1 : begin);
}

/// Gathers the run that backward uses behind run `j`, unless it is there.
void TorchFsdp::prefetch(std::size_t j) {
  if (j > 0 && !runs_[j - 1].root) gather(j - 1, true);
}

/// A block's adapters that are wrapped by themselves are what its own hook prefetches, one after
/// the other (_exec_order_utils.py: get_handle_to_backward_prefetch); that of the first one in
/// forward, the last in backward, prefetches the block before.
bool TorchFsdp::hooks_adapters(std::size_t j) const {
  const FlatParameter& run = runs_[j];
  const bool frozen = run.graded < run.elements || run.others > Bytes(0);
  return options_.held == ShardedParameters::Held::flat_trained && frozen && run.graded > 0;
}

/// Whether backward begins with the unit, whose hook is the root's.
bool TorchFsdp::ends_root(std::size_t unit) const {
  return root_goes_on_ && unit + 1 == job_.model.units.size();
}

/// FSDP2 calls every collective with async_op=False (_fsdp_param_group.py: unshard_async_op) and
/// leaves it to CUDA's streams to overlap them. Where the host computes there are none.
bool TorchFsdp::waits_at_once() const {
  return builder_.host_computes() && options_.keeps_tensors();
}

/// A stream waits for a gather without its host, unless the host computes.
void TorchFsdp::wait_for_gather(std::size_t j) {
  if (builder_.host_computes() && !waits_at_once())
    builder_.block_host("all_gather", {{*gather_of_[j]}});
  memory_.finish_gather(j);
}

/// All runs of a part, before its first unit computes in a step.
void TorchFsdp::gather_part(std::size_t part) {
  for (std::size_t j = 0; j < runs_.size(); ++j) {
    const std::size_t first = runs_[j].first;
    if (gathered_[j] || first < plan_.parts[part].first || first >= plan_.parts[part].end) continue;
    gather(j);
    wait_for_gather(j);
    gathered_[j] = true;
  }
}

/// In the first micro-batch of a step, the next run ahead.
std::vector<After> TorchFsdp::gather_once(std::size_t j) {
  for (std::size_t ahead = j; ahead < std::min(j + 2, runs_.size()); ++ahead) {
    if (gathered_[ahead]) continue;
    gather(ahead);
    gathered_[ahead] = true;
  }
  wait_for_gather(j);
  return {{*gather_of_[j]}};
}

std::vector<After> TorchFsdp::before_forward(std::size_t unit, const Pass& pass) {
  if (keeps_whole() && unit == plan_.parts[pass.part].first) gather_part(pass.part);
  const auto j = begins_[unit];
  if (!j) return {};
  if (options_.gathers_once) return gather_once(*j);
  if (!keeps_whole()) {
    if (*j == 0 || !options_.forward_prefetch) gather(*j);
    wait_for_gather(*j);
    if (*j + 1 < runs_.size() && options_.forward_prefetch) gather(*j + 1);
  }
  return {{*gather_of_[*j]}};
}

void TorchFsdp::after_forward(std::size_t unit, OpId forward, const Pass& /*pass*/) {
  const auto j = ends_[unit];
  if (!j || keeps_whole() || options_.gathers_once || !reshards_after_forward() || runs_[*j].root)
    return;
  memory_.keep_part(*j, forward);
  free_events_.freed_after(forward, memory_.free(*j, forward));
}

std::vector<After> TorchFsdp::before_backward(std::size_t unit, const Pass& /*pass*/) {
  const auto ended = ends_[unit];
  const bool ahead = options_.backward_prefetch == TorchFsdp1::Prefetch::backward_pre;
  if (ended && options_.adds_to_views() && builder_.last_computed())
    memory_.begin_gradients(*ended, *builder_.last_computed());
  if (options_.gathers_once) return {};
  if (!keeps_whole() && ahead && reshards_after_forward() && ends_root(unit))
    prefetch(runs_.size());
  if (!ended || keeps_whole()) return {};
  const std::size_t j = *ended;
  const bool gathers = reshards_after_forward();
  const bool last = j + 1 == runs_.size() && !(ahead && root_goes_on_);
  const bool prefetched = options_.backward_prefetch != TorchFsdp1::Prefetch::none && !last;
  if (gathers && !prefetched && !runs_[j].root) gather(j, true);
  wait_for_gather(j);
  if (gathers && ahead && !hooks_adapters(j)) prefetch(j);
  return {{*gather_of_[j]}};
}

/// Under no_sync() there is no `.grad` before the only reduction.
void TorchFsdp::after_backward(std::size_t unit, OpId backward, const Pass& pass) {
  const auto begun = begins_[unit];
  if (!begun || (keeps_whole() && !pass.last)) return;
  const std::size_t j = *begun;
  memory_.begin_micro_batch(keeps_whole() || options_.no_sync || pass.micro == 0);
  auto freed = memory_.collect(j, backward);
  if (!keeps_whole() && !options_.gathers_once) {
    free_events_.freed_after(backward, std::move(freed));
    const bool late =
        options_.backward_prefetch == TorchFsdp1::Prefetch::backward_post ||
        (options_.backward_prefetch == TorchFsdp1::Prefetch::backward_pre && hooks_adapters(j));
    if (reshards_after_forward() && late) prefetch(j);
  }
  reduce(j, backward, pass);
}

void TorchFsdp::reduce(std::size_t j, OpId backward, const Pass& pass) {
  // Where the host computes it also adds up what has come, one unit's at a time.
  if (builder_.host_computes() && reducing_) builder_.block_host("reduce_scatter", {{*reducing_}});
  const std::string& name = job_.model.units[runs_[j].first].name;
  const FlatParameter& run = runs_[j];
  const Bytes size = FsdpMemory::gradients(run, memory_.reduced_element());
  if (size == Bytes(0)) {  // frozen
    if (j == 0) memory_.finish_reduce(backward);
    return;
  }
  const bool no_sync = options_.no_sync && !keeps_whole();
  if (no_sync && !pass.last) return memory_.keep_whole(j, backward, pass.first);
  if (no_sync && !pass.first) memory_.add_whole(j, backward);
  const Bytes experts = size * (static_cast<double>(run.trained_experts) /
                                static_cast<double>(run.graded + run.trained_experts));
  OpId last = both(j, CollectiveKind::reduce_scatter, {size - experts, experts}, sharing(j, false),
                   {{backward}});
  memory_.reduce(j, last);
  if (j == 0) memory_.finish_reduce(last);
  if (replicas_)
    last = both(j, CollectiveKind::all_reduce,
                {(size - experts) / static_cast<double>(shards_.all),
                 experts / static_cast<double>(shards_.experts)},
                {*plan_.same_shard_group, plan_.expert_same_shard_group}, {{last}});
  if (copies_) {
    last = add_copy(Verb::copy_to_host, name, memory_.stored(j), {{last}});
    memory_.copy_out(j, last);
  }
  if (host_) {
    last = host_->send(j, name, static_cast<double>(run.own_trained(shards_)), {{last}}, pass);
    memory_.copy_out(j, last);
  }
  if (waits_at_once())
    builder_.block_host("reduce_scatter", {{last}});
  else
    reducing_ = last;
  if (pass.last || copies_) reduced_.push_back({last});
}

/// On the host the optimizer's traffic goes through the GPU's share of its node's memory.
Seconds TorchFsdp::optimizer_time() const {
  if (!options_.cpu_offload) return rehearse::optimizer_time(builder_, shards_, node_);
  const Seconds share = builder_.costs().optimizer / static_cast<double>(shards_.all);
  return host_slowdown(node_) * share;
}

void TorchFsdp::step() {
  std::vector<After> reduced = std::exchange(reduced_, {});
  const bool on_host = options_.cpu_offload || host_;
  const GradientPasses how{.lane = nccl_,
                           .shards = shards_,
                           .slower = on_host ? host_slowdown(node_) : step_slowdown(job_, node_),
                           .algorithm = options_.algorithm};
  if (host_) return memory_.update(host_->finish(how, first_gather_of_));
  finish_gradients(
      builder_,
      {nccl_, memory_.reduced_element(), static_cast<double>(shards_.all), options_.algorithm},
      reduced);
  prepare_gradients(builder_, how, reduced);
  if (options_.keeps_tensors()) launch_optimizer(builder_, reduced);
  const OpId step = optimizer(builder_, optimizer_time(), std::move(reduced));
  memory_.update(step);
  // The next iteration's first all_gather reads what this one wrote.
  if (first_gather_) builder_[*first_gather_].after.push_back({step, 1});
}

}  // namespace

Program torch_fsdp(const ShardedParameters& options, const RankJob& rank, const Shards& shards) {
  const Job& job = rank.job;
  StagePlan plan =
      job.stage ? *job.stage : StagePlan::alone(job.model, options.gradient_accumulation);
  if (!job.stage) plan.same_shard_group = kSameShardGroup;
  if (!job.stage && options.post_forward_group > 0) plan.after_forward_group = kAfterForwardGroup;
  const std::vector<FlatParameter> runs =
      wrap(job.model, options, job.precision, shards, plan.expert_replicas_group.has_value());
  const StepCosts costs = with_fsdp_overhead(rank.costs, runs, options, job, shards);
  ProgramBuilder builder(rank.name, costs, job, computes_in(options, job.precision));
  TorchFsdp sync(options, rank, plan, runs, shards, builder);
  return walk(plan, builder, sync);
}

}  // namespace rehearse::inline strategy
