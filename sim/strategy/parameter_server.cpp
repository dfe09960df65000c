// Parameter server with bounded staleness (Li et al., OSDI 2014; Ho et al., "More Effective
// Distributed ML via a Stale Synchronous Parallel Parameter Server", NeurIPS 2013). Parts of the
// parameters live on servers, each behind its node's NIC; gradients wait in the server's queue and
// each costs its bytes over the apply rate.
#include <algorithm>

#include "base/error.hpp"
#include "strategy/program_builder.hpp"

namespace rehearse {

namespace {

// What one message carries: some of the parameters of units [first, last], all of which live on one
// server.
struct Part {
  std::size_t server = 0;
  std::size_t first = 0, last = 0;
  Bytes size;
  std::string name;
};

std::vector<Part> layer_parts(const ParameterServer& options, const Job& job) {
  std::vector<Part> parts;
  const auto servers = static_cast<std::size_t>(options.servers);
  std::size_t turn = 0;
  for (std::size_t unit = 0; unit < job.model.units.size(); ++unit) {
    const Bytes size = parameter_bytes(job.model.units[unit], job.precision);
    if (size.value() <= 0) continue;
    const std::string& name = job.model.units[unit].name;
    if (options.partition == ParameterServer::Partition::unit) {
      parts.push_back({turn++ % servers, unit, unit, size, name});
      continue;
    }
    for (std::size_t s = 0; s < servers; ++s)
      parts.push_back({s, unit, unit, size / static_cast<double>(servers), name});
  }
  return parts;
}

// One part per server: all that it holds.
std::vector<Part> server_parts(const ParameterServer& options, const Job& job) {
  std::vector<Part> parts(static_cast<std::size_t>(options.servers));
  for (std::size_t s = 0; s < parts.size(); ++s)
    parts[s] = {s, 0, job.model.units.size() - 1, Bytes(0), "parameters"};
  for (const Part& layer : layer_parts(options, job)) parts[layer.server].size += layer.size;
  std::erase_if(parts, [](const Part& part) { return part.size.value() <= 0; });
  return parts;
}

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
        builder_(group.name, costs, job.model) {
    for (std::size_t s = 0; s < servers.size(); ++s) {
      const std::string suffix = servers.size() > 1 ? " " + std::to_string(s) : "";
      pull_lanes_.push_back(builder_.lane("pull" + suffix, LaneKind::communication));
      push_lanes_.push_back(builder_.lane("push" + suffix, LaneKind::communication));
    }
  }

  Program make() {
    builder_.resident(MemoryKind::parameters, parameter_bytes(job_.model, job_.precision));
    std::vector<After> pulls;
    for (std::size_t p = 0; p < parts_.size(); ++p) pulls.push_back({pull(p)});
    for (std::size_t unit = 0; unit < job_.model.units.size(); ++unit)
      builder_.forward(unit, needed_by(unit, pulls));
    for (std::size_t unit = job_.model.units.size(); unit-- > 0;) {
      const OpId op = builder_.backward(unit);
      builder_[op].memory.push_back(
          {MemoryKind::gradients, parameter_bytes(job_.model.units[unit], job_.precision)});
      for (std::size_t p = 0; p < parts_.size(); ++p)
        if (parts_[p].first == unit) push(p, op, pulls[p].op);
    }
    return std::move(builder_.program);
  }

 private:
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
    builder_.add(std::move(op));
    return builder_.last();
  }

  void push(std::size_t p, OpId backward, OpId pull) {
    const Part& part = parts_[p];
    const Server& server = servers_[part.server];
    builder_.add({.label = "push " + part.name + " (" + format(part.size) + ")",
                  .phase = Phase::communication,
                  .lane = push_lanes_[part.server],
                  .work = Transfer{.source = {}, .target = server.rank, .size = part.size},
                  .after = {{backward}},
                  .memory = {{MemoryKind::gradients, -gradients_in(p)}}});
    Op apply{.label = "apply " + part.name,
             .phase = Phase::server,
             .queue = server.queue,
             .work = Compute{.duration = part.size / options_.apply_rate, .jittered = false},
             .after = {{builder_.last()}}};
    apply.role = clock_.synchronous ? UpdateRole::gather_gradient : UpdateRole::apply_update;
    if (clock_.synchronous) apply.signals = {clock_.gathered[p]};
    if (clock_.applied) apply.signals = {*clock_.applied};
    builder_.add(std::move(apply));
    // Requests of one worker are served in order: its next pull follows its own gradients.
    builder_[pull].after.push_back({builder_.last(), 1});
  }

  // Gradients are given back with the push; the bytes of units without a part of their own go with
  // none.
  Bytes gradients_in(std::size_t p) const { return parts_[p].size; }

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
  Clock clock{.synchronous = options.staleness == 0U, .gathered = {}, .updated = {}, .applied = {}};
  if (!options.staleness) return clock;
  if (!clock.synchronous) {
    clock.applied = EventId(schedule.events.size());
    schedule.events.push_back({"every worker's gradients are applied", workers * parts});
    return clock;
  }
  const std::size_t needed = workers - static_cast<std::size_t>(options.backup_workers);
  for (std::size_t p = 0; p < parts; ++p) {
    clock.gathered.emplace_back(schedule.events.size());
    schedule.events.push_back({"gradients of part " + std::to_string(p) + " are in", needed});
    clock.updated.emplace_back(schedule.events.size());
    schedule.events.push_back({"part " + std::to_string(p) + " is updated", 1});
  }
  return clock;
}

// A synchronous server's own program: each part's update when enough gradients of the iteration are
// in.
Program server_program(std::size_t server, const std::vector<Part>& parts, const Clock& clock) {
  Program program{.name = "server", .lanes = {}, .ops = {}, .resident = {}};
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
  for (std::size_t s = 0; s < servers.size(); ++s) {
    schedule.queues.push_back({"server " + std::to_string(s), servers[s].rank});
    schedule.ranks.push_back({.program = ProgramId(schedule.programs.size()),
                              .place = {nodes[s % nodes.size()], -1},
                              .slowdown = 1,
                              .groups = {}});
    schedule.programs.push_back(server_program(s, parts, clock));
  }
  return schedule;
}

}  // namespace rehearse
