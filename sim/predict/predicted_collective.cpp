#include "predict/predicted_collective.hpp"

#include <map>
#include <optional>

namespace rehearse::inline prediction {
namespace {

struct AllRanks {
  std::vector<RankSpec> ranks;
  Group group;
};
AllRanks all_ranks(const Cluster& cluster, CollectiveKind kind) {
  std::vector<Place> places = gpu_places(cluster);
  if (kind == CollectiveKind::send_recv) places = {places.front(), places.back()};
  AllRanks all;
  std::vector<RankSpec>& ranks = all.ranks;
  for (const Place& place : places) {
    if (ranks.empty() || ranks.back().place.node != place.node) ++all.group.nodes;
    all.group.members.emplace_back(ranks.size());
    ranks.push_back({.place = place, .groups = {GroupId(0)}});
  }
  all.group.name = "all";
  all.group.ranks = places.size();
  return all;
}

}  // namespace

PredictedCollective predicted_collective(const Cluster& cluster, CollectiveKind kind,
                                         Bytes smallest, Bytes largest) {
  const auto [ranks, group] = all_ranks(cluster, kind);
  const std::shared_ptr<const CommProfile> profile = load_comm_profile(cluster);
  CollectiveCosts costs(profile.get(), cluster, ranks);
  PredictedCollective table{.kind = kind,
                            .cluster = cluster.name,
                            .curves = profile ? profile->name : "",
                            .ranks = group.ranks,
                            .nodes = group.nodes,
                            .rows = {}};
  std::map<CollectiveAlgorithm, FlowPlan> plans;
  for (Bytes size = smallest; size <= largest; size *= 2) {
    std::vector<CollectiveAlgorithm> all = costs.choices(kind, size, group);
    if (all.empty()) all = {CollectiveAlgorithm::ring};
    std::optional<CollectiveAnswer> best;
    for (const CollectiveAlgorithm chosen : all) {
      const auto [at, fresh] = plans.try_emplace(chosen);
      if (fresh) at->second = plan_collective(kind, chosen, group, ranks, cluster, Fidelity::flow);
      const LinkCost links{at->second.latency, at->second.seconds_per_byte};
      const CollectiveCost cost = costs.cost(kind, size, group, at->second, links);
      if (best && best->cost.total() <= cost.total()) continue;
      best = {.kind = kind,
              .size = size,
              .group = GroupId(0),
              .ranks = static_cast<int>(group.ranks),
              .nodes = static_cast<int>(group.nodes),
              .played = at->second.algorithm,
              .cost = cost};
    }
    table.rows.push_back(*best);
  }
  return table;
}

}  // namespace rehearse::inline prediction
