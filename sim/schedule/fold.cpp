#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/fold_replicas.hpp"
#include "schedule/fold_sites.hpp"

namespace rehearse::inline schedule {

namespace {

constexpr std::size_t kNodesKept = 2;

// As many cables up as down at every level, none slower than a NIC.
bool non_blocking(const FatTree& tree, const Node& node) {
  for (std::size_t level = 0; level + 1 < tree.down.size(); ++level)
    if (tree.down[level] * tree.links[level] > tree.up[level + 1] * tree.links[level + 1])
      return false;
  return tree.bandwidth >= node.nic_bandwidth;
}

bool non_blocking(const Rail& rail, const Node& node) {
  return rail.bandwidth * rail.uplinks >= node.nic_bandwidth * rail.nodes;
}

// A fat-tree's routes are fixed by the destination, so a non-blocking one limits nobody only where
// each node sends to one other at a time, as rings do, and where its one route is as wide as all of
// its NICs.
std::string why_not_on(const FatTree& tree, const Node& node, const Program& program) {
  if (!non_blocking(tree, node)) return "the fat-tree is oversubscribed";
  if (tree.bandwidth < node.nic_bandwidth * node.nics)
    return "the NICs of a node share one route through the fat-tree";
  if (may_have_trees(program)) return "trees share the fat-tree's fixed routes unevenly";
  return {};
}

std::string why_not_on(const Schedule& schedule, const Cluster& cluster) {
  if (cluster.shared_cores) return "nodes share cores";
  if (cluster.groups.size() != 1) return "nodes are unlike";
  if (const auto* tree = std::get_if<FatTree>(&cluster.fabric)) {
    const std::string why_not =
        why_not_on(*tree, cluster.groups.front().node, schedule.programs.front());
    if (!why_not.empty()) return why_not;
    if (tree->burst && cluster.groups.front().node.nic_burst > Bytes(0))
      return "cables let less pass at once than NICs do";
  } else if (const auto* rail = std::get_if<Rail>(&cluster.fabric)) {
    if (!non_blocking(*rail, cluster.groups.front().node)) return "the rails are oversubscribed";
    if (rail->burst && cluster.groups.front().node.nic_burst > Bytes(0))
      return "cables let less pass at once than NICs do";
  } else if (!std::holds_alternative<Star>(cluster.fabric)) {
    return "the fabric is neither a star, a fat-tree nor rails";
  }
  // A tree's nodes send to unlike numbers of others, and the first to take a burst has it.
  if (cluster.groups.front().node.nic_burst > Bytes(0) && may_have_trees(schedule.programs.front()))
    return "trees share the bursts of NICs unevenly";
  return why_not_in_rings(schedule.programs.front());
}

// Ranks on the kept nodes come first and in order, so ids stay as they are.
std::size_t ranks_on_kept_nodes(const Schedule& schedule) {
  const auto beyond =
      std::find_if(schedule.ranks.begin(), schedule.ranks.end(),
                   [](const RankSpec& rank) { return rank.place.node.index() >= kNodesKept; });
  return static_cast<std::size_t>(beyond - schedule.ranks.begin());
}

/// Of the edges between neighbouring nodes that a chunk passes on its way around all of them: all
/// but the shortest.
Seconds mean_latency_around(const Cluster& cluster) {
  const std::size_t nodes = cluster.node_count();
  Seconds sum, least{std::numeric_limits<double>::infinity()};
  for (std::size_t i = 0; i < nodes; ++i) {
    const Seconds edge = path_latency(cluster, {NodeId(i), 0}, {NodeId((i + 1) % nodes), 0});
    sum += edge;
    least = std::min(least, edge);
  }
  return (sum - least) / static_cast<double>(nodes - 1);
}

Cluster folded_cluster(const Cluster& cluster) {
  Cluster folded = cluster;
  NodeGroup& group = folded.groups.front();
  if (!std::holds_alternative<Star>(cluster.fabric)) {
    if (cluster.node_count() > 1) group.node.nic_latency = mean_latency_around(cluster);
    folded.fabric = Star{};
  }
  group.nodes = std::min<int>(group.nodes, kNodesKept);
  return folded;
}

// The slowest node of those whose index is as odd as `kept`, the first of several: the one with the
// slowest rank.
std::size_t slowest_node(const Schedule& schedule, std::size_t kept, std::size_t ranks_per_node) {
  const auto slowest_rank = [&](std::size_t node) {
    double slowdown = 0;
    for (std::size_t gpu = 0; gpu < ranks_per_node; ++gpu)
      slowdown = std::max(slowdown, schedule.ranks[node * ranks_per_node + gpu].slowdown);
    return slowdown;
  };
  std::size_t slowest = kept;
  for (std::size_t node = kept; node < schedule.ranks.size() / ranks_per_node; node += kNodesKept)
    if (slowest_rank(node) > slowest_rank(slowest)) slowest = node;
  return slowest;
}

Crowd crowd_of(const Schedule& schedule, std::size_t nodes) {
  Crowd crowd{.ranks_per_node = schedule.ranks.size() / nodes};
  for (std::size_t node = 0; node < nodes; ++node)
    crowd.nodes.push_back(static_cast<std::uint32_t>(node));
  for (std::size_t kept = 0; kept < std::min(nodes, kNodesKept); ++kept)
    std::swap(crowd.nodes[kept], crowd.nodes[slowest_node(schedule, kept, crowd.ranks_per_node)]);
  for (const std::uint32_t node : crowd.nodes)
    for (std::size_t gpu = 0; gpu < crowd.ranks_per_node; ++gpu)
      crowd.slowdowns.push_back(schedule.ranks[node * crowd.ranks_per_node + gpu].slowdown);
  return crowd;
}

bool stands_for_all(const Group& original, const Group& kept, std::size_t nodes_kept) {
  const std::size_t nodes = std::min(original.nodes, nodes_kept);
  return kept.members.size() * original.nodes == original.ranks * nodes;
}

}  // namespace

bool may_have_trees(const Program& program) {
  return std::any_of(program.ops.begin(), program.ops.end(), [](const Op& op) {
    const auto* collective = std::get_if<Collective>(&op.work);
    return collective && collective->kind == CollectiveKind::all_reduce &&
           (collective->algorithm == CollectiveAlgorithm::tree ||
            collective->algorithm == CollectiveAlgorithm::automatic);
  });
}

std::string why_ranks_differ(const Schedule& schedule) {
  if (schedule.programs.size() != 1) return "ranks run different programs";
  if (!schedule.queues.empty() || !schedule.events.empty()) return "ranks share a server";
  if (schedule.jitter.distribution == Jitter::Distribution::measured)
    return "the times of operations vary from rank to rank";
  for (const RankSpec& rank : schedule.ranks)
    if (rank.delay != schedule.ranks.front().delay) return "ranks are delayed differently";
  return {};
}

std::string why_not_in_rings(const Program& program) {
  for (const Op& op : program.ops) {
    if (std::holds_alternative<Transfer>(op.work)) return "ranks send to single ranks";
    const auto* collective = std::get_if<Collective>(&op.work);
    if (collective && (collective->algorithm == CollectiveAlgorithm::direct ||
                       collective->kind == CollectiveKind::all_to_all))
      return "direct collectives send from everyone to everyone";
    if (collective && collective->kind == CollectiveKind::send_recv)
      return "ranks send to single ranks";
  }
  return {};
}

Schedule without_ranks(const Schedule& schedule) {
  Schedule bare;
  bare.programs = schedule.programs;
  bare.iterations = schedule.iterations;
  bare.samples_per_iteration = schedule.samples_per_iteration;
  bare.replicas = schedule.replicas;
  bare.jitter = schedule.jitter;
  bare.interruptions = schedule.interruptions;
  bare.seed = schedule.seed;
  bare.overlap_slowdown = schedule.overlap_slowdown;
  bare.channels_slow_compute = schedule.channels_slow_compute;
  bare.host_share = schedule.host_share;
  return bare;
}

namespace {

std::optional<Folded> folded_as_it_is(const Schedule& schedule, const Cluster& cluster,
                                      std::string& why_not) {
  if (schedule.mesh) return fold_replicas(schedule, cluster, why_not);
  if (has_sites(schedule, cluster)) return fold_sites(schedule, cluster, why_not);
  why_not = why_ranks_differ(schedule);
  if (why_not.empty()) why_not = why_not_on(schedule, cluster);
  if (!why_not.empty()) return std::nullopt;

  Folded folded{.schedule = without_ranks(schedule), .cluster = folded_cluster(cluster)};
  Schedule& kept = folded.schedule;
  const std::size_t ranks = ranks_on_kept_nodes(schedule);
  kept.ranks.assign(schedule.ranks.begin(),
                    schedule.ranks.begin() + static_cast<std::ptrdiff_t>(ranks));
  Crowd crowd = crowd_of(schedule, cluster.node_count());
  for (std::size_t r = 0; r < ranks; ++r) kept.ranks[r].slowdown = crowd.slowdowns[r];
  if (kept.jitter.distribution != Jitter::Distribution::none) kept.crowd = std::move(crowd);

  std::vector<std::optional<GroupId>> renamed(schedule.groups.size());
  for (RankSpec& rank : kept.ranks) {
    for (GroupId& id : rank.groups) {
      auto& name = renamed[id.index()];
      if (!name) {
        name = GroupId(kept.groups.size());
        Group group = schedule.groups[id.index()];
        const Group& original = schedule.groups[id.index()];
        std::erase_if(group.members, [&](RankId member) { return member.index() >= ranks; });
        if (!stands_for_all(original, group, folded.cluster.node_count())) {
          why_not = "the ranks of group \"" + group.name + "\" do not repeat from node to node";
          return std::nullopt;
        }
        kept.groups.push_back(std::move(group));
      }
      id = *name;
    }
  }
  return folded;
}

}  // namespace

std::optional<Folded> fold(const Schedule& schedule, const Cluster& cluster, std::string& why_not) {
  std::optional<Folded> folded = folded_as_it_is(schedule, cluster, why_not);
  if (folded)
    folded->schedule.interruptions.every *= static_cast<double>(folded->schedule.ranks.size()) /
                                            static_cast<double>(schedule.ranks.size());
  return folded;
}

}  // namespace rehearse::inline schedule
