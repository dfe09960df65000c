#include "predict/intervals/error_sources.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cluster/scale.hpp"
#include "predict/intervals/interval_facts.hpp"
#include "report/run_facts.hpp"
#include "scenario/speed_spread.hpp"
#include "schedule/jitter.hpp"
#include "strategy/server/server_host.hpp"

namespace rehearse::inline prediction {
namespace {

enum class Source { compute, launches, communication, transport, routing, server, messages, fleet };

/// The second is the first that is like all others.
constexpr std::uint32_t kShiftedSteps = 2;

/// Which of the cluster's groups a rank's node belongs to.
std::size_t group_index(const Cluster& cluster, NodeId node) {
  return static_cast<std::size_t>(&cluster.group_of(node) - cluster.groups.data());
}

/// Compute on the GPUs and the launches that feed it. Servers have an error of their own, and what
/// a CPU does beside a message, or a worker that loads samples, is given.
bool is_costed(const Program& program, const Op& op) {
  const bool beside_messages =
      op.lane && program.lanes[op.lane->index()].kind == LaneKind::communication;
  return op.phase != Phase::server && op.verb != Verb::load && !beside_messages &&
         std::holds_alternative<Compute>(op.work);
}

/// Half-widths of the programs' compute: like ranks of a program have like GPUs.
std::vector<double> compute_errors(const Schedule& schedule, const Cluster& cluster,
                                   const std::vector<StepCosts>& costs) {
  std::vector<double> errors(schedule.programs.size(), 0.0);
  for (const RankSpec& rank : schedule.ranks) {
    if (rank.place.gpu < 0) continue;
    double& error = errors[rank.program.index()];
    error = std::max(error, costs.at(group_index(cluster, rank.place.node)).uncertainty);
  }
  return errors;
}

/// Of this job and of those beside it, which run on the same hardware.
std::vector<std::vector<double>> errors_of_jobs(const Scenario& scenario, const Machine& machine,
                                                const std::vector<StepCosts>& costs) {
  std::vector<std::vector<double>> errors = {
      compute_errors(machine.schedule, machine.cluster, costs)};
  for (std::size_t j = 0; machine.others && j < machine.others->jobs.size(); ++j) {
    const Scenario& other = scenario.shared->others.at(j).scenario;
    errors.push_back(
        compute_errors(machine.others->jobs[j].schedule, other.cluster, group_costs(other)));
  }
  return errors;
}

void shift_compute(Schedule& schedule, const std::vector<double>& errors, double shift) {
  for (std::size_t p = 0; p < schedule.programs.size(); ++p) {
    for (Op& op : schedule.programs[p].ops) {
      if (is_costed(schedule.programs[p], op))
        std::get<Compute>(op.work).duration *= std::exp(shift * errors[p]);
    }
  }
}

/// The parameter server whose rate follows from its host; nothing where there is none.
const ParameterServer* derived_server(const Scenario& scenario) {
  const auto* server = server_in(scenario.strategy);
  return server != nullptr && !server->apply_rate ? server : nullptr;
}

/// What servers do with gradients goes at one end of what their hosts' memory allows.
void shift_servers(const Scenario& scenario, Machine& machine, double shift) {
  const std::vector<HostTraffic> traffic =
      server_traffic(*derived_server(scenario), scenario.cluster);
  for (Program& program : machine.schedule.programs) {
    for (Op& op : program.ops) {
      const bool applies = op.verb == Verb::apply || op.verb == Verb::update;
      auto* compute = std::get_if<Compute>(&op.work);
      if (!applies || !compute) continue;
      const HostTraffic& host = traffic.at(op.queue->index());
      compute->duration *= host.best / (shift > 0 ? host.low : host.high);
    }
  }
}

/// Every transfer over the links takes `factor` times as long.
void slow_links(Cluster& cluster, double factor) {
  scale_bandwidths(1 / factor, cluster);
  scale_latencies(factor, cluster);
}

/// The machine with as many iterations as its shifted runs have.
Machine shortened(const Machine& machine) {
  Machine short_one = machine;
  Schedule& schedule = short_one.schedule;
  const bool alike = steps_alike(schedule.jitter) && !machine.others;
  if (alike && !has_updates(schedule))
    schedule.iterations = std::min(schedule.iterations, kShiftedSteps);
  return short_one;
}

void shift_compute(Machine& machine, const std::vector<std::vector<double>>& errors, double shift) {
  shift_compute(machine.schedule, errors.front(), shift);
  for (std::size_t job = 1; job < errors.size(); ++job)
    shift_compute(machine.others->jobs[job - 1].schedule, errors[job], shift);
}

void slow_links(Machine& machine, double factor) {
  machine.links_slowed = factor;
  slow_links(machine.cluster, factor);
  if (machine.others) slow_links(machine.others->cluster, factor);
}

/// With what was taken for granted of its GPUs as many times as large.
Machine with_another_fleet(const Scenario& scenario, const Machine& machine, double factor) {
  Scenario other = scenario;
  if (other.run.usual_spread) other.run.speed_spread *= factor;
  if (other.run.usual_jitter) other.run.jitter.cv *= factor;
  if (other.run.usual_interruptions) other.run.interruptions.time *= factor;
  Machine another = machine_of(other);
  another.schedule.seed = machine.schedule.seed;
  return another;
}

/// With the host's launches that many times as long.
Scenario with_launches(const Scenario& scenario, double factor) {
  Scenario other = scenario;
  other.run.efficiency.host_times = factor;
  return other;
}

double launch_error(const Scenario& scenario) {
  return scenario.run.efficiency.host_launch ? kStatedLaunchError : kHostLaunchError;
}

/// Whether the GPU may wait for launches whose time nobody measured.
bool launches_matter(const Machine& machine, const std::vector<StepCosts>& costs) {
  const bool computed = std::ranges::any_of(
      costs, [](const StepCosts& one) { return one.host_operator > Seconds(0); });
  return computed && machine.schedule.host_share > 0;
}

Machine with_other_launches(const Scenario& scenario, const Machine& machine, double factor) {
  Machine another = machine_of(with_launches(scenario, factor));
  another.schedule.seed = machine.schedule.seed;
  return another;
}

/// With messages of servers that take their CPUs so many times as long, where nobody said how long.
Machine with_other_messages(const Scenario& scenario, const Machine& machine, double factor) {
  Scenario other = scenario;
  ParameterServer* const server = server_in(other.strategy);
  if (server->usual_worker_cpu) *server->worker_cpu_rate *= 1 / factor;
  if (server->usual_server_cpu) *server->server_cpu_rate *= 1 / factor;
  Machine another = machine_of(other);
  another.schedule.seed = machine.schedule.seed;
  return another;
}

bool has_usual_messages(const Scenario& scenario) {
  const auto* server = server_in(scenario.strategy);
  return server != nullptr && (server->usual_worker_cpu || server->usual_server_cpu);
}

/// With experts' tokens as routers leave them.
Machine with_other_routing(const Scenario& scenario, const Machine& machine) {
  Machine another = machine_of(*with_natural_routing(scenario));
  another.schedule.seed = machine.schedule.seed;
  return another;
}

/// NICs of less than 100 Gbit/s of which nobody says whether they go over TCP may do either. Those
/// that do may reach all of their rate where nobody says what they reach.
void take_transport(Cluster& cluster, double shift) {
  const auto kind = shift < 0 ? NicTransport::Kind::rdma : NicTransport::Kind::tcp;
  for (NodeGroup& group : cluster.groups) {
    NicTransport& transport = group.node.transport;
    if (!transport.stated && transport.kind == NicTransport::Kind::tcp)
      transport = transport_of(kind);
    else if (shift < 0 && !transport.rate_known)
      transport.socket_rate = transport.host_rate =
          BytesPerSecond(std::numeric_limits<double>::infinity());
  }
}

bool may_be_another_transport(const Cluster& cluster) {
  if (cluster.node_count() < 2) return false;
  return std::ranges::any_of(cluster.groups, [](const NodeGroup& group) {
    const NicTransport& transport = group.node.transport;
    return transport.kind == NicTransport::Kind::tcp &&
           (!transport.stated || !transport.rate_known);
  });
}

/// Simulates in this process, which cannot simulate again.
Headline shifted_headline(const Scenario& scenario, const Machine& machine, Source source,
                          const std::vector<std::vector<double>>& errors, double shift) {
  Machine shifted = shortened(
      source == Source::fleet
          ? with_another_fleet(scenario, machine, std::exp(shift * kUsualFleetError))
      : source == Source::launches
          ? with_other_launches(scenario, machine, std::exp(shift * launch_error(scenario)))
      : source == Source::messages
          ? with_other_messages(scenario, machine,
                                std::exp(shift * server_in(scenario.strategy)->messages_error))
      : source == Source::routing ? with_other_routing(scenario, machine)
                                  : machine);
  std::optional<CommProfile>& comm = shifted.comm;
  if (source == Source::compute) {
    shift_compute(shifted, errors, shift);
  } else if (source == Source::fleet || source == Source::launches || source == Source::routing ||
             source == Source::messages) {
    return simulated_headline(scenario, shifted);
  } else if (source == Source::server) {
    shift_servers(scenario, shifted, shift);
  } else if (source == Source::transport) {
    take_transport(shifted.cluster, shift);
    if (shifted.others) take_transport(shifted.others->cluster, shift);
  } else if (comm && comm->transport) {  // between nodes the links' rates are known
    comm->transport = comm->transport->shifted(shift);
    shifted.shift = shift;
  } else {
    take_transport(shifted.cluster, shift);
    if (shifted.others) take_transport(shifted.others->cluster, shift);
    slow_links(shifted, std::exp(shift * kLinksError));
    shifted.shift = shift;
  }
  return simulated_headline(scenario, shifted);
}

}  // namespace

bool communicates(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [&](const RankSpec& rank) {
    const auto& ops = schedule.programs[rank.program.index()].ops;
    return std::ranges::any_of(ops, [&](const Op& op) {
      const auto* collective = std::get_if<Collective>(&op.work);
      if (collective) return schedule.groups[rank.groups[collective->group].index()].ranks > 1;
      return std::holds_alternative<Transfer>(op.work);
    });
  });
}

ShiftedRuns::ShiftedRuns(const Scenario& scenario, const Machine& machine,
                         const std::vector<StepCosts>& costs, bool beside_mechanisms)
    : scenario_(scenario), machine_(machine) {
  const std::vector<std::vector<double>> errors = errors_of_jobs(scenario, machine, costs);
  const auto start = [&](Source source, double shift) {
    return HeadlineRun([&scenario, &machine, &errors, source, shift] {
      return shifted_headline(scenario, machine, source, errors, shift);
    });
  };
  const auto add = [&](const char* name, Source source) {
    pairs_.push_back({name, start(source, -1), start(source, 1)});
  };
  if (with_natural_routing(scenario))
    pairs_.push_back({"routing", std::nullopt, start(Source::routing, 1)});
  const bool talks = communicates(machine.schedule);
  if (beside_mechanisms) {
    if (talks && may_be_another_transport(machine.cluster)) add("transport", Source::transport);
    return;
  }
  const auto positive = [](double error) { return error > 0; };
  if (std::ranges::any_of(
          errors, [&](const auto& of_job) { return std::ranges::any_of(of_job, positive); }))
    add("compute", Source::compute);
  if (launches_matter(machine, costs)) add("launches", Source::launches);
  if (talks) add("communication", Source::communication);
  if (scenario.run.usual_spread || scenario.run.usual_jitter) add("fleet", Source::fleet);
  if (derived_server(scenario)) add("server", Source::server);
  if (has_usual_messages(scenario)) add("messages", Source::messages);
}

std::vector<ErrorSource> ShiftedRuns::error_sources(const Trace& trace) {
  if (pairs_.empty()) return {};
  const Headline best = headline_of(scenario_, shortened(machine_).schedule, trace);
  std::vector<ErrorSource> sources;
  for (Pair& pair : pairs_) {
    const Headline low = pair.low ? pair.low->result() : best;
    sources.push_back({pair.name, low, best, pair.high.result()});
  }
  return sources;
}

ModelError model_error(const Scenario& scenario, const Schedule& schedule) {
  const bool sockets = scenario.comm && scenario.comm->transport && communicates(schedule);
  return sockets ? ModelError{.step = 0.08, .staleness = 0.045} : ModelError{};
}

}  // namespace rehearse::inline prediction
