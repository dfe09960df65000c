// What the ranks of a group have of a cluster, as NCCL's model asks for it.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.hpp"
#include "collective/nccl_model.hpp"

namespace rehearse::inline collective {
namespace {

/// Of a DGX-1's cube mesh, what rings over so many of its V100s reach of six links: vTrain's curves
/// of 2 to 8 GPUs.
double cube_mesh_share(const Node& node, int local) {
  static constexpr std::array kShares = {1.0 / 6, 1.0 / 3, 2.0 / 3, 0.28, 1.0 / 3, 2.0 / 3, 1.0};
  const bool mesh = node.gpu.architecture->links == GpuLinks::cube_mesh && node.gpus == 8;
  if (!mesh || local < 2 || local > 8) return 1;
  return kShares[static_cast<std::size_t>(local - 2)];
}

/// A GPU of a DGX-1 has links to the others of its four, and to one of the other four.
int cube_mesh_unlinked(const Node& node, int local) {
  const bool mesh = node.gpu.architecture->links == GpuLinks::cube_mesh && node.gpus == 8;
  return mesh && local > 4 ? 3 : 0;
}

/// AMD's eight GPUs have one xGMI link to each other one: so many of them reach each other by as
/// many of a GPU's links as there are others.
double full_mesh_share(const Node& node, int local) {
  if (node.gpu.architecture->links != GpuLinks::full_mesh || local < 2) return 1;
  return (local - 1.0) / (node.gpus - 1.0);
}

/// Whether some of a group's GPUs on this node are behind another root than others.
bool spans_roots(const Node& node, int local, const std::set<int>& gpus) {
  const int of_root = std::max(1, node.gpus / node.pcie.roots);
  const auto differs = [&](int gpu) { return gpu / of_root != *gpus.begin() / of_root; };
  return local > of_root || std::ranges::any_of(gpus, differs);
}

/// `gpus`: those of the group on one of its nodes of this kind.
void take_inner(NcclMachine& machine, const Node& node, const std::set<int>& gpus, double slowed) {
  machine.architecture = node.gpu.architecture;
  // How many blocks RCCL takes is not known.
  if (node.gpu.architecture->bounds.measured) machine.multiprocessors = node.gpu.multiprocessors();
  const int local = machine.local();
  if (node.nvlink) {
    machine.inner = InnerLink::nvlink;
    machine.inside = node.nvlink->bandwidth *
                     (cube_mesh_share(node, local) * full_mesh_share(node, local) * slowed);
    machine.inside_latency = node.nvlink->latency / slowed;
    machine.unlinked = cube_mesh_unlinked(node, local);
    machine.through_host = std::min(node.pcie.bandwidth, staging_rate(node) / local) * slowed;
    return;
  }
  machine.inner = node.pcie.peer_to_peer ? InnerLink::peer_to_peer : InnerLink::staged;
  machine.inside_latency = node.pcie.latency / slowed;
  machine.inside = node.pcie.bandwidth * slowed;
  if (node.pcie.root_link > BytesPerSecond(0) && spans_roots(node, local, gpus))
    machine.inside = std::min(machine.inside, node.pcie.root_link * slowed);
  if (node.pcie.peer_to_peer) return;
  // Every byte passes the host once, and each rank sends its share of them.
  machine.inside = std::min(machine.inside, staging_rate(node) * (slowed / local));
}

struct Owned {
  std::set<int> nics;
  Place first, last;
};

/// NICs by node, in the group's order, and the slowest of what nodes have.
void take_network(NcclMachine& machine, const Cluster& cluster, const std::vector<Place>& members,
                  double slowed) {
  std::vector<NodeId> order;
  std::map<NodeId, Owned> nodes;
  for (const Place& place : members) {
    const auto [at, fresh] = nodes.try_emplace(place.node);
    if (fresh) order.push_back(place.node), at->second.first = place;
    at->second.last = place;
    at->second.nics.insert(nic_of(cluster.node(place.node), place.gpu));
  }
  machine.nic = BytesPerSecond(std::numeric_limits<double>::infinity());
  machine.nics = std::numeric_limits<int>::max();
  Seconds sum, least(std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Owned& here = nodes.at(order[i]);
    const Node& node = cluster.node(order[i]);
    machine.nics = std::min(machine.nics, static_cast<int>(here.nics.size()));
    machine.nic = std::min(machine.nic, nic_rate(node) * slowed);
    machine.low_latency = machine.low_latency && node.transport.low_latency;
    machine.chunk_between = std::max(machine.chunk_between, node.transport.per_chunk / slowed);
    const NodeId next = order[(i + 1) % order.size()];
    const Seconds step =
        path_latency(cluster, here.last, nodes.at(next).first) +
        std::max(node.transport.per_message, cluster.node(next).transport.per_message);
    sum += step / slowed;
    least = std::min(least, step / slowed);
  }
  const auto edges = static_cast<double>(order.size());
  // Of a folded group some of a node's members stand for all, NICs of their own included.
  const auto kept = static_cast<double>(members.size()) / edges;
  if (machine.local() > kept && machine.ranks > static_cast<int>(members.size()))
    machine.nics = static_cast<int>(std::lround(machine.nics * (machine.local() / kept)));
  machine.between = edges > 2 ? (sum - least) / (edges - 1) : sum / edges;
}

}  // namespace

NcclMachine nccl_machine(const Cluster& cluster, const std::vector<Place>& members, int ranks,
                         int nodes, double slowed) {
  check(!members.empty(), "a group of no ranks");
  NcclMachine machine{.ranks = ranks, .nodes = nodes, .options = cluster.nccl};
  const auto gpus_of = [&](const Place& one) {
    std::set<int> gpus;
    for (const Place& place : members)
      if (place.node == one.node) gpus.insert(place.gpu);
    return gpus;
  };
  take_inner(machine, cluster.node(members.front().node), gpus_of(members.front()), slowed);
  const NodeGroup* last = &cluster.group_of(members.front().node);
  for (const Place& place : members) {
    const NodeGroup& group = cluster.group_of(place.node);
    if (&group == last) continue;
    last = &group;
    NcclMachine other = machine;
    take_inner(other, group.node, gpus_of(place), slowed);
    machine.inside = std::min(machine.inside, other.inside);
    machine.multiprocessors = std::min(machine.multiprocessors, other.multiprocessors);
  }
  if (nodes > 1) take_network(machine, cluster, members, slowed);
  return machine;
}

}  // namespace rehearse::inline collective
