// DeepSpeed's ZeRO-3 (deepspeed/runtime/zero; Rajbhandari et al., SC 2020 and SC 2021). Hooks of
// each module gather its parameters, those that come next, and give back what is not used soon
// (stage3_fetches.hpp). All collectives of the process group run on one NCCL stream in the order in
// which the host issues them.
#include <deque>
#include <utility>

#include "strategy/sync/fsdp_memory.hpp"
#include "strategy/sync/host_optimizer.hpp"
#include "strategy/sync/programs.hpp"
#include "strategy/sync/stage3_modules.hpp"

namespace rehearse::inline strategy {
namespace {

class DeepspeedZero : public Sync {
 public:
  DeepspeedZero(const DeepspeedZero3& options, const ShardedParameters& sharded,
                const RankJob& rank, const std::vector<FlatParameter>& runs,
                const Stage3Modules& modules, const Shards& shards, ProgramBuilder& builder)
      : options_(options),
        job_(rank.job),
        node_(rank.group.node),
        shards_(shards),
        runs_(runs),
        modules_(modules),
        builder_(builder),
        memory_(builder, sharded, runs, shards),
        nccl_(builder.lane("nccl", LaneKind::communication)),
        gather_of_(modules.all.size()),
        gone_(modules.all.size(), true),
        held_(runs.size()),
        first_gather_of_(runs.size()) {}

  void setup() override {
    if (job_.optimizer.overlaps_backward())
      host_.emplace(builder_, node_, runs_.size(), static_cast<double>(options_.sub_group_size));
    memory_.hold();
  }
  std::vector<After> before_forward(std::size_t unit, const Pass& pass) override;
  void after_forward(std::size_t unit, OpId forward, const Pass& pass) override;
  std::vector<After> before_backward(std::size_t unit, const Pass& pass) override;
  Gradients gradients(const Pass& /*pass*/) const override { return Gradients::collected; }
  void after_backward(std::size_t unit, OpId backward, const Pass& pass) override;
  void after_pass(const Pass& pass) override;
  void step() override;

 private:
  /// What tensor ranks exchange lies between parts of a unit, whose modules do not come one by one.
  bool exchanges(std::size_t unit) const { return !job_.model.units[unit].exchanges.empty(); }
  bool plays_whole(std::size_t unit) const { return job_.is_checkpointed(unit) || exchanges(unit); }
  std::size_t run_of(std::size_t unit) const;
  void gather(const std::vector<std::size_t>& modules, bool backward);
  OpId communicate(const std::string& name, const Collective& collective,
                   std::vector<After> after = {});
  std::vector<After> fetch(std::size_t module, bool backward);
  std::vector<After> not_overlapped() const;
  void add_piece(std::size_t module, bool backward, std::vector<After> after);
  void computed(OpId op);
  void free(std::size_t unit);
  void collect(std::int64_t elements, bool small);
  void collect_run(std::size_t unit);
  void flush();
  OpId step_of_all();

  const DeepspeedZero3& options_;
  const Job& job_;
  const Node& node_;
  Shards shards_;
  const std::vector<FlatParameter>& runs_;
  const Stage3Modules& modules_;
  ProgramBuilder& builder_;
  FsdpMemory memory_;
  LaneId nccl_;
  std::vector<std::optional<OpId>> gather_of_;        ///< by module
  std::vector<bool> gone_, held_;                     ///< by module; by run
  std::optional<HostOptimizer> host_;                 ///< where it works beside backward
  std::vector<std::optional<OpId>> first_gather_of_;  ///< by run
  Pass pass_;                                         ///< of the last backward
  std::size_t use_ = 0;
  std::int64_t bucket_ = 0;
  std::vector<std::size_t> collected_;  ///< runs whose gradients wait for the bucket
  std::vector<TensorId> waiting_;       ///< their gradients
  std::deque<std::pair<OpId, std::vector<TensorId>>> freed_;  ///< and what they come free after
  std::vector<After> reduced_;
  std::optional<OpId> first_gather_, first_computed_, computed_, communicated_;
};

std::size_t DeepspeedZero::run_of(std::size_t unit) const {
  std::size_t run = 0;
  while (run + 1 < runs_.size() && runs_[run + 1].first <= unit) ++run;
  return run;
}

/// Busy with hooks, the host is no further ahead than the second last release: what that gave
/// back is there for the next gather.
void DeepspeedZero::gather(const std::vector<std::size_t>& modules, bool backward) {
  constexpr std::size_t kReleases = 2;
  std::int64_t elements = 0;
  for (const std::size_t module : modules) elements += modules_.all[module].elements;
  const std::string& name = job_.model.units[modules_.all[modules.front()].unit].name;
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
    const std::size_t run = run_of(modules_.all[module].unit);
    if (!first_gather_of_[run]) first_gather_of_[run] = op;
    if (!held_[run]) memory_.gather(run, op, backward);
    held_[run] = true;
  }
}

/// Without overlap_comm it runs on the stream that computes.
OpId DeepspeedZero::communicate(const std::string& name, const Collective& collective,
                                std::vector<After> after) {
  const bool reduces = collective.kind == CollectiveKind::reduce_scatter;
  if ((reduces || !options_.overlap_comm) && computed_) after.push_back({*computed_});
  const OpId op = builder_.collective(nccl_, name, collective, std::move(after));
  communicated_ = op;
  return op;
}

/// A use's gathers; what its computation comes after.
std::vector<After> DeepspeedZero::fetch(std::size_t module, bool backward) {
  const Stage3Use& use = modules_.uses[use_++];
  if (use.fetches) gather({module}, backward);
  if (builder_.host_computes()) builder_.block_host("all_gather", {{*gather_of_[module]}});
  memory_.finish_gather(run_of(modules_.all[module].unit));
  std::vector<After> after = {{*gather_of_[module]}};
  if (!use.prefetched.empty()) gather(use.prefetched, backward);
  if (use.released) gone_[module] = true;
  if (!options_.overlap_comm) after.push_back({*communicated_});
  return after;
}

std::vector<After> DeepspeedZero::not_overlapped() const {
  if (options_.overlap_comm || !communicated_) return {};
  return {{*communicated_}};
}

void DeepspeedZero::add_piece(std::size_t module, bool backward, std::vector<After> after) {
  const auto [forward_time, backward_time] = modules_.whole[modules_.all[module].unit];
  const std::string& name = job_.model.units[modules_.all[module].unit].name;
  builder_.add({.verb = backward ? Verb::backward : Verb::forward,
                .of = name,
                .phase = backward ? Phase::backward : Phase::forward,
                .lane = builder_.compute_lane(),
                .work = Compute{.duration = modules_.share(module, backward) *
                                            (backward ? backward_time : forward_time)},
                .after = std::move(after)});
  computed_ = builder_.last();
}

/// A unit that is played whole is so behind the gathers of all its modules.
std::vector<After> DeepspeedZero::before_forward(std::size_t unit, const Pass& /*pass*/) {
  const auto [first, end] = modules_.of_unit[unit];
  if (first == end) return not_overlapped();
  std::vector<After> after = fetch(first, false);
  if (plays_whole(unit))
    for (std::size_t module = first + 1; module < end; ++module)
      for (const After& one : fetch(module, false)) after.push_back(one);
  return after;
}

void DeepspeedZero::after_forward(std::size_t unit, OpId forward, const Pass& /*pass*/) {
  computed(forward);
  const auto [first, end] = modules_.of_unit[unit];
  for (std::size_t module = first + 1; module < end && !plays_whole(unit); ++module)
    add_piece(module, false, fetch(module, false));
  const std::size_t run = run_of(unit);
  if (!runs_.empty() && !held_[run]) {  // small parameters are there
    memory_.gather(run, *computed_, false);
    memory_.finish_gather(run);
    held_[run] = true;
  }
  free(unit);
}

void DeepspeedZero::computed(OpId op) {
  computed_ = op;
  if (!first_computed_) first_computed_ = op;
}

/// Behind the last unit of a run of which nothing is there.
void DeepspeedZero::free(std::size_t unit) {
  const std::size_t run = run_of(unit);
  if (runs_.empty() || runs_[run].last != unit) return;
  const auto of_run = modules_.of_unit[unit].second - modules_.of_unit[runs_[run].first].first;
  if (of_run == 0) return;  // it stays
  for (std::size_t other = runs_[run].first; other <= unit; ++other)
    for (std::size_t module = modules_.of_unit[other].first;
         module < modules_.of_unit[other].second; ++module)
      if (!gone_[module]) return;
  freed_.emplace_back(*computed_, memory_.free(run, *computed_));
  held_[run] = false;
}

/// Of a unit that is played whole each module is fetched in front of it, of one that is computed
/// once more twice.
std::vector<After> DeepspeedZero::before_backward(std::size_t unit, const Pass& /*pass*/) {
  const auto [first, end] = modules_.of_unit[unit];
  std::vector<After> again = not_overlapped();
  const auto fetch_too = [&](std::size_t module) {
    for (const After& one : fetch(module, true)) again.push_back(one);
  };
  if (job_.is_checkpointed(unit))
    for (std::size_t module = first; module < end; ++module) fetch_too(module);
  if (first == end) return again;
  std::vector<After> after = fetch(end - 1, true);
  for (std::size_t module = end - 1; exchanges(unit) && module-- > first;) fetch_too(module);
  after.insert(after.end(), again.begin(), again.end());
  return after;
}

void DeepspeedZero::after_backward(std::size_t unit, OpId backward, const Pass& pass) {
  pass_ = pass;
  memory_.begin_micro_batch(pass.micro == 0);
  computed(backward);
  const auto [first, end] = modules_.of_unit[unit];
  std::int64_t rest = job_.model.units[unit].trainable_parameters();
  for (std::size_t module = end; module-- > first;) {
    if (module + 1 < end && !exchanges(unit)) add_piece(module, true, fetch(module, true));
    collect(modules_.all[module].trained, false);
    rest -= modules_.all[module].trained;
  }
  collect(rest, true);
  collect_run(unit);
}

/// Behind the first unit of a run.
void DeepspeedZero::collect_run(std::size_t unit) {
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

void DeepspeedZero::after_pass(const Pass& pass) {
  if (pass.what == PipelineAction::forward) return;
  flush();
  use_ = 0;
}

/// Into the bucket, once it is reduced where they do not fit. `small`: of what stays whole.
void DeepspeedZero::collect(std::int64_t elements, bool small) {
  if (!small && bucket_ > 0 && bucket_ + elements > options_.reduce_bucket_size) flush();
  bucket_ += elements;
}

void DeepspeedZero::flush() {
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
    if (!host_) continue;
    const std::string& name = job_.model.units[runs_[run].first].name;
    const auto own = static_cast<double>(runs_[run].own_trained(shards_));
    memory_.copy_out(run, host_->send(run, name, own, {{op}}, pass_));
  }
  freed_.emplace_back(op, std::exchange(waiting_, {}));
  collected_.clear();
  bucket_ = 0;
  reduced_.push_back({op});
}

/// Its last operation, which all that is read in the next step comes after, or its own part.
OpId DeepspeedZero::step_of_all() {
  const GradientPasses how{.lane = nccl_,
                           .shards = shards_,
                           .slower = step_slowdown(job_, node_),
                           .algorithm = options_.algorithm};
  if (host_) return host_->finish(how, first_gather_of_);
  finish_gradients(
      builder_,
      {nccl_, memory_.reduced_element(), static_cast<double>(shards_.all), options_.algorithm},
      reduced_);
  prepare_gradients(builder_, how, reduced_);
  const OpId step = optimizer(builder_, optimizer_time(builder_, shards_, node_), reduced_);
  if (first_gather_) builder_[*first_gather_].after.push_back({step, 1});
  return step;
}

void DeepspeedZero::step() {
  const OpId step = step_of_all();
  memory_.update(step);
  if (modules_.persistent == 0 || !first_computed_) return;
  const OpId kept = builder_.collective(
      nccl_, "persistent parameters",
      {.kind = CollectiveKind::all_gather,
       .size = static_cast<double>(modules_.persistent) * memory_.gathered_element(),
       .algorithm = options_.algorithm},
      {{step}});
  builder_[*first_computed_].after.push_back({kept, 1});
}

}  // namespace

Program deepspeed_zero(const DeepspeedZero3& options, const RankJob& rank, const Shards& shards) {
  const Job& job = rank.job;
  const StagePlan plan =
      job.stage ? *job.stage : StagePlan::alone(job.model, options.gradient_accumulation);
  const ShardedParameters sharded(options);
  const std::vector<FlatParameter> runs = wrap(job.model, sharded, job.precision, shards);
  const Stage3Modules modules(options, job, rank.costs);
  ProgramBuilder builder(rank.name, modules.costs, job, computes_in(sharded, job.precision));
  DeepspeedZero sync(options, sharded, rank, runs, modules, shards, builder);
  return walk(plan, builder, sync);
}

}  // namespace rehearse::inline strategy
