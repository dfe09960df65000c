// Parameter server with bounded staleness (Li et al., OSDI 2014; Ho et al., "More Effective
// Distributed ML via a Stale Synchronous Parallel Parameter Server", NeurIPS 2013). Parts of the
// parameters live on servers, each behind its node's NIC; gradients wait in the server's queue and
// each costs its bytes over the apply rate.
#include <algorithm>

#include "base/error.hpp"
#include "strategy/program_builder.hpp"
#include "strategy/server_parts.hpp"

namespace rehearse {

namespace {

struct Server {
  RankId rank;
  QueueId queue;
};

// How workers and servers keep step; events are per part, or one clock for all.
struct Clock {
  bool synchronous = false;
  std::vector<EventId> gathered;  // synchronous: enough gradients of a part are in
  std::vector<EventId> updated;   // synchronous: the part is updated
  std::optional<EventId>
      applied;  // bounded stale: every worker's gradients of an iteration are applied
  std::vector<EventId> warmed;  // warm-up rounds: every worker's gradients of a part are applied
};

class WorkerProgram {
 public:
  WorkerProgram(const ParameterServer& options, const Job& job, const NodeGroup& group,
                const StepCosts& costs, const std::vector<Part>& parts,
                const std::vector<Server>& servers, const Clock& clock)
      : options_(options),
        job_(job),
        parts_(parts),
        servers_(servers),
        clock_(clock),
        builder_(group.name, costs, job) {
    for (std::size_t s = 0; s < servers.size(); ++s) {
      const std::string suffix = servers.size() > 1 ? " " + std::to_string(s) : "";
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

// Node groups that may host servers: the one that is named, else those without GPUs, else the
// workers' own.
std::vector<NodeId> server_nodes(const ParameterServer& options, const Cluster& cluster) {
  std::vector<NodeId> named, without_gpus, workers;
  std::size_t node = 0;
  for (const NodeGroup& group : cluster.groups) {
    for (int i = 0; i < group.nodes; ++i, ++node) {
      if (group.name == options.server_host) named.emplace_back(node);
      (group.node.gpus == 0 ? without_gpus : workers).emplace_back(node);
    }
  }
  if (!named.empty()) return named;
  if (options.server_host == "worker") return workers;
  if (options.server_host.empty()) return without_gpus.empty() ? workers : without_gpus;
  std::string names = "\"worker\"";
  for (const NodeGroup& group : cluster.groups)
    if (!group.name.empty()) names += ", \"" + group.name + "\"";
  throw InputError("error: strategy.ps.server_host: the cluster has no group of nodes named \"" +
                   options.server_host + "\"\nremedy: choose one of " + names);
}

Clock make_clock(const ParameterServer& options, Schedule& schedule, std::size_t parts,
                 std::size_t workers) {
  Clock clock{.synchronous = options.staleness == 0U,
              .gathered = {},
              .updated = {},
              .applied = {},
              .warmed = {}};
  for (std::size_t p = 0; p < parts && options.warmup_rounds > 0; ++p) {
    clock.warmed.emplace_back(schedule.events.size());
    schedule.events.push_back({"part " + std::to_string(p) + " of a round is applied", workers});
  }
  if (!options.staleness) return clock;
  if (!clock.synchronous) {
    clock.applied = EventId(schedule.events.size());
    schedule.events.push_back({"every worker's gradients are applied", workers * parts});
    return clock;
  }
  const std::size_t needed = options.sampled_workers > 0
                                 ? static_cast<std::size_t>(options.sampled_workers)
                                 : workers - static_cast<std::size_t>(options.backup_workers);
  for (std::size_t p = 0; p < parts; ++p) {
    clock.gathered.emplace_back(schedule.events.size());
    schedule.events.push_back({"gradients of part " + std::to_string(p) + " are in", needed});
    clock.updated.emplace_back(schedule.events.size());
    schedule.events.push_back({"part " + std::to_string(p) + " is updated", 1});
  }
  return clock;
}

// What a server holds of its part in host memory (calibrate/server): the parameters, a copy of them
// that is being sent, the optimizer's state, and what each worker has sent.
void hold_on_server(std::size_t server, const std::vector<Part>& parts, const Job& job,
                    Program& program) {
  Bytes part;
  for (const Part& one : parts)
    if (one.server == server) part += one.size;
  const auto hold = [&](MemoryKind kind, Bytes size, std::string owner) {
    program.setup.push_back({TensorId(program.tensors.size()), TensorEvent::Action::take});
    program.tensors.push_back({kind, size, static_cast<std::uint32_t>(program.owners.size())});
    program.owners.push_back(std::move(owner));
  };
  hold(MemoryKind::parameters, part, "parameters");
  const double elements = part / parameter_element(job.precision);
  hold(MemoryKind::optimizer_state,
       Bytes(4) * elements * state_elements_per_parameter(job.optimizer.kind, job.precision),
       "state");
  hold(MemoryKind::communication, part, "copy to send");
  for (std::size_t worker = 0; worker < job.cluster.gpu_count(); ++worker)
    hold(MemoryKind::communication, part, "gradients of worker " + std::to_string(worker));
}

// A synchronous server's own program: each part's update when enough gradients of the iteration are
// in.
Program server_program(std::size_t server, const std::vector<Part>& parts, const Clock& clock,
                       const Job& job) {
  Program program{.name = "server"};
  hold_on_server(server, parts, job, program);
  for (std::size_t p = 0; clock.synchronous && p < parts.size(); ++p) {
    if (parts[p].server != server) continue;
    program.ops.push_back({.label = "update " + parts[p].name,
                           .phase = Phase::server,
                           .work = Join{},
                           .awaits = {{clock.gathered[p], 0}},
                           .signals = {clock.updated[p]},
                           .role = UpdateRole::apply_update});
  }
  return program;
}

}  // namespace

Schedule build(const ParameterServer& options, const Job& job) {
  require_gpus(job);
  const std::size_t workers = job.cluster.gpu_count();
  if (static_cast<std::size_t>(options.backup_workers) >= workers)
    throw InputError("error: strategy.ps.backup_workers: " +
                     std::to_string(options.backup_workers) + " of " + std::to_string(workers) +
                     " workers would leave none whose gradients count\nremedy: at most " +
                     std::to_string(workers - 1));
  if (static_cast<std::size_t>(options.sampled_workers) > workers)
    throw InputError(
        "error: strategy.ps.sampled_workers: " + std::to_string(options.sampled_workers) + " of " +
        std::to_string(workers) + " workers\nremedy: at most " + std::to_string(workers));
  const auto nodes = server_nodes(options, job.cluster);
  const auto parts = options.layerwise ? layer_parts(options, job) : server_parts(options, job);

  Schedule extra;  // events and queues, before the ranks that refer to them
  const Clock clock = make_clock(options, extra, parts.size(), workers);
  std::vector<Server> servers;
  for (std::size_t s = 0; s < static_cast<std::size_t>(options.servers); ++s)
    servers.push_back({.rank = RankId(workers + s), .queue = QueueId(s)});

  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        return WorkerProgram(options, job, group, costs, parts, servers, clock).make();
      });
  schedule.events = std::move(extra.events);
  schedule.sampled_ranks = static_cast<std::uint32_t>(options.sampled_workers);
  schedule.warmup_rounds = static_cast<std::uint32_t>(options.warmup_rounds);
  for (std::size_t s = 0; s < servers.size(); ++s) {
    schedule.queues.push_back({"server " + std::to_string(s), servers[s].rank});
    schedule.ranks.push_back({.program = ProgramId(schedule.programs.size()),
                              .place = {nodes[s % nodes.size()], -1},
                              .slowdown = 1,
                              .groups = {}});
    schedule.programs.push_back(server_program(s, parts, clock, job));
  }
  return schedule;
}

}  // namespace rehearse
