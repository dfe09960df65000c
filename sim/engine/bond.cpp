#include "engine/bond.hpp"

#include <algorithm>
#include <set>

namespace rehearse::inline engine {

namespace {

bool like_nics(const Cluster& cluster) {
  const Node& first = cluster.groups.front().node;
  return std::all_of(
      cluster.groups.begin(), cluster.groups.end(), [&first](const NodeGroup& group) {
        return group.node.nics == first.nics && group.node.nic_bandwidth == first.nic_bandwidth &&
               group.node.transport == first.transport && group.node.nic_burst == first.nic_burst;
      });
}

// Rings and trees stripe what they send between nodes; everything else keeps to the NIC of its
// rank.
bool stripes(const Op& op) {
  if (std::holds_alternative<Transfer>(op.work)) return false;
  const auto* collective = std::get_if<Collective>(&op.work);
  return !collective || (collective->kind != CollectiveKind::send_recv &&
                         collective->kind != CollectiveKind::all_to_all &&
                         collective->algorithm != CollectiveAlgorithm::hierarchical &&
                         collective->algorithm != CollectiveAlgorithm::direct);
}

// A group between nodes that owns every NIC of each of its nodes.
bool owns_all_nics(const Group& group, const Schedule& schedule, const Cluster& cluster) {
  if (group.nodes < 2) return true;
  const auto nics = static_cast<std::size_t>(cluster.groups.front().node.nics);
  std::set<NodeId> nodes;
  std::set<std::pair<NodeId, int>> owned;
  for (const RankId member : group.members) {
    const Place& place = schedule.ranks[member.index()].place;
    nodes.insert(place.node);
    owned.emplace(place.node, nic_of(cluster.node(place.node), place.gpu));
  }
  return owned.size() == nodes.size() * nics;
}

bool may_bond(const Schedule& schedule, const Cluster& cluster) {
  if (cluster.groups.front().node.nics < 2 || !like_nics(cluster)) return false;
  for (const Program& program : schedule.programs)
    if (!std::all_of(program.ops.begin(), program.ops.end(), stripes)) return false;
  return std::all_of(schedule.groups.begin(), schedule.groups.end(),
                     [&](const Group& group) { return owns_all_nics(group, schedule, cluster); });
}

}  // namespace

Cluster with_bonded_nics(const Schedule& schedule, const Cluster& cluster) {
  Cluster bonded = cluster;
  if (!may_bond(schedule, cluster)) return bonded;
  for (NodeGroup& group : bonded.groups) {
    group.node.nic_bandwidth *= group.node.nics;
    group.node.transport.scale_rates(group.node.nics);
    group.node.nic_burst *= group.node.nics;
    group.node.nics = 1;
  }
  // As many rails as NICs become one.
  if (auto* rail = std::get_if<Rail>(&bonded.fabric))
    rail->bandwidth *= cluster.groups.front().node.nics;
  return bonded;
}

}  // namespace rehearse::inline engine
