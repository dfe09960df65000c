#include "engine/engine.hpp"

#include <memory>

#include "base/error.hpp"
#include "engine/bond.hpp"
#include "engine/simulation.hpp"

namespace rehearse {

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

}  // namespace

Trace run(const Schedule& schedule, const Cluster& given, const EngineOptions& options) {
  const Cluster cluster = with_bonded_nics(schedule, given);
  Plans plans(schedule, cluster, options);
  CollectiveTable collectives(schedule, plans);
  add_transfer_ports(schedule, cluster, plans);
  Simulation simulation(schedule, cluster, options, collectives);
  const auto pace =
      options.fidelity == Fidelity::hop ? Network::Pace::lockstep : Network::Pace::free;
  Network network(cluster, plans.ports(), pace, [&](Token token) { simulation.on_token(token); });
  return simulation.play(network);
}

}  // namespace rehearse
