// A worker's iteration: pull, compute, push; with local steps, several of its own in between. Where
// a node is the worker its first GPU pulls and pushes for all of them.
#include "strategy/ps_worker.hpp"

#include <utility>

#include "strategy/outer_step.hpp"
#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {
namespace {

class WorkerProgram {
 public:
  WorkerProgram(const ParameterServer& options, const Job& job, const NodeGroup& group,
                const StepCosts& costs, const ServerSide& side, const WorkerPart& part)
      : options_(options),
        job_(job),
        node_(group.node),
        parts_(side.parts),
        servers_(side.servers),
        clock_(side.clock),
        part_(part),
        builder_(group.name, costs, job) {
    if (part_.shares) node_lane_ = builder_.lane("node", LaneKind::communication);
    for (std::size_t s = 0; part_.exchanges && !part_.queues && s < servers_.size(); ++s) {
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
    reads_.resize(parts_.size());
    std::vector<After> pulls;
    for (std::size_t p = 0; p < parts_.size(); ++p) pulls.push_back({receive(p)});
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
      push_parts_of(unit, op);
    }
  }

  // What is pushed is how far the steps led, in the place of the last gradients; where they began
  // is kept meanwhile (calibrate/train/local_steps.cpp).
  void take_local_steps(const std::vector<After>& pulls) {
    const std::size_t units = job_.model.units.size();
    const TensorId begun =
        builder_.tensor(MemoryKind::communication, parameter_bytes(job_.model, job_.precision),
                        builder_.owner("where the steps began"));
    OpId first_update{};
    for (int step = 0; step < options_.local_steps; ++step) {
      builder_.training_step(step, options_.local_steps);
      for (std::size_t unit = 0; unit < units; ++unit) {
        const OpId op =
            builder_.forward(unit, step == 0 ? needed_by(unit, pulls) : std::vector<After>{});
        if (step == 0 && unit == 0) builder_.take(op, begun);
      }
      for (std::size_t unit = units; unit-- > 0;)
        builder_.backward(unit, builder_.local_gradients());
      if (step == 0) make_states();
      const OpId updated = builder_.local_update();
      if (step == 0) first_update = updated;
      if (step + 1 < options_.local_steps) builder_.give_gradients(updated);
    }
    const OpId difference = add_kernel(
        "pseudo-gradient",
        builder_.costs().copy_time(elements() * moved_to_send(options_.compression, element())),
        options_.local_steps - 1);
    builder_.give(difference, begun);
    forget_states(first_update, difference);
    push_compressed(difference);
  }

  void push_compressed(OpId difference) {
    const bool compresses = options_.compression != OuterCompression::none;
    const TensorId buffer =
        compresses ? builder_.tensor(MemoryKind::communication,
                                     elements() * wire_element(options_.compression, element()),
                                     builder_.owner("compressed"))
                   : TensorId{};
    if (compresses) builder_.take(difference, buffer);
    for (std::size_t unit = job_.model.units.size(); unit-- > 0;) push_parts_of(unit, difference);
    if (compresses) builder_.give(last_push_, buffer);
  }

  /// The optimizer of local steps is made with each pull: its states are zeros (torch.zeros_like),
  /// and master weights are the parameters that came.
  void make_states() {
    const OptimizerMemory memory = optimizer_memory(job_.optimizer);
    Bytes moved = memory.kept();
    if (memory.master_element > Bytes(0)) moved += element();
    if (moved <= Bytes(0)) return;
    const auto trained = static_cast<double>(job_.model.trainable_parameters());
    add_kernel("optimizer states",
               builder_.step_slowdown(node_) * builder_.costs().copy_time(trained * moved), 0);
  }
  /// And it goes once its steps are taken.
  void forget_states(OpId first_update, OpId difference) {
    std::vector<TensorId> states;
    for (TensorEvent& event : builder_[first_update].memory)
      if (std::exchange(event.once, false)) states.push_back(event.tensor);
    for (const TensorId id : states) builder_.give(difference, id);
  }

  OpId add_kernel(std::string what, Seconds duration, int step) {
    builder_.add({.of = std::move(what),
                  .phase = Phase::optimizer,
                  .lane = builder_.compute_lane(),
                  .work = Compute{.duration = duration, .step = static_cast<std::uint32_t>(step)}});
    return builder_.last();
  }

  Bytes element() const { return parameter_element(job_.precision); }
  /// Of all that is pushed.
  double elements() const { return parameter_bytes(job_.model, job_.precision) / element(); }
  /// What travels of a part to the server.
  Bytes pushed_bytes(std::size_t p) const {
    return parts_[p].size * (wire_element(options_.compression, element()) / element());
  }

  void push_parts_of(std::size_t unit, OpId computed) {
    for (std::size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].first == unit) send(p, computed);
  }

  // A unit's forward needs the parts that start at it; whole-model parts are all needed by the
  // first unit.
  std::vector<After> needed_by(std::size_t unit, const std::vector<After>& pulls) const {
    std::vector<After> after;
    for (std::size_t p = 0; p < parts_.size(); ++p)
      if (parts_[p].first == unit) after.push_back(pulls[p]);
    return after;
  }

  /// The operation that leaves a part's parameters on this GPU.
  OpId receive(std::size_t p) {
    std::vector<After> pulled;
    if (part_.exchanges) pulled = {{pull(p)}};
    if (!part_.shares) return pulled.front().op;
    return builder_.collective(
        node_lane_, parts_[p].name,
        {.kind = CollectiveKind::all_gather, .group = 0, .size = parts_[p].size},
        std::move(pulled));
  }

  /// Passes a part's gradients on.
  void send(std::size_t p, OpId computed) {
    if (part_.shares)
      computed = builder_.collective(
          node_lane_, parts_[p].name,
          {.kind = CollectiveKind::reduce_scatter, .group = 0, .size = parts_[p].size},
          {{computed}});
    if (part_.exchanges) push(p, computed);
    give_gradients(p);
    if (part_.exchanges) apply(p);
  }

  OpId pull(std::size_t p) {
    const Part& part = parts_[p];
    const Server& server = servers_[part.server];
    Op read{.role = UpdateRole::read_parameters};
    if (clock_.synchronous) read.awaits.push_back({clock_.updated[p], 1});
    if (clock_.applied) read.awaits.push_back({*clock_.applied, *options_.staleness + 1});
    if (!clock_.warmed.empty())
      read.awaits.push_back(
          {clock_.warmed[p], 1, static_cast<std::uint32_t>(options_.warmup_rounds)});
    Op transfer{.verb = Verb::pull,
                .of = part.name,
                .moves = part.size,
                .phase = Phase::communication,
                .work = Transfer{.source = server.rank, .target = {}, .size = part.size}};
    if (server.message_rate) {
      read.verb = Verb::serve;
      read.of = part.name;
      read.phase = Phase::server;
      read.queue = server.queue;
      read.work = handling(part.size, *server.message_rate);
      builder_.add(std::move(read));
      transfer.after = {{builder_.last()}};
    } else {
      transfer.awaits = std::move(read.awaits);
      transfer.role = read.role;
    }
    add_message(p, Way::pull, std::move(transfer));
    reads_[p] = server.message_rate ? OpId(builder_.last().index() - 1) : builder_.last();
    if (options_.worker_cpu_rate) handle(Way::pull, p, builder_.last());
    return builder_.last();
  }

  void push(std::size_t p, OpId computed) {
    const Part& part = parts_[p];
    const Bytes size = pushed_bytes(p);
    if (options_.worker_cpu_rate) computed = handle(Way::push, p, computed);
    add_message(p, Way::push,
                {.verb = Verb::push,
                 .of = part.name,
                 .moves = size,
                 .phase = Phase::communication,
                 .work = Transfer{.source = {}, .target = servers_[part.server].rank, .size = size},
                 .after = {{computed}}});
    last_push_ = builder_.last();
  }

  /// What the server does with the part that was pushed last.
  void apply(std::size_t p) {
    const Part& part = parts_[p];
    const Server& server = servers_[part.server];
    if (server.message_rate)
      builder_.add({.verb = Verb::take_in,
                    .of = part.name,
                    .phase = Phase::server,
                    .queue = server.queue,
                    .work = handling(pushed_bytes(p), *server.message_rate),
                    .after = {{builder_.last()}}});
    Op apply{.verb = Verb::apply,
             .of = part.name,
             .phase = Phase::server,
             .queue = server.queue,
             .work = handling(part.size, server.apply_rate),
             .after = {{builder_.last()}}};
    apply.role = clock_.synchronous ? UpdateRole::gather_gradient : UpdateRole::apply_update;
    if (clock_.synchronous) apply.signals = {clock_.gathered[p]};
    if (clock_.applied) apply.signals = {*clock_.applied};
    if (!clock_.warmed.empty()) apply.signals.push_back(clock_.warmed[p]);
    builder_.add(std::move(apply));
    // Requests of one worker are served in order: its next pull follows its own gradients.
    builder_[reads_[p]].after.push_back({builder_.last(), 1});
  }

  static Compute handling(Bytes size, BytesPerSecond rate) {
    return {.duration = size / rate, .jittered = false};
  }

  enum class Way { pull, push };

  /// One at a time of each server's and each way's: in program order, or the most urgent.
  void add_message(std::size_t p, Way way, Op op) {
    const std::size_t server = parts_[p].server;
    if (part_.queues) {
      op.queue = QueueId(part_.queues->index() + 2 * server + (way == Way::push ? 1 : 0));
      op.priority = static_cast<std::uint32_t>(p);  // parts are in the order of forward
    } else {
      op.lane = way == Way::push ? push_lanes_[server] : pull_lanes_[server];
    }
    builder_.add(std::move(op));
  }

  /// The worker's CPU beside a message.
  OpId handle(Way way, std::size_t p, OpId after) {
    add_message(p, way,
                {.verb = way == Way::push ? Verb::pack : Verb::unpack,
                 .of = parts_[p].name,
                 .phase = Phase::host,
                 .work = handling(way == Way::push ? pushed_bytes(p) : parts_[p].size,
                                  *options_.worker_cpu_rate),
                 .after = {{after}}});
    return builder_.last();
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
  const Node& node_;
  const std::vector<Part>& parts_;
  const std::vector<Server>& servers_;
  const Clock& clock_;
  WorkerPart part_;
  ProgramBuilder builder_;
  std::vector<LaneId> pull_lanes_, push_lanes_;
  LaneId node_lane_{};
  OpId last_push_{};
  std::vector<OpId> reads_;  ///< by part: what its next iteration's own gradients come before
};

}  // namespace

Program ps_worker_program(const ParameterServer& options, const Job& job, const NodeGroup& group,
                          const StepCosts& costs, const ServerSide& side, const WorkerPart& part) {
  return WorkerProgram(options, job, group, costs, side, part).make();
}

}  // namespace rehearse::inline strategy
