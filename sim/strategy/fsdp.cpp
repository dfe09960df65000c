// FullyShardedDataParallel (Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data
// Parallel", VLDB 2023).
//
// All collectives of one process group run on one NCCL stream in the order in which the host issues
// them. That order, and the rate limiter, are what the options change:
//   backward_pre   gathers the next unit before a unit's gradients are computed, so before their
//   reduce_scatter; backward_post  after they are computed, still before the reduce_scatter; none
//   when the next unit's backward begins: behind the reduce_scatter, and so behind the gradients.
#include <deque>
#include <utility>

#include "base/error.hpp"
#include "strategy/fsdp_memory.hpp"
#include "strategy/fsdp_overhead.hpp"
#include "strategy/sharded.hpp"
#include "strategy/sharding_groups.hpp"
#include "strategy/stage_plan.hpp"

namespace rehearse::inline strategy {

namespace {

// torch.distributed.fsdp's _FreeEventQueue: every freed unit leaves an event, and once two of them
// wait, the next all_gather waits for the older.
class FreeEvents {
 public:
  struct Freed {
    OpId op;
    std::vector<TensorId> tensors;  ///< that the host knows to be unused once `op` is over
  };
  void freed_after(OpId op, std::vector<TensorId> tensors) {
    events_.push_back({op, std::move(tensors)});
  }
  std::optional<Freed> take_if_full() { return events_.size() < 2 ? std::nullopt : take(); }
  std::optional<Freed> take() {
    if (events_.empty()) return std::nullopt;
    Freed oldest = std::move(events_.front());
    events_.pop_front();
    return oldest;
  }

 private:
  std::deque<Freed> events_;
};

constexpr std::size_t kPostForwardGroup = 1;  ///< add_post_forward_groups, without replicas

class FsdpProgram {
 public:
  FsdpProgram(const Fsdp& options, const Job& job, const NodeGroup& group, const std::string& name,
              const StepCosts& costs, const Shards& shards)
      : options_(options),
        job_(job),
        node_(group.node),
        shards_(shards),
        plan_(job.stage ? *job.stage : StagePlan::alone(job.model, options.gradient_accumulation)),
        runs_(wrap(job.model, options, job.precision, shards,
                   plan_.expert_replicas_group.has_value())),
        costs_(with_fsdp_overhead(costs, runs_, options, job, shards)),
        builder_(name, costs_, job, computes_in(options, job.precision)),
        runner_(builder_, plan_),
        memory_(builder_, options, runs_, shards),
        nccl_(builder_.lane("nccl", LaneKind::communication)) {
    if (options.sharding == Fsdp::Sharding::hybrid_shard)
      replicas_ = builder_.lane("nccl (replicas)", LaneKind::communication);
    if (options.cpu_offload) copies_ = builder_.lane("copies", LaneKind::communication);
  }

  Program make() {
    memory_.hold();
    gather_of_.resize(runs_.size());
    gathered_.resize(runs_.size());
    std::vector<After> reduced;
    for (std::size_t action = 0; action < plan_.order.size(); ++action) {
      const int micro = plan_.order[action].micro;
      if (plan_.stage_alone) builder_.micro_batch(micro, options_.gradient_accumulation);
      memory_.begin_micro_batch(keeps_whole() || micro == 0);
      after_ = runner_.begin(action);
      if (keeps_whole()) {
        add_kept_action(action, reduced);
      } else if (plan_.order[action].what == PipelineAction::forward) {
        add_forward();
      } else {
        add_backward({runner_.is_first_backward(action), runner_.is_last_backward(action)},
                     reduced);
      }
      runner_.end(action);
    }
    add_optimizer(std::move(reduced));
    return std::move(builder_.program);
  }

 private:
  /// Whether the run has experts that others have, too.
  bool shares_experts(std::size_t j) const { return runs_[j].experts > 0 && shards_.experts > 1; }
  /// A collective of what all ranks share, and one of the experts among those that share these.
  OpId both(std::size_t j, CollectiveKind kind, Bytes all, Bytes experts, std::vector<After> after,
            std::size_t group = 0) {
    const std::string& name = job_.model.units[runs_[j].first].name;
    std::optional<OpId> op;
    if (all > Bytes(0))
      op = builder_.collective(
          nccl_, name, {.kind = kind, .group = group, .size = all, .algorithm = options_.algorithm},
          after);
    if (shares_experts(j) && experts > Bytes(0))
      op = builder_.collective(nccl_, name + ", experts",
                               {.kind = kind,
                                .group = *plan_.expert_replicas_group,
                                .size = experts,
                                .algorithm = options_.algorithm},
                               std::move(after));
    check(op.has_value(), "a run that no ranks share");
    return *op;
  }
  bool reshards_after_forward() const { return rehearse::reshards_after_forward(options_, runs_); }

  /// Units stay gathered from their first forward in a step to their last backward.
  bool keeps_whole() const { return plan_.pipelined(); }
  /// What the first operation of an action comes after, and a gather.
  std::vector<After> first_after(std::optional<OpId> gather) {
    std::vector<After> after = std::exchange(after_, {});
    if (gather) after.push_back({*gather});
    return after;
  }

  Seconds copy_time(Bytes size) const { return node_.pcie.latency + size / node_.pcie.bandwidth; }
  OpId add_copy(Verb way, const std::string& what, Bytes size, std::vector<After> after) {
    builder_.add({.verb = way,
                  .of = what,
                  .moves = size,
                  .phase = Phase::communication,
                  .lane = copies_,
                  .work = Compute{.duration = copy_time(size), .jittered = false},
                  .after = std::move(after)});
    return builder_.last();
  }

  void gather(std::size_t j, bool backward = false) {
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
        both(j, CollectiveKind::all_gather, FsdpMemory::whole(runs_[j], element) - experts, experts,
             std::move(after), backward && options_.post_forward_group > 0 ? kPostForwardGroup : 0);
    if (freed) memory_.finish(*gather_of_[j], freed->tensors);
    memory_.gather(j, *gather_of_[j], backward);
    if (first) first_gather_ = OpId(copies_ ? begin - 1 : begin);
  }

  // A stream waits for a gather without its host, unless the host computes.
  void wait_for_gather(std::size_t j) {
    if (builder_.host_computes()) builder_.block_host("all_gather", {{*gather_of_[j]}});
    memory_.finish_gather(j);
  }

  void add_forward() {
    if (runs_.empty())  // nothing to shard
      for (std::size_t unit = 0; unit < job_.model.units.size(); ++unit)
        builder_.forward(unit, first_after({}));
    for (std::size_t j = 0; j < runs_.size(); ++j) {
      if (j == 0 || !options_.forward_prefetch) gather(j);
      wait_for_gather(j);
      if (j + 1 < runs_.size() && options_.forward_prefetch) gather(j + 1);
      for (std::size_t unit = runs_[j].first; unit <= runs_[j].last; ++unit)
        builder_.forward(unit, first_after(unit == runs_[j].first ? gather_of_[j] : std::nullopt));
      const OpId last = builder_.last();
      if (!reshards_after_forward()) continue;
      memory_.keep_part(j, last);
      free_events_.freed_after(last, memory_.free(j, last));
    }
  }

  /// Where units stay gathered.
  void add_kept_action(std::size_t action, std::vector<After>& reduced) {
    const StagePlan::Part& part = plan_.parts[plan_.order[action].chunk];
    for (std::size_t j = 0; j < runs_.size(); ++j) {
      if (gathered_[j] || runs_[j].first < part.first || runs_[j].first >= part.end) continue;
      gather(j);
      wait_for_gather(j);
      gathered_[j] = true;
    }
    switch (plan_.order[action].what) {
      case PipelineAction::forward:
        for (std::size_t unit = part.first; unit < part.end; ++unit)
          builder_.forward(unit, first_after(gather_before(unit)));
        break;
      case PipelineAction::input:
        for (std::size_t unit = part.end; unit-- > part.first;)
          builder_.backward_input(unit, first_after({}));
        break;
      case PipelineAction::backward:
      case PipelineAction::weight:
        add_kept_backward(action, reduced);
    }
  }
  std::optional<OpId> gather_before(std::size_t unit) const {
    const auto run = std::ranges::find(runs_, unit, &FlatParameter::first);
    return run == runs_.end() ? std::nullopt
                              : gather_of_[static_cast<std::size_t>(run - runs_.begin())];
  }
  void add_kept_backward(std::size_t action, std::vector<After>& reduced) {
    const StagePlan::Part& part = plan_.parts[plan_.order[action].chunk];
    const bool first = runner_.is_first_backward(action), last = runner_.is_last_backward(action);
    const Gradients gradients = first ? Gradients::collected : Gradients::added;
    const bool whole = plan_.order[action].what == PipelineAction::backward;
    for (std::size_t unit = part.end; unit-- > part.first;) {
      const OpId op = whole ? builder_.backward(unit, gradients, first_after({}))
                            : builder_.backward_weight(unit, gradients, first_after({}));
      const auto run = std::ranges::find(runs_, unit, &FlatParameter::first);
      if (!last || run == runs_.end()) continue;
      const auto j = static_cast<std::size_t>(run - runs_.begin());
      memory_.collect(j, op);
      reduce(j, op, {}, reduced);
    }
  }

  /// Of a step's micro-batches, which a backward is of.
  struct Turn {
    bool first = true, last = true;
  };

  void add_backward(Turn turn, std::vector<After>& reduced) {
    const bool gathers = reshards_after_forward();
    if (runs_.empty())
      for (std::size_t unit = job_.model.units.size(); unit-- > 0;)
        builder_.backward(unit, Gradients::collected, first_after({}));
    if (options_.no_sync) memory_.begin_micro_batch(true);  // no `.grad` before the only reduction
    for (std::size_t j = runs_.size(); j-- > 0;) {
      const bool prefetched =
          options_.backward_prefetch != Fsdp::Prefetch::none && j + 1 < runs_.size();
      if (gathers && !prefetched) gather(j, true);
      wait_for_gather(j);
      if (gathers && j > 0 && options_.backward_prefetch == Fsdp::Prefetch::backward_pre)
        gather(j - 1, true);
      const OpId end = add_run_backward(j);
      if (gathers && j > 0 && options_.backward_prefetch == Fsdp::Prefetch::backward_post)
        gather(j - 1, true);
      reduce(j, end, turn, reduced);
    }
  }

  OpId add_run_backward(std::size_t j) {
    const FlatParameter& run = runs_[j];
    for (std::size_t unit = run.last + 1; unit-- > run.first;)
      builder_.backward(unit, Gradients::collected,
                        first_after(unit == run.last ? gather_of_[j] : std::nullopt));
    const OpId last = builder_.last();
    free_events_.freed_after(last, memory_.collect(j, last));
    return last;
  }

  void reduce(std::size_t j, OpId backward, Turn turn, std::vector<After>& reduced) {
    // Where the host computes it also adds up what has come, one unit's at a time.
    if (builder_.host_computes() && reducing_)
      builder_.block_host("reduce_scatter", {{*reducing_}});
    const std::string& name = job_.model.units[runs_[j].first].name;
    const FlatParameter& run = runs_[j];
    const Bytes size = FsdpMemory::gradients(run, memory_.reduced_element());
    if (size == Bytes(0)) return;  // frozen
    if (options_.no_sync && !turn.last) return memory_.keep_whole(j, backward, turn.first);
    if (options_.no_sync && !turn.first) memory_.add_whole(j, backward);
    const Bytes experts = size * (static_cast<double>(run.trained_experts) /
                                  static_cast<double>(run.graded + run.trained_experts));
    OpId last = both(j, CollectiveKind::reduce_scatter, size - experts, experts, {{backward}});
    memory_.reduce(j, last);
    if (j == 0) memory_.finish_reduce(last);
    if (replicas_)
      last = builder_.collective(*replicas_, name,
                                 {.kind = CollectiveKind::all_reduce,
                                  .group = kSameShardGroup,
                                  .size = size / static_cast<double>(shards_.all),
                                  .algorithm = options_.algorithm},
                                 {{last}});
    if (copies_) {
      last = add_copy(Verb::copy_to_host, name, memory_.stored(j), {{last}});
      memory_.copy_out(j, last);
    }
    reducing_ = last;
    if (turn.last || copies_) reduced.push_back({last});
  }

  // On the host the optimizer's traffic goes through the GPU's share of its node's memory.
  Seconds optimizer_time() const {
    if (!options_.cpu_offload) return builder_.optimizer_time(shards_, node_);
    const Seconds share = builder_.costs().optimizer / static_cast<double>(shards_.all);
    return host_slowdown(node_) * share;
  }

  void add_optimizer(std::vector<After> reduced) {
    const double slower =
        options_.cpu_offload ? host_slowdown(node_) : builder_.step_slowdown(node_);
    builder_.finish_gradients(
        {nccl_, memory_.reduced_element(), static_cast<double>(shards_.all), options_.algorithm},
        reduced);
    builder_.prepare_gradients(
        {.lane = nccl_, .shards = shards_, .slower = slower, .algorithm = options_.algorithm},
        reduced);
    if (options_.per_parameter) builder_.launch_optimizer(reduced);
    const OpId step = builder_.optimizer(optimizer_time(), std::move(reduced));
    memory_.update(step);
    // The next iteration's first all_gather reads what this one wrote.
    if (first_gather_) builder_[*first_gather_].after.push_back({step, 1});
  }

  const Fsdp& options_;
  const Job& job_;
  const Node& node_;
  Shards shards_;
  const StagePlan plan_;
  std::vector<FlatParameter> runs_;
  StepCosts costs_;
  ProgramBuilder builder_;
  StageRunner runner_;
  FsdpMemory memory_;
  LaneId nccl_;
  std::optional<LaneId> replicas_, copies_;
  FreeEvents free_events_;
  std::vector<std::optional<OpId>> gather_of_;
  std::vector<bool> gathered_;  ///< in this step, where units stay so
  std::vector<After> after_;    ///< what an action begins behind
  std::optional<OpId> first_gather_, reducing_;
};

}  // namespace

Program sharded_program(const Fsdp& options, const Job& job, const NodeGroup& group,
                        const std::string& name, const StepCosts& costs) {
  const auto all =
      static_cast<std::int64_t>(job.stage ? job.replicas() : shard_group_size(options, job));
  // Shards in host memory are copied before they are gathered, as FSDP's are.
  if (options.stage3 && !options.cpu_offload && all > 1)
    return stage3_program(options, job, group, name, costs, all);
  const bool apart = job.stage && job.stage->expert_replicas_group;
  const Shards shards(all, apart ? static_cast<std::int64_t>(job.stage->expert_replicas) : all);
  return FsdpProgram(options, job, group, name, costs, shards).make();
}

Schedule build(const Fsdp& options, const Job& job) {
  require_gpus(job);
  const std::size_t shards = shard_group_size(options, job);
  check_post_forward_group(options, job);
  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        return sharded_program(options, job, group, group.name, costs);
      });
  add_sharding_groups(schedule, shards, options.sharding == Fsdp::Sharding::hybrid_shard);
  add_post_forward_groups(schedule, static_cast<std::size_t>(options.post_forward_group));
  return schedule;
}

}  // namespace rehearse::inline strategy
