// A worker's iteration: pull, compute, push; with local steps, several of its own in between. Where
// a node is the worker its first GPU pulls and pushes for all of them.
#include "strategy/sync/server.hpp"

#include <utility>

#include "model/parallel.hpp"
#include "strategy/holdings.hpp"
#include "strategy/layout/stage_plan.hpp"
#include "strategy/outer/outer_step.hpp"
#include "strategy/sync/programs.hpp"
#include "strategy/sync/server_messages.hpp"

namespace rehearse::inline strategy {
namespace {

class ServerSync : public Sync {
 public:
  ServerSync(const ParameterServer& options, const RankJob& rank, const ServerSide& side,
             const WorkerPart& part, ProgramBuilder& builder)
      : options_(options),
        job_(rank.job),
        node_(rank.group.node),
        builder_(builder),
        messages_(options, side, part, builder),
        optimizer_(builder) {}

  void setup() override;
  std::vector<After> before_forward(std::size_t unit, const Pass& pass) override;
  void after_forward(std::size_t unit, OpId forward, const Pass& pass) override;
  Gradients gradients(const Pass& pass) const override;
  void after_backward(std::size_t unit, OpId backward, const Pass& pass) override;
  void step() override;

 private:
  bool has_local_steps() const { return options_.local_steps > 1; }
  /// Of a worker's first step the parameters are those that it has pulled.
  bool pulls(const Pass& pass) const { return steps_ == 0 && pass.micro == 0; }
  Bytes element() const { return parameter_element(job_.precision); }
  /// Of all that is pushed.
  double elements() const { return parameter_bytes(job_.model, job_.precision) / element(); }
  bool sums_last() const;
  void sum_gradients();
  void push_parts_of(std::size_t unit, OpId computed);
  void push_difference();
  void push_compressed(OpId difference);
  void make_states();
  void forget_states(OpId difference);
  OpId add_kernel(std::string what, Seconds duration, int step);

  const ParameterServer& options_;
  const Job& job_;
  const Node& node_;
  ProgramBuilder& builder_;
  ServerMessages messages_;
  LocalOptimizer optimizer_;
  std::vector<After> pulls_;  ///< by part
  TensorId begun_{};          ///< where local steps began
  int steps_ = 0;             ///< that are over
  OpId first_update_{};
  std::optional<LaneId> replica_lane_;
};

/// One flat copy of all parameters is pulled into and pushed from (calibrate/train/ps_worker.cpp).
void ServerSync::setup() {
  hold_parameters(builder_);
  hold_surroundings(builder_);
  const Bytes all = parameter_bytes(job_.model, job_.precision);
  builder_.hold(builder_.tensor(MemoryKind::communication, all, builder_.owner("flat copy")));
  for (std::size_t p = 0; p < messages_.parts().size(); ++p)
    pulls_.push_back({messages_.receive(p)});
  if (has_local_steps())
    begun_ =
        builder_.tensor(MemoryKind::communication, all, builder_.owner("where the steps began"));
}

/// A unit's forward needs the parts that start at it; whole-model parts are all needed by the first
/// unit.
std::vector<After> ServerSync::before_forward(std::size_t unit, const Pass& pass) {
  std::vector<After> after;
  for (std::size_t p = 0; p < pulls_.size() && pulls(pass); ++p)
    if (messages_.parts()[p].first == unit) after.push_back(pulls_[p]);
  return after;
}

void ServerSync::after_forward(std::size_t unit, OpId forward, const Pass& pass) {
  if (has_local_steps() && pulls(pass) && unit == 0) builder_.take(forward, begun_);
}

Gradients ServerSync::gradients(const Pass& pass) const {
  if (!pass.first) return Gradients::added;
  return has_local_steps() ? optimizer_.gradients() : Gradients::kept;
}

void ServerSync::after_backward(std::size_t unit, OpId backward, const Pass& pass) {
  if (pass.last && !has_local_steps() && !sums_last()) push_parts_of(unit, backward);
}

/// Ranks of a replica have gradients to sum before these are pushed (finish_gradients).
bool ServerSync::sums_last() const {
  if (job_.stage == nullptr) return false;
  const bool tensor = job_.stage->exchange_groups.contains(ExchangeAxis::tensor);
  return job_.stage->shared_weight_group || (tensor && summed_elements(job_.model) > 0);
}

void ServerSync::sum_gradients() {
  if (!sums_last()) return;
  if (!replica_lane_) replica_lane_ = builder_.lane("nccl", LaneKind::communication);
  std::vector<After> summed = {{*builder_.last_computed()}};
  finish_gradients(builder_, {*replica_lane_, element()}, summed);
  if (has_local_steps()) return;
  for (std::size_t unit = job_.model.units.size(); unit-- > 0;)
    push_parts_of(unit, summed.front().op);
}

void ServerSync::step() {
  sum_gradients();
  if (!has_local_steps()) return;
  if (steps_ == 0) make_states();
  const OpId updated = optimizer_.step();
  if (steps_ == 0) first_update_ = updated;
  if (++steps_ == options_.local_steps) return push_difference();
  builder_.tapes().give_gradients(updated);
}

/// How far the steps led is pushed, in the place of the last gradients; where they began is kept
/// meanwhile (calibrate/train/local_steps.cpp).
void ServerSync::push_difference() {
  const OpId difference = add_kernel(
      "pseudo-gradient",
      builder_.costs().copy_time(elements() * moved_to_send(options_.compression, element())),
      options_.local_steps - 1);
  builder_.give(difference, begun_);
  forget_states(difference);
  push_compressed(difference);
}

void ServerSync::push_compressed(OpId difference) {
  const bool compresses = options_.compression != OuterCompression::none;
  const TensorId buffer =
      compresses ? builder_.tensor(MemoryKind::communication,
                                   elements() * wire_element(options_.compression, element()),
                                   builder_.owner("compressed"))
                 : TensorId{};
  if (compresses) builder_.take(difference, buffer);
  for (std::size_t unit = job_.model.units.size(); unit-- > 0;) push_parts_of(unit, difference);
  if (compresses) builder_.give(messages_.last_push(), buffer);
}

/// The optimizer of local steps is made with each pull: its states are zeros (torch.zeros_like),
/// and master weights are the parameters that came.
void ServerSync::make_states() {
  const OptimizerMemory memory = optimizer_memory(job_.optimizer);
  Bytes moved = memory.kept();
  if (memory.master_element > Bytes(0)) moved += element();
  if (moved <= Bytes(0)) return;
  const auto trained = static_cast<double>(job_.model.trainable_parameters());
  add_kernel("optimizer states",
             step_slowdown(job_, node_) * builder_.costs().copy_time(trained * moved), 0);
}
/// And it goes once its steps are taken.
void ServerSync::forget_states(OpId difference) {
  std::vector<TensorId> states;
  for (TensorEvent& event : builder_[first_update_].memory)
    if (std::exchange(event.once, false)) states.push_back(event.tensor);
  for (const TensorId id : states) builder_.give(difference, id);
}

OpId ServerSync::add_kernel(std::string what, Seconds duration, int step) {
  builder_.add({.of = std::move(what),
                .phase = Phase::optimizer,
                .lane = builder_.compute_lane(),
                .work = Compute{.duration = duration, .step = static_cast<std::uint32_t>(step)}});
  return builder_.last();
}

void ServerSync::push_parts_of(std::size_t unit, OpId computed) {
  for (std::size_t p = 0; p < messages_.parts().size(); ++p)
    if (messages_.parts()[p].first == unit) messages_.send(p, computed);
}

}  // namespace

Program server_worker(const ParameterServer& options, const RankJob& rank, const ServerSide& side,
                      const WorkerPart& part) {
  StagePlan plan = rank.job.stage ? *rank.job.stage : StagePlan::alone(rank.job.model, 1);
  plan.steps = options.local_steps;
  ProgramBuilder builder(rank.name, rank.costs, rank.job);
  ServerSync sync(options, rank, side, part, builder);
  return walk(plan, builder, sync);
}

}  // namespace rehearse::inline strategy
