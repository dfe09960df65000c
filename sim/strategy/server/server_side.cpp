// Servers are made of these, whoever their workers are: clocks, rates, memory and programs.
#include "strategy/server/server_side.hpp"

#include <fmt/format.h>

#include "strategy/outer/outer_step.hpp"
#include "strategy/program_builder.hpp"
#include "strategy/server/server_host.hpp"

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
void hold_on_server(std::size_t server, const std::vector<ServerSide>& sides,
                    const ParameterServer& options, const Job& job, std::size_t workers,
                    Program& program) {
  Bytes part;
  for (const ServerSide& side : sides)
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
void add_updates(std::size_t server, const ServerSide& side, Program& program) {
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
}

/// As many like servers at once: where workers are on the same nodes, each has one beside it.
void stand_for(const ParameterServer& options, const Cluster& cluster, Server& server) {
  const double all = options.stands_for;
  server.apply_rate *= all;
  if (server.update_rate) *server.update_rate *= all;
  if (server.message_rate) *server.message_rate *= all;
  const NodeId host = server_hosts(options, cluster).front();
  if (cluster.node(host).nic_ways_shared) server.crosses = (all - 1) / all;
}

// The options say what every server does, and its host says the rest.
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
    if (options.stands_for > 1) stand_for(options, job.cluster, server);
    servers.push_back(server);
  }
  return servers;
}

/// Each worker gets a program of its own, with the queues that the first one's was made with moved
/// to its own.
void give_queues(const ParameterServer& options, Schedule& schedule) {
  const auto servers = static_cast<std::size_t>(options.servers);
  const std::size_t shared = schedule.queues.size(), programs = schedule.programs.size();
  std::vector<bool> taken(programs, false);
  const std::vector<Program> made = schedule.programs;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    RankSpec& rank = schedule.ranks[r];
    const bool follows = options.aggregate == ParameterServer::Aggregate::node;
    if (follows && rank.place.gpu > 0) continue;
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

ServerSide server_side(const ParameterServer& options, const Job& job, std::size_t workers,
                       Schedule& schedule) {
  ServerSide side;
  side.parts = options.layerwise ? layer_parts(options, job) : server_parts(options, job);
  side.clock = make_clock(options, schedule, side.parts.size(), workers);
  side.servers = servers_of(options, job);
  return side;
}

namespace {

/// A pull behind its own push is answered before others' pushes are taken in.
bool answers_first(const ParameterServer& options) {
  return options.staleness != 0U && options.protocol == ParameterServer::Protocol::behind_push;
}

}  // namespace

void add_queues(const ParameterServer& options, const std::vector<Server>& servers,
                Schedule& schedule) {
  for (std::size_t s = 0; s < servers.size(); ++s)
    schedule.queues.push_back(
        {"server " + std::to_string(s), servers[s].rank, answers_first(options)});
  if (options.scheduling == ParameterServer::Scheduling::priority) give_queues(options, schedule);
}

void add_servers(const ParameterServer& options, const Job& job,
                 const std::vector<ServerSide>& sides, std::size_t workers, Schedule& schedule) {
  const std::vector<NodeId> hosts = server_hosts(options, job.cluster);
  for (std::size_t s = 0; s < hosts.size(); ++s) {
    schedule.ranks.push_back({.program = ProgramId(schedule.programs.size()),
                              .place = {hosts[s], -1},
                              .slowdown = 1,
                              .groups = {}});
    Program& program = schedule.programs.emplace_back(Program{.name = "server"});
    for (const ServerSide& side : sides) add_updates(s, side, program);
    hold_on_server(s, sides, options, job, workers, program);
  }
}

}  // namespace rehearse::inline strategy
