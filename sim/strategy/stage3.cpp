// DeepSpeed's ZeRO-3 (deepspeed/runtime/zero; Rajbhandari et al., SC 2020 and SC 2021). Hooks of
// each module gather its parameters, those that come next, and give back what is not used soon
// (stage3_fetches.hpp). All collectives of the process group run on one NCCL stream in the order in
// which the host issues them.
#include <deque>
#include <utility>

#include "strategy/fsdp_memory.hpp"
#include "strategy/sharded.hpp"
#include "strategy/stage3_fetches.hpp"

namespace rehearse::inline strategy {
namespace {

/// A module with parameters that are partitioned, and what of its unit's time goes by until the
/// next one's turn.
struct PartitionedModule {
  std::size_t unit = 0;
  std::int64_t elements = 0, trained = 0;
  double forward_flops = 0, backward_flops = 0;
};

/// Of a unit whose operators say whose parameters are whose; else it is one module. Parameters up
/// to the threshold stay whole, and what computes with them goes with the module in front.
std::vector<PartitionedModule> modules_of(const Unit& unit, std::size_t index,
                                          std::int64_t threshold) {
  double sum = 0;
  for (const Operator& one : unit.operators) sum += one.parameter_elements;
  const auto all = static_cast<double>(unit.parameters());
  std::vector<PartitionedModule> modules;
  PartitionedModule before;
  for (const Operator& one : unit.operators) {
    const auto elements = static_cast<std::int64_t>(one.parameter_elements);
    if (sum == all && elements > threshold)
      modules.push_back(
          {.unit = index, .elements = elements, .trained = one.frozen ? 0 : elements});
    PartitionedModule& now = modules.empty() ? before : modules.back();
    now.forward_flops += one.forward_flops;
    now.backward_flops += one.backward_flops;
  }
  if (sum != all && unit.parameters() > threshold)
    modules = {
        {.unit = index, .elements = unit.parameters(), .trained = unit.trainable_parameters()}};
  if (!modules.empty()) {
    modules.front().forward_flops += before.forward_flops;
    modules.front().backward_flops += before.backward_flops;
  }
  return modules;
}

using ModuleRange = std::pair<std::size_t, std::size_t>;

class Stage3Program {
 public:
  Stage3Program(const Fsdp& options, const Job& job, const NodeGroup& group,
                const std::string& name, const StepCosts& costs, const Shards& shards)
      : options_(options),
        job_(job),
        node_(group.node),
        shards_(shards),
        runs_(wrap(job.model, options, job.precision, shards)),
        costs_(costs),
        builder_(name, costs_of_first_modules(), job, computes_in(options, job.precision)),
        memory_(builder_, options, runs_, shards),
        nccl_(builder_.lane("nccl", LaneKind::communication)) {
    gather_of_.resize(modules_.size());
    gone_.assign(modules_.size(), true);
    held_.resize(runs_.size());
  }

  Program make() {
    memory_.hold();
    for (int micro = 0; micro < options_.gradient_accumulation; ++micro) {
      builder_.micro_batch(micro, options_.gradient_accumulation);
      memory_.begin_micro_batch(micro == 0);
      use_ = 0;
      for (std::size_t unit = 0; unit < job_.model.units.size(); ++unit) add_forward(unit);
      for (std::size_t unit = job_.model.units.size(); unit-- > 0;) add_backward(unit);
      flush();
    }
    add_optimizer();
    return std::move(builder_.program);
  }

 private:
  const Fsdp::Stage3& stage3() const { return *options_.stage3; }
  bool is_checkpointed(std::size_t unit) const {
    return !job_.checkpointed.empty() && job_.checkpointed[unit];
  }

  /// Finds the modules. The builder plays a unit's first one; the others come one by one.
  const StepCosts& costs_of_first_modules() {
    std::vector<std::int64_t> elements;
    for (std::size_t unit = 0; unit < job_.model.units.size(); ++unit) {
      const Unit& of = job_.model.units[unit];
      const auto found = modules_of(of, unit, stage3().param_persistence_threshold);
      ranges_.emplace_back(modules_.size(), modules_.size() + found.size());
      modules_.insert(modules_.end(), found.begin(), found.end());
      persistent_ += of.parameters();
      for (const PartitionedModule& one : found) {
        persistent_ -= one.elements;
        elements.push_back(one.elements);
      }
      split_costs(unit);
    }
    std::vector<std::size_t> uses;
    for (std::size_t module = 0; module < modules_.size(); ++module) uses.push_back(module);
    for (std::size_t unit = job_.model.units.size(); unit-- > 0;) {
      const auto [first, end] = ranges_[unit];
      if (is_checkpointed(unit))
        for (std::size_t module = first; module < end; ++module) uses.push_back(module);
      for (std::size_t module = end; module-- > first;) uses.push_back(module);
    }
    uses_ = stage3_uses(elements, uses, stage3());
    return costs_;
  }

  void split_costs(std::size_t unit) {
    const auto [first, end] = ranges_[unit];
    UnitCost& cost = costs_.units[unit];
    const double modules = static_cast<double>(end - first);
    cost.forward_launch += modules * stage3().module_hook;
    cost.backward_launch += modules * stage3().module_hook;
    whole_.emplace_back(cost.forward, cost.backward);
    if (end - first < 2) return;
    // A recomputed forward is played whole.
    if (!is_checkpointed(unit)) cost.forward *= share(first, false);
    cost.backward *= share(end - 1, true);
  }

  double share(std::size_t module, bool backward) const {
    const auto [first, end] = ranges_[modules_[module].unit];
    double all = 0;
    for (std::size_t other = first; other < end; ++other) all += weight(other, backward);
    return weight(module, backward) / all;
  }
  double weight(std::size_t module, bool backward) const {
    const PartitionedModule& one = modules_[module];
    const double flops = backward ? one.backward_flops : one.forward_flops;
    return flops > 0 ? flops : static_cast<double>(one.elements) * 1e-9;
  }

  std::size_t run_of(std::size_t unit) const {
    std::size_t run = 0;
    while (run + 1 < runs_.size() && runs_[run + 1].first <= unit) ++run;
    return run;
  }

  /// Busy with hooks, the host is no further ahead than the second last release: what that gave
  /// back is there for the next gather.
  void gather(const std::vector<std::size_t>& modules, bool backward) {
    constexpr std::size_t kReleases = 2;
    std::int64_t elements = 0;
    for (const std::size_t module : modules) elements += modules_[module].elements;
    const std::string& name = job_.model.units[modules_[modules.front()].unit].name;
    std::vector<After> after;
    const bool reuses = freed_.size() >= kReleases;
    if (reuses) after.push_back({freed_.front().first});
    const OpId op = communicate(name,
                                {.kind = CollectiveKind::all_gather,
                                 .size = static_cast<double>(elements) * memory_.gathered_element(),
                                 .algorithm = options_.algorithm},
                                std::move(after));
    if (reuses) {
      memory_.finish(op, freed_.front().second);
      freed_.pop_front();
    }
    if (!first_gather_) first_gather_ = op;
    for (const std::size_t module : modules) {
      gather_of_[module] = op;
      gone_[module] = false;
      const std::size_t run = run_of(modules_[module].unit);
      if (!held_[run]) memory_.gather(run, op, backward);
      held_[run] = true;
    }
  }

  /// Without overlap_comm it runs on the stream that computes.
  OpId communicate(const std::string& name, const Collective& collective,
                   std::vector<After> after = {}) {
    const bool reduces = collective.kind == CollectiveKind::reduce_scatter;
    if ((reduces || !stage3().overlap_comm) && computed_) after.push_back({*computed_});
    const OpId op = builder_.collective(nccl_, name, collective, std::move(after));
    communicated_ = op;
    return op;
  }

  /// A use's gathers; what its computation comes after.
  std::vector<After> fetch(std::size_t module, bool backward) {
    const Stage3Use& use = uses_[use_++];
    if (use.fetches) gather({module}, backward);
    if (builder_.host_computes()) builder_.block_host("all_gather", {{*gather_of_[module]}});
    memory_.finish_gather(run_of(modules_[module].unit));
    std::vector<After> after = {{*gather_of_[module]}};
    if (!use.prefetched.empty()) gather(use.prefetched, backward);
    if (use.released) gone_[module] = true;
    if (!stage3().overlap_comm) after.push_back({*communicated_});
    return after;
  }

  std::vector<After> not_overlapped() const {
    if (stage3().overlap_comm || !communicated_) return {};
    return {{*communicated_}};
  }

  void add_piece(std::size_t module, bool backward, std::vector<After> after) {
    const auto [forward_time, backward_time] = whole_[modules_[module].unit];
    const std::string& name = job_.model.units[modules_[module].unit].name;
    builder_.add({.verb = backward ? Verb::backward : Verb::forward,
                  .of = name,
                  .phase = backward ? Phase::backward : Phase::forward,
                  .lane = builder_.compute_lane(),
                  .work = Compute{.duration = share(module, backward) *
                                              (backward ? backward_time : forward_time)},
                  .after = std::move(after)});
    computed_ = builder_.last();
  }

  void add_forward(std::size_t unit) {
    const auto [first, end] = ranges_[unit];
    if (first == end) computed(builder_.forward(unit, not_overlapped()));
    std::vector<After> whole;  // of a unit that the builder plays whole
    for (std::size_t module = first; module < end; ++module) {
      std::vector<After> after = fetch(module, false);
      if (is_checkpointed(unit)) {
        whole.insert(whole.end(), after.begin(), after.end());
        if (module + 1 == end) computed(builder_.forward(unit, whole));
      } else if (module == first) {
        computed(builder_.forward(unit, std::move(after)));
      } else {
        add_piece(module, false, std::move(after));
      }
    }
    const std::size_t run = run_of(unit);
    if (!runs_.empty() && !held_[run]) {  // small parameters are there
      memory_.gather(run, *computed_, false);
      memory_.finish_gather(run);
      held_[run] = true;
    }
    free(unit);
  }

  void computed(OpId op) {
    computed_ = op;
    if (!first_computed_) first_computed_ = op;
  }

  /// Behind the last unit of a run of which nothing is there.
  void free(std::size_t unit) {
    const std::size_t run = run_of(unit);
    if (runs_.empty() || runs_[run].last != unit) return;
    const auto of_run = ranges_[unit].second - ranges_[runs_[run].first].first;
    if (of_run == 0) return;  // it stays
    for (std::size_t other = runs_[run].first; other <= unit; ++other)
      for (std::size_t module = ranges_[other].first; module < ranges_[other].second; ++module)
        if (!gone_[module]) return;
    freed_.emplace_back(*computed_, memory_.free(run, *computed_));
    held_[run] = false;
  }

  void add_backward(std::size_t unit) {
    const auto [first, end] = ranges_[unit];
    std::vector<After> again = not_overlapped();
    if (is_checkpointed(unit))
      for (std::size_t module = first; module < end; ++module)
        for (const After& one : fetch(module, true)) again.push_back(one);
    if (first == end) computed(builder_.backward(unit, Gradients::collected, again));
    for (std::size_t module = end; module-- > first;) {
      std::vector<After> after = fetch(module, true);
      if (module + 1 == end) {
        after.insert(after.end(), again.begin(), again.end());
        computed(builder_.backward(unit, Gradients::collected, std::move(after)));
      } else {
        add_piece(module, true, std::move(after));
      }
      collect(modules_[module].trained, false);
    }
    const Unit& of = job_.model.units[unit];
    std::int64_t rest = of.trainable_parameters();
    for (std::size_t module = first; module < end; ++module) rest -= modules_[module].trained;
    collect(rest, true);
    const std::size_t run = run_of(unit);
    if (runs_.empty() || runs_[run].first != unit) return;
    std::vector<TensorId> given = memory_.collect(run, *computed_);  // parameters, then gradients
    waiting_.push_back(given.back());
    given.pop_back();
    freed_.emplace_back(*computed_, std::move(given));
    held_[run] = false;
    if (FsdpMemory::gradients(runs_[run], memory_.reduced_element()) > Bytes(0))
      collected_.push_back(run);
  }

  /// Into the bucket, once it is reduced where they do not fit. `small`: of what stays whole.
  void collect(std::int64_t elements, bool small) {
    if (!small && bucket_ > 0 && bucket_ + elements > stage3().reduce_bucket_size) flush();
    bucket_ += elements;
  }

  void flush() {
    constexpr std::size_t kReduceEvents = 2;  // max_param_reduce_events
    if (bucket_ == 0) return;
    if (reduced_.size() > kReduceEvents)
      builder_.block_host("reduce_scatter", {reduced_[reduced_.size() - 1 - kReduceEvents]});
    const OpId op =
        communicate("gradients", {.kind = CollectiveKind::reduce_scatter,
                                  .size = static_cast<double>(bucket_) * memory_.reduced_element(),
                                  .algorithm = options_.algorithm});
    for (const std::size_t run : collected_) {
      memory_.reduce(run, op);
      memory_.finish_reduce(op);
    }
    freed_.emplace_back(op, std::exchange(waiting_, {}));
    collected_.clear();
    bucket_ = 0;
    reduced_.push_back({op});
  }

  void add_optimizer() {
    builder_.prepare_gradients({.lane = nccl_,
                                .shards = shards_,
                                .slower = builder_.step_slowdown(node_),
                                .algorithm = options_.algorithm},
                               reduced_);
    const OpId step = builder_.optimizer(builder_.optimizer_time(shards_, node_), reduced_);
    memory_.update(step);
    if (first_gather_) builder_[*first_gather_].after.push_back({step, 1});
    if (persistent_ == 0 || !first_computed_) return;
    const OpId kept =
        builder_.collective(nccl_, "persistent parameters",
                            {.kind = CollectiveKind::all_gather,
                             .size = static_cast<double>(persistent_) * memory_.gathered_element(),
                             .algorithm = options_.algorithm},
                            {{step}});
    builder_[*first_computed_].after.push_back({kept, 1});
  }

  const Fsdp& options_;
  const Job& job_;
  const Node& node_;
  Shards shards_;
  std::vector<FlatParameter> runs_;
  StepCosts costs_;
  std::vector<PartitionedModule> modules_;
  std::vector<ModuleRange> ranges_;                 ///< by unit
  std::vector<std::pair<Seconds, Seconds>> whole_;  ///< by unit: forward and backward
  std::vector<Stage3Use> uses_;
  std::int64_t persistent_ = 0;  ///< elements that stay whole
  ProgramBuilder builder_;
  FsdpMemory memory_;
  LaneId nccl_;
  std::vector<std::optional<OpId>> gather_of_;  ///< by module
  std::vector<bool> gone_, held_;               ///< by module; by run
  std::size_t use_ = 0;
  std::int64_t bucket_ = 0;
  std::vector<std::size_t> collected_;  ///< runs whose gradients wait for the bucket
  std::vector<TensorId> waiting_;       ///< their gradients
  std::deque<std::pair<OpId, std::vector<TensorId>>> freed_;  ///< and what they come free after
  std::vector<After> reduced_;
  std::optional<OpId> first_gather_, first_computed_, computed_, communicated_;
};

}  // namespace

Program stage3_program(const Fsdp& options, const Job& job, const NodeGroup& group,
                       const std::string& name, const StepCosts& costs, std::int64_t shards) {
  return Stage3Program(options, job, group, name, costs, shards).make();
}

}  // namespace rehearse::inline strategy
