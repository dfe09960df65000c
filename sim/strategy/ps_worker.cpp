// A worker's iteration: pull, compute, push; with local steps, several of its own in between.
#include "strategy/ps_worker.hpp"

#include "strategy/program_builder.hpp"

namespace rehearse {
namespace {

class WorkerProgram {
 public:
  WorkerProgram(const ParameterServer& options, const Job& job, const NodeGroup& group,
                const StepCosts& costs, const ServerSide& side)
      : options_(options),
        job_(job),
        parts_(side.parts),
        servers_(side.servers),
        clock_(side.clock),
        builder_(group.name, costs, job) {
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      const std::string suffix = servers_.size() > 1 ? " " + std::to_string(s) : "";
      pull_lanes_.push_back(builder_.lane("pull" + suffix, LaneKind::communication));
      push_lanes_.push_back(builder_.lane("push" + suffix, LaneKind::communication));
    }
  }

  Program make() {
    builder_.hold_parameters();
    builder_.hold_surroundings();
    // One flat copy of all parameters is pulled into and pushed from
    // (calibrate/train/ps_worker.cpp).
    builder_.hold(builder_.tensor(MemoryKind::communication,
                                  parameter_bytes(job_.model, job_.precision),
                                  builder_.owner("flat copy")));
    std::vector<After> pulls;
    for (std::size_t p = 0; p < parts_.size(); ++p) pulls.push_back({pull(p)});
    if (options_.local_steps > 1) {
      take_local_steps(pulls);
    } else {
      take_gradients(pulls);
    }
    return std::move(builder_.program);
  }

 private:
  void take_gradients(const std::vector<After>& pulls) {
    for (std::size_t unit = 0; unit < job_.model.units.size(); ++unit)
      builder_.forward(unit, needed_by(unit, pulls));
    for (std::size_t unit = job_.model.units.size(); unit-- > 0;) {
      const OpId op = builder_.backward(unit, Gradients::kept);
      push_parts_of(unit, op, pulls);
    }
  }

  // What is pushed is how far the steps led, in the place of the last gradients; where they began
  // is kept meanwhile (calibrate/train/local_steps.cpp).
  void take_local_steps(const std::vector<After>& pulls) {
    const std::size_t units = job_.model.units.size();
    const TensorId begun =
        builder_.tensor(MemoryKind::communication, parameter_bytes(job_.model, job_.precision),
                        builder_.owner("where the steps began"));
    OpId updated{};
    for (int step = 0; step < options_.local_steps; ++step) {
      builder_.training_step(step, options_.local_steps);
      for (std::size_t unit = 0; unit < units; ++unit) {
        const OpId op =
            builder_.forward(unit, step == 0 ? needed_by(unit, pulls) : std::vector<After>{});
        if (step == 0 && unit == 0) builder_.take(op, begun);
      }
      for (std::size_t unit = units; unit-- > 0;)
        builder_.backward(unit, builder_.local_gradients());
      updated = builder_.local_update();
      if (step + 1 < options_.local_steps) builder_.give_gradients(updated);
    }
    builder_.give(updated, begun);
    for (std::size_t unit = units; unit-- > 0;) push_parts_of(unit, updated, pulls);
  }

  void push_parts_of(std::size_t unit, OpId computed, const std::vector<After>& pulls) {
    for (std::size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].first == unit) push(p, computed, pulls[p].op);
  }

  // A unit's forward needs the parts that start at it; whole-model parts are all needed by the
  // first unit.
  std::vector<After> needed_by(std::size_t unit, const std::vector<After>& pulls) const {
    std::vector<After> after;
    for (std::size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].first == unit) after.push_back(pulls[p]);
    return after;
  }

  OpId pull(std::size_t p) {
    const Part& part = parts_[p];
    Op op{.label = "pull " + part.name + " (" + format(part.size) + ")",
          .phase = Phase::communication,
          .lane = pull_lanes_[part.server],
          .work = Transfer{.source = servers_[part.server].rank, .target = {}, .size = part.size},
          .role = UpdateRole::read_parameters};
    if (clock_.synchronous) op.awaits.push_back({clock_.updated[p], 1});
    if (clock_.applied) op.awaits.push_back({*clock_.applied, *options_.staleness + 1});
    if (!clock_.warmed.empty())
      op.awaits.push_back(
          {clock_.warmed[p], 1, static_cast<std::uint32_t>(options_.warmup_rounds)});
    builder_.add(std::move(op));
    return builder_.last();
  }

  void push(std::size_t p, OpId computed, OpId pull) {
    const Part& part = parts_[p];
    const Server& server = servers_[part.server];
    builder_.add({.label = "push " + part.name + " (" + format(part.size) + ")",
                  .phase = Phase::communication,
                  .lane = push_lanes_[part.server],
                  .work = Transfer{.source = {}, .target = server.rank, .size = part.size},
                  .after = {{computed}}});
    give_gradients(p);
    Op apply{.label = "apply " + part.name,
             .phase = Phase::server,
             .queue = server.queue,
             .work = Compute{.duration = part.size / options_.apply_rate, .jittered = false},
             .after = {{builder_.last()}}};
    apply.role = clock_.synchronous ? UpdateRole::gather_gradient : UpdateRole::apply_update;
    if (clock_.synchronous) apply.signals = {clock_.gathered[p]};
    if (clock_.applied) apply.signals = {*clock_.applied};
    if (!clock_.warmed.empty()) apply.signals.push_back(clock_.warmed[p]);
    builder_.add(std::move(apply));
    // Requests of one worker are served in order: its next pull follows its own gradients.
    builder_[pull].after.push_back({builder_.last(), 1});
  }

  /// The last part of a unit's gradients that is pushed takes them with it.
  void give_gradients(std::size_t p) {
    if (!job_.set_to_none) return;
    for (std::size_t unit = parts_[p].first; unit <= parts_[p].last; ++unit) {
      if (p + 1 < parts_.size() && parts_[p + 1].first == parts_[p].first) continue;
      for (const TensorId id : builder_.gradients(unit)) builder_.give(builder_.last(), id);
    }
  }

  const ParameterServer& options_;
  const Job& job_;
  const std::vector<Part>& parts_;
  const std::vector<Server>& servers_;
  const Clock& clock_;
  ProgramBuilder builder_;
  std::vector<LaneId> pull_lanes_, push_lanes_;
};

}  // namespace

Program ps_worker_program(const ParameterServer& options, const Job& job, const NodeGroup& group,
                          const StepCosts& costs, const ServerSide& side) {
  return WorkerProgram(options, job, group, costs, side).make();
}

}  // namespace rehearse
