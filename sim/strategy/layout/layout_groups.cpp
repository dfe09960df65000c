#include "strategy/layout/layout_groups.hpp"

#include <algorithm>
#include <map>

#include "strategy/sharding_groups.hpp"

namespace rehearse::inline strategy {
namespace {

using Share = LayoutGroups::Share;

bool has_experts(const Model& model) {
  return std::ranges::any_of(model.units, [](const Unit& unit) {
    return std::ranges::count(unit.shares, ParameterShare::expert) > 0;
  });
}

/// Of each group the ranks on one node, or those at one place of each node.
std::vector<std::vector<std::size_t>> by_node(const std::vector<std::vector<std::size_t>>& groups,
                                              const std::vector<Place>& places, bool across) {
  std::vector<std::vector<std::size_t>> parts;
  for (const auto& group : groups) {
    std::map<NodeId, std::size_t> seen;  // members so far
    std::map<std::size_t, std::vector<std::size_t>> found;
    for (const std::size_t rank : group) {
      const NodeId node = places[rank].node;
      const std::size_t place = seen[node]++;
      found[across ? place : node.index()].push_back(rank);
    }
    for (auto& [key, ranks] : found) parts.push_back(std::move(ranks));
  }
  return parts;
}

using Groups = std::vector<std::vector<std::size_t>>;

bool is_hybrid(const Strategy& strategy) {
  const auto sharded = sharded_in(strategy);
  return sharded && sharded->hybrid();
}

/// Of a hybrid sharding the ranks of a group share parameters; another group has another copy.
void add_replicas(const Strategy& strategy, const Job& job, const Mesh& mesh,
                  std::vector<LayoutGroups>& kinds) {
  auto replicas = groups(mesh, {MeshAxis::data, MeshAxis::context});
  if (!is_hybrid(strategy)) {
    kinds.push_back({Share::parameters, {}, MeshAxis::data, "replicas", std::move(replicas)});
    return;
  }
  const std::size_t size =
      shards_of_layout(*sharded_in(strategy), replicas.front(), gpu_places(job.cluster));
  kinds.push_back(
      {Share::parameters, {}, MeshAxis::data, "shards", parts_of(replicas, size, false)});
  kinds.push_back({Share::shard, {}, MeshAxis::data, "replicas", parts_of(replicas, size, true)});
}

/// Ranks with the same experts, which shard these within the groups that shard all else.
void add_expert_replicas(const Strategy& strategy, const Mesh& whole, Groups replicas,
                         std::vector<LayoutGroups>& kinds) {
  if (!is_hybrid(strategy)) {
    kinds.push_back({Share::experts, {}, MeshAxis::data, "experts' replicas", std::move(replicas)});
    return;
  }
  const std::size_t all = groups(whole, {MeshAxis::data, MeshAxis::context}).front().size();
  const std::size_t size = expert_shards(kinds.front().size(), all, replicas.front().size());
  kinds.push_back(
      {Share::experts, {}, MeshAxis::data, "experts' shards", parts_of(replicas, size, false)});
  kinds.push_back({Share::expert_shard,
                   {},
                   MeshAxis::data,
                   "experts' replicas",
                   parts_of(replicas, size, true)});
}

/// Of what ranks share so many keep it after forward.
void add_after_forward(const Strategy& strategy, std::vector<LayoutGroups>& kinds) {
  const auto sharded = sharded_in(strategy);
  if (!sharded || sharded->post_forward_group == 0) return;
  const auto size = static_cast<std::size_t>(sharded->post_forward_group);
  const std::vector<LayoutGroups> shared = kinds;
  for (const LayoutGroups& kind : shared) {
    const bool experts = kind.share == Share::experts;
    if ((!experts && kind.share != Share::parameters) || (experts && kind.size() == 1)) continue;
    check_post_forward_group(*sharded, kind.size());
    kinds.push_back({experts ? Share::experts_after_forward : Share::after_forward,
                     {},
                     MeshAxis::data,
                     experts ? "experts after forward" : "after forward",
                     parts_of(kind.groups, size, false)});
  }
}

void add_experts(const Strategy& strategy, const Job& job, const Mesh& whole,
                 std::vector<LayoutGroups>& kinds) {
  const ExpertDispatch dispatch = strategy.layout->dispatch;
  const Mesh mesh = expert_mesh(whole);
  const auto ranks = groups(mesh, {MeshAxis::expert});
  const auto add = [&](ExchangeAxis exchanges, MeshAxis axis, const std::string& name, auto all) {
    if (all.front().size() > 1)
      kinds.push_back({Share::layer, exchanges, axis, name, std::move(all)});
  };
  add(ExchangeAxis::expert, MeshAxis::expert, "experts", ranks);
  add(ExchangeAxis::expert_tensor, MeshAxis::tensor, "expert tensor",
      groups(mesh, {MeshAxis::tensor}));
  if (dispatch == ExpertDispatch::hierarchical || sends_once(dispatch)) {
    const std::vector<Place> places = gpu_places(job.cluster);
    add(ExchangeAxis::expert_node, MeshAxis::expert, "experts, inside",
        by_node(ranks, places, false));
    add(ExchangeAxis::expert_across, MeshAxis::expert, "experts, across",
        by_node(ranks, places, true));
  }
  if (mesh.expert * mesh.expert_tensor != whole.tensor)
    add_expert_replicas(strategy, whole, groups(mesh, {MeshAxis::data}), kinds);
}

}  // namespace

std::vector<LayoutGroups> layout_groups(const Strategy& strategy, const Job& job,
                                        const Mesh& mesh) {
  std::vector<LayoutGroups> kinds;
  add_replicas(strategy, job, mesh, kinds);
  for (const auto& [axis, exchanges] : {std::pair(MeshAxis::tensor, ExchangeAxis::tensor),
                                        std::pair(MeshAxis::context, ExchangeAxis::context)})
    if (mesh.degree(axis) > 1)
      kinds.push_back({Share::layer, exchanges, axis, to_string(axis), groups(mesh, {axis})});
  if (has_experts(job.model)) add_experts(strategy, job, mesh, kinds);
  if (job.model.captured && mesh.expert > 1)
    kinds.push_back({Share::layer, ExchangeAxis::embedding, MeshAxis::expert, "embeddings",
                     groups(expert_mesh(mesh), {MeshAxis::expert})});
  add_after_forward(strategy, kinds);
  return kinds;
}

}  // namespace rehearse::inline strategy
