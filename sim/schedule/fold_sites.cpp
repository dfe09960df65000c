// Replicas that take steps of their own: inside one nodes are alike, and so are replicas among each
// other. Links that all nodes of a site share are as much narrower as fewer nodes are kept.
#include "schedule/fold_sites.hpp"

#include <algorithm>

#include "schedule/fold_replicas.hpp"

namespace rehearse::inline schedule {
namespace {

constexpr std::size_t kKept = 2;  // replicas, and nodes of each

std::size_t nodes_of_replica(const Schedule& schedule, const Cluster& cluster) {
  return cluster.node_count() / schedule.replicas;
}

std::string why_sites_are_not_folded(const Schedule& schedule, const Cluster& cluster) {
  if (cluster.shared_cores) return "nodes share cores";
  if (cluster.groups.size() != 1) return "nodes are unlike";
  if (cluster.groups.front().node.nic_burst > Bytes(0))
    return "replicas share the bursts of NICs unevenly";
  if (schedule.jitter.distribution != Jitter::Distribution::none)
    return "the steps of replicas of several nodes vary";
  for (const RankSpec& rank : schedule.ranks)
    if (rank.slowdown != schedule.ranks.front().slowdown) return "ranks differ in speed";
  if (const auto* sites = std::get_if<Sites>(&cluster.fabric)) {
    if (static_cast<std::size_t>(sites->nodes) != nodes_of_replica(schedule, cluster))
      return "replicas are no sites";
    if (schedule.replicas > kKept && may_have_trees(schedule.programs.front()))
      return "trees share the links between sites unevenly";
  } else if (!std::holds_alternative<Star>(cluster.fabric)) {
    return "the fabric is neither a star nor sites";
  }
  return why_not_in_rings(schedule.programs.front());
}

Cluster folded_cluster(const Cluster& cluster, std::size_t nodes, std::size_t kept) {
  Cluster folded = cluster;
  folded.groups.front().nodes = static_cast<int>(kKept * kept);
  if (auto* sites = std::get_if<Sites>(&folded.fabric)) {
    sites->nodes = static_cast<int>(kept);
    sites->bandwidth *= static_cast<double>(kept) / static_cast<double>(nodes);
  }
  return folded;
}

/// Of a group of as many members on each of its nodes, two nodes stand for all.
bool stands_for_all(const Group& original, const Group& kept) {
  const std::size_t nodes = std::min(original.nodes, kKept);
  return kept.members.size() * original.nodes == original.ranks * nodes;
}

}  // namespace

bool has_sites(const Schedule& schedule, const Cluster& cluster) {
  if (schedule.replicas < 2 || cluster.node_count() % schedule.replicas != 0) return false;
  return nodes_of_replica(schedule, cluster) > 1 || std::holds_alternative<Sites>(cluster.fabric);
}

std::optional<Folded> fold_sites(const Schedule& schedule, const Cluster& cluster,
                                 std::string& why_not) {
  why_not = why_ranks_differ(schedule);
  if (why_not.empty()) why_not = why_sites_are_not_folded(schedule, cluster);
  const std::size_t nodes = nodes_of_replica(schedule, cluster), kept = std::min(nodes, kKept);
  if (why_not.empty() && schedule.replicas <= kKept && nodes <= kKept)
    why_not = "there are no more than two replicas of two nodes";
  if (!why_not.empty()) return std::nullopt;
  Folded folded{.schedule = without_ranks(schedule),
                .cluster = folded_cluster(cluster, nodes, kept)};
  Schedule& few = folded.schedule;
  few.replicas = kKept;
  std::vector<std::optional<RankId>> renamed(schedule.ranks.size());
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const std::size_t node = schedule.ranks[r].place.node.index();
    if (node / nodes >= kKept || node % nodes >= kept) continue;
    renamed[r] = RankId(few.ranks.size());
    few.ranks.push_back(schedule.ranks[r]);
    few.ranks.back().place.node = NodeId(node / nodes * kept + node % nodes);
  }
  std::vector<std::optional<GroupId>> groups(schedule.groups.size());
  for (RankSpec& rank : few.ranks) {
    for (GroupId& id : rank.groups) {
      const Group& original = schedule.groups[id.index()];
      auto& name = groups[id.index()];
      if (!name) {
        name = GroupId(few.groups.size());
        Group& group = few.groups.emplace_back(original);
        group.members.clear();
        for (const RankId member : original.members)
          if (renamed[member.index()]) group.members.push_back(*renamed[member.index()]);
        if (!stands_for_all(original, group)) {
          why_not = "the ranks of group \"" + original.name + "\" do not repeat from node to node";
          return std::nullopt;
        }
      }
      id = *name;
    }
  }
  return folded;
}

}  // namespace rehearse::inline schedule
