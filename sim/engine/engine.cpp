#include "engine/engine.hpp"

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "engine/bond.hpp"
#include "engine/player.hpp"

namespace rehearse::inline engine {

namespace {

// Ports that the schedule's point-to-point transfers use.
void add_transfer_ports(const Schedule& schedule, const Cluster& cluster, Plans& plans) {
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    for (const Op& op : schedule.program_of(RankId(r)).ops) {
      const auto* transfer = std::get_if<Transfer>(&op.work);
      if (!transfer) continue;
      const Place& from = schedule.ranks[transfer->source.value_or(RankId(r)).index()].place;
      const Place& to = schedule.ranks[transfer->target.value_or(RankId(r)).index()].place;
      if (from == to) continue;
      const PortPair pair = ports_between(cluster, from, to);
      plans.number_of(pair.source);
      plans.number_of(pair.target);
    }
  }
}

// Whether collectives have the network for themselves, and their flows begin together and know of
// nothing but the ports' rates.
bool only_like_flows_matter(const Schedule& schedule, const Cluster& cluster,
                            const Machine& machine) {
  if (machine.fidelity != Fidelity::flow || !std::holds_alternative<Star>(cluster.fabric))
    return false;
  if (machine.comm && machine.comm->transport) return false;
  for (const NodeGroup& group : cluster.groups)
    if (group.node.nic_burst > Bytes(0) || !group.node.pcie.peer_to_peer) return false;
  return std::ranges::none_of(schedule.programs, [](const Program& program) {
    return std::ranges::any_of(
        program.ops, [](const Op& op) { return std::holds_alternative<Transfer>(op.work); });
  });
}

/// Of a schedule on a cluster: the machine's, or those of all jobs.
Trace play(const Schedule& schedule, const Cluster& given, const Machine& machine,
           const EngineOptions& options) {
  const Cluster cluster = with_bonded_nics(schedule, given);
  Plans plans(schedule, cluster, given, machine, options.answers);
  CollectiveTable collectives(schedule, plans);
  const bool alike = only_like_flows_matter(schedule, cluster, machine);
  if (alike) plans.merge_flows();
  plans.bundle_flows();
  add_transfer_ports(schedule, cluster, plans);
  const auto pace =
      machine.fidelity == Fidelity::hop ? Network::Pace::lockstep : Network::Pace::free;
  Network network(cluster, plans.ports(), pace);
  if (alike)
    for (const Port& port : plans.loops()) network.loop(port, cluster);
  Recorder recorder(schedule, options);
  const bool over_sockets = machine.comm && machine.comm->transport;
  Repeats repeats(schedule, collectives, !machine.play_all && !options.enough && !over_sockets);
  Shared shared{.schedule = schedule,
                .cluster = cluster,
                .transport = over_sockets ? &*machine.comm->transport : nullptr,
                .collectives = collectives,
                .network = network,
                .recorder = recorder,
                .repeats = repeats};
  return Player(shared, options).play();
}

}  // namespace

Trace run(const Machine& machine, const EngineOptions& options) {
  const Schedule& schedule = machine.schedule;
  if (!machine.others) return play(schedule, machine.cluster, machine, options);
  const OtherJobs& others = *machine.others;
  Trace trace = play(together(schedule, others), others.cluster, machine, options);
  const auto own = static_cast<std::ptrdiff_t>(schedule.ranks.size());
  auto& ends = trace.iteration_end;
  trace.others_iteration_end.assign(ends.begin() + own, ends.end());
  ends.resize(schedule.ranks.size());
  return trace;
}

}  // namespace rehearse::inline engine
