// Parameter server with bounded staleness (Li et al., OSDI 2014; Ho et al., "More Effective
// Distributed ML via a Stale Synchronous Parallel Parameter Server", NeurIPS 2013). Parts of the
// parameters live on servers, each behind its node's NIC; gradients wait in the server's queue and
// each costs its bytes over the apply rate.
#include "base/error.hpp"
#include "strategy/program_builder.hpp"
#include "strategy/ps_worker.hpp"

namespace rehearse {

namespace {

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
  hold(MemoryKind::optimizer_state, elements * optimizer_memory(job.optimizer).kept(), "state");
  hold(MemoryKind::communication, part, "copy to send");
  for (std::size_t worker = 0; worker < job.cluster.gpu_count(); ++worker)
    hold(MemoryKind::communication, part, "gradients of worker " + std::to_string(worker));
}

// A synchronous server's own program: each part's update when enough gradients of the iteration are
// in.
Program server_program(std::size_t server, const ServerSide& side, const Job& job) {
  Program program{.name = "server"};
  hold_on_server(server, side.parts, job, program);
  for (std::size_t p = 0; side.clock.synchronous && p < side.parts.size(); ++p) {
    if (side.parts[p].server != server) continue;
    program.ops.push_back({.label = "update " + side.parts[p].name,
                           .phase = Phase::server,
                           .work = Join{},
                           .awaits = {{side.clock.gathered[p], 0}},
                           .signals = {side.clock.updated[p]},
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

  Schedule extra;  // events and queues, before the ranks that refer to them
  ServerSide side;
  side.parts = options.layerwise ? layer_parts(options, job) : server_parts(options, job);
  side.clock = make_clock(options, extra, side.parts.size(), workers);
  for (std::size_t s = 0; s < static_cast<std::size_t>(options.servers); ++s)
    side.servers.push_back({.rank = RankId(workers + s), .queue = QueueId(s)});

  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        return ps_worker_program(options, job, group, costs, side);
      });
  schedule.events = std::move(extra.events);
  schedule.sampled_ranks = static_cast<std::uint32_t>(options.sampled_workers);
  schedule.warmup_rounds = static_cast<std::uint32_t>(options.warmup_rounds);
  for (std::size_t s = 0; s < side.servers.size(); ++s) {
    schedule.queues.push_back({"server " + std::to_string(s), side.servers[s].rank});
    schedule.ranks.push_back({.program = ProgramId(schedule.programs.size()),
                              .place = {nodes[s % nodes.size()], -1},
                              .slowdown = 1,
                              .groups = {}});
    schedule.programs.push_back(server_program(s, side, job));
  }
  return schedule;
}

}  // namespace rehearse
