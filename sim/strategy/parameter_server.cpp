// Parameter server with bounded staleness (Li et al., OSDI 2014; Ho et al., "More Effective
// Distributed ML via a Stale Synchronous Parallel Parameter Server", NeurIPS 2013). Parts of the
// parameters live on servers, each behind its node's NIC; gradients wait in the server's queue and
// each costs its bytes over the apply rate, which is given or follows from the server's host.
#include <fmt/format.h>

#include "base/error.hpp"
#include "strategy/build_schedule.hpp"
#include "strategy/outer/outer_step.hpp"
#include "strategy/program_builder.hpp"
#include "strategy/server_host.hpp"
#include "strategy/sync/server.hpp"

namespace rehearse::inline strategy {

namespace {

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

// Per element of a server's part. Of local steps the optimizer is the workers', and the server has
// the momentum of the outer one (torch.optim.SGD's momentum_buffer, as parameters are stored).
Bytes server_state(const ParameterServer& options, const Job& job) {
  if (options.local_steps == 1) return optimizer_memory(job.optimizer).kept();
  if (!options.outer) return Bytes(0);
  return optimizer_memory(as_optimizer(*options.outer, job.precision)).kept();
}

// What a server holds of its part in host memory (calibrate/server): the parameters, a copy of them
// that is being sent, the optimizer's state, and what each worker has sent.
void hold_on_server(std::size_t server, const ServerSide& side, const ParameterServer& options,
                    const Job& job, std::size_t workers, Program& program) {
  Bytes part;
  for (const Part& one : side.parts)
    if (one.server == server) part += one.size / static_cast<double>(options.stands_for);
  const auto hold = [&](MemoryKind kind, Bytes size, std::string owner) {
    program.setup.push_back({TensorId(program.tensors.size()), TensorEvent::Action::take});
    program.tensors.push_back({kind, size, static_cast<std::uint32_t>(program.owners.size())});
    program.owners.push_back(std::move(owner));
  };
  hold(MemoryKind::parameters, part, "parameters");
  const Bytes element = parameter_element(job.precision);
  const double elements = part / element;
  hold(MemoryKind::optimizer_state, elements * server_state(options, job), "state");
  hold(MemoryKind::communication, part, "copy to send");
  for (std::size_t worker = 0; worker < workers; ++worker)
    hold(MemoryKind::communication, elements * wire_element(options.compression, element),
         "gradients of worker " + std::to_string(worker));
}

// A synchronous server's own program: each part's update when enough gradients of the iteration are
// in. Where the apply rate is given the update is part of it.
Program server_program(std::size_t server, const ServerSide& side) {
  Program program{.name = "server"};
  for (std::size_t p = 0; side.clock.synchronous && p < side.parts.size(); ++p) {
    if (side.parts[p].server != server) continue;
    Op update{.verb = Verb::update,
              .of = side.parts[p].name,
              .phase = Phase::server,
              .work = Join{},
              .awaits = {{side.clock.gathered[p], 0}},
              .signals = {side.clock.updated[p]},
              .role = UpdateRole::apply_update};
    if (const Seconds time = side.servers[server].update_time(side.parts[p].size);
        time > Seconds(0)) {
      update.queue = side.servers[server].queue;
      update.work = Compute{.duration = time, .jittered = false};
    }
    program.ops.push_back(std::move(update));
  }
  return program;
}

/// As many like servers at once: where workers are on the same nodes, each has one beside it.
void stand_for(const ParameterServer& options, const Cluster& cluster, Server& server) {
  const double all = options.stands_for;
  server.apply_rate *= all;
  if (server.update_rate) *server.update_rate *= all;
  if (server.message_rate) *server.message_rate *= all;
  if (server.connection_rate) *server.connection_rate *= all;
  const NodeId host = server_hosts(options, cluster).front();
  if (cluster.node(host).nic_ways_shared) server.crosses = (all - 1) / all;
}

// What the options say of every server, and its host of the rest.
std::vector<Server> servers_of(const ParameterServer& options, const Job& job) {
  const std::vector<HostTraffic> traffic = server_traffic(options, job.cluster);
  const double applied = moved_per_gradient_byte(options, job.optimizer, job.precision);
  const double updated = moved_per_updated_byte(options, job.optimizer, job.precision);
  std::vector<Server> servers;
  for (std::size_t s = 0; s < traffic.size(); ++s) {
    Server server{.rank = RankId(job.cluster.gpu_count() + s), .queue = QueueId(s)};
    server.apply_rate = options.apply_rate.value_or(traffic[s].best / applied);
    if (!options.apply_rate && updated > 0) server.update_rate = traffic[s].best / updated;
    server.message_rate = options.server_cpu_rate;
    server.connection_rate = options.connection_rate;
    if (options.stands_for > 1) stand_for(options, job.cluster, server);
    servers.push_back(server);
  }
  return servers;
}

// The GPUs of a node but its first follow it: they have no exchange of their own.
void make_nodes_workers(const ParameterServer& options, const Job& job, const ServerSide& side,
                        Schedule& schedule) {
  std::vector<std::optional<ProgramId>> followers(schedule.programs.size());
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    RankSpec& rank = schedule.ranks[r];
    const NodeGroup& group = job.cluster.group_of(rank.place.node);
    if (group.node.gpus < 2) continue;
    if (rank.place.gpu == 0) {
      std::vector<RankId> members;
      for (int gpu = 0; gpu < group.node.gpus; ++gpu)
        members.emplace_back(r + static_cast<std::size_t>(gpu));
      schedule.groups.push_back(make_group("node " + std::to_string(rank.place.node.index()),
                                           std::move(members), schedule));
    }
    rank.groups = {GroupId(schedule.groups.size() - 1)};
    if (rank.place.gpu == 0) continue;
    std::optional<ProgramId>& follower = followers[rank.program.index()];
    if (!follower) {
      const auto index = static_cast<std::size_t>(&group - job.cluster.groups.data());
      follower = ProgramId(schedule.programs.size());
      schedule.programs.push_back(server_worker(options, {job, group, group.name, job.costs[index]},
                                                side, {.exchanges = false, .shares = true}));
    }
    rank.program = *follower;
  }
}

/// Each worker gets a program of its own, with the queues that the first one's was made with moved
/// to its own.
void give_queues(const ParameterServer& options, const Job& job, Schedule& schedule) {
  const auto servers = static_cast<std::size_t>(options.servers);
  const std::size_t shared = schedule.queues.size(), programs = schedule.programs.size();
  std::vector<bool> taken(programs, false);
  const std::vector<Program> made = schedule.programs;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    RankSpec& rank = schedule.ranks[r];
    if (options.aggregate == ParameterServer::Aggregate::node && rank.place.gpu != 0 &&
        job.cluster.group_of(rank.place.node).node.gpus > 1)
      continue;
    const std::size_t moved = schedule.queues.size() - shared;
    for (std::size_t s = 0; s < servers; ++s)
      for (const char* way : {"pulls from", "pushes to"})
        schedule.queues.push_back({fmt::format("{} server {}", way, s), RankId(r), true});
    const std::size_t of = rank.program.index();
    Program program = made[of];
    for (Op& op : program.ops)
      if (op.queue && op.queue->index() >= shared) op.queue = QueueId(op.queue->index() + moved);
    if (!taken[of]) {
      taken[of] = true;
      schedule.programs[of] = std::move(program);
    } else {
      rank.program = ProgramId(schedule.programs.size());
      schedule.programs.push_back(std::move(program));
    }
  }
}

}  // namespace

Schedule build(const ParameterServer& options, const Job& job) {
  require_gpus(job);
  const std::size_t workers = worker_count(options, job.cluster);
  if (static_cast<std::size_t>(options.backup_workers) >= workers)
    throw InputError("error: strategy.ps.backup_workers: " +
                     std::to_string(options.backup_workers) + " of " + std::to_string(workers) +
                     " workers would leave none whose gradients count\nremedy: at most " +
                     std::to_string(workers - 1));
  if (static_cast<std::size_t>(options.sampled_workers) > workers)
    throw InputError(
        "error: strategy.ps.sampled_workers: " + std::to_string(options.sampled_workers) + " of " +
        std::to_string(workers) + " workers\nremedy: at most " + std::to_string(workers));
  const std::vector<NodeId> hosts = server_hosts(options, job.cluster);

  Schedule extra;  // events and queues, before the ranks that refer to them
  ServerSide side;
  side.parts = options.layerwise ? layer_parts(options, job) : server_parts(options, job);
  side.clock = make_clock(options, extra, side.parts.size(), workers);
  side.servers = servers_of(options, job);

  const bool by_node = options.aggregate == ParameterServer::Aggregate::node;
  const bool by_priority = options.scheduling == ParameterServer::Scheduling::priority;
  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        WorkerPart part{.shares = by_node && group.node.gpus > 1};
        if (by_priority) part.queues = QueueId(side.servers.size());
        return server_worker(options, {job, group, group.name, costs}, side, part);
      });
  for (std::size_t s = 0; s < side.servers.size(); ++s)
    schedule.queues.push_back({"server " + std::to_string(s), side.servers[s].rank});
  if (by_priority) give_queues(options, job, schedule);
  if (by_node) make_nodes_workers(options, job, side, schedule);
  schedule.events = std::move(extra.events);
  schedule.sampled_ranks = static_cast<std::uint32_t>(options.sampled_workers);
  schedule.warmup_rounds = static_cast<std::uint32_t>(options.warmup_rounds);
  for (std::size_t s = 0; s < side.servers.size(); ++s) {
    schedule.ranks.push_back({.program = ProgramId(schedule.programs.size()),
                              .place = {hosts[s], -1},
                              .slowdown = 1,
                              .groups = {}});
    Program& program = schedule.programs.emplace_back(server_program(s, side));
    hold_on_server(s, side, options, job, workers, program);
  }
  return schedule;
}

}  // namespace rehearse::inline strategy
