// Replicas of a model are alike: two stand for all, for what they exchange is a ring, whose edges
// are alike, too. So are the ranks of a tensor group, one of which sends to itself what each sends
// to the next; and those that share experts: each sends as much to every other one.
#include "schedule/fold_replicas.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace rehearse::inline schedule {
namespace {

constexpr std::size_t kBlocksKept = 2;  // of like ones

std::string why_not_on(const Schedule& schedule, const Cluster& cluster) {
  if (cluster.shared_cores) return "nodes share cores";
  if (!schedule.queues.empty()) return "ranks send to servers";
  if (cluster.groups.size() != 1) return "nodes are unlike";
  if (!std::holds_alternative<Star>(cluster.fabric)) return "the fabric is no star";
  if (cluster.groups.front().node.nic_burst > Bytes(0))
    return "replicas share the bursts of NICs unevenly";
  if (schedule.jitter.distribution == Jitter::Distribution::measured)
    return "the times of operations vary from rank to rank";
  for (const RankSpec& rank : schedule.ranks)
    if (rank.delay != schedule.ranks.front().delay) return "ranks are delayed differently";
  return {};
}

/// Replicas that share nodes, with these nodes and their ranks. Those that are kept of a tensor
/// group stand for others of it, `ranks` being in order of the kept ones and then of these.
struct Block {
  std::set<int> replicas;
  std::vector<std::size_t> nodes, ranks;
};

constexpr std::size_t kPlacesKept = 2;

bool has_experts(const Schedule& schedule) { return schedule.mesh->expert > 1; }

/// Of a tensor group. Beside experts' exchanges, which stay on a node or leave it, two are needed.
std::size_t tensor_ranks_kept(bool experts) { return experts ? 2 : 1; }

/// Whether GPUs are joined by a switch, and have NICs of their own.
bool gpus_are_alike(const Node& node) { return node.nvlink && node.nics >= node.gpus; }

/// How many ranks of its tensor group one rank stands for: their GPUs are joined by a switch, and
/// each has NICs of its own, so that each port of one is as busy as the same port of any other.
std::size_t tensor_ranks_per_kept(const Schedule& schedule, const Cluster& cluster) {
  const auto tensor = static_cast<std::size_t>(schedule.mesh->tensor);
  const std::size_t kept = tensor_ranks_kept(has_experts(schedule));
  if (tensor % kept != 0 || !gpus_are_alike(cluster.groups.front().node)) return 1;
  for (const Group& group : schedule.groups)
    if (group.axis == MeshAxis::tensor && group.nodes > 1) return 1;
  return tensor / kept;
}

/// Places of a node, each of the ranks of a tensor group: those that share experts lie side by
/// side, and then others with the same experts. Of either two stand for all, where nodes let them.
struct Places {
  int sharing = 1, kept_sharing = 1;
  int replicas = 1, kept_replicas = 1;

  std::size_t per_kept() const {
    const auto sharing_per_kept = static_cast<std::size_t>(sharing / kept_sharing);
    return sharing_per_kept * static_cast<std::size_t>(replicas / kept_replicas);
  }
};

int kept_of(int places) {
  const int kept = static_cast<int>(kPlacesKept);
  return places % kept == 0 ? kept : places;
}

/// All of them are kept unless `folds`.
Places places_of(const Schedule& schedule, const Cluster& cluster, bool folds) {
  const Node& node = cluster.groups.front().node;
  const Mesh& mesh = *schedule.mesh;
  const auto gpus = static_cast<std::size_t>(node.gpus);
  const std::size_t stage = mesh.ranks() / static_cast<std::size_t>(mesh.pipeline);
  const bool stages_have_nodes = stage % gpus == 0 && mesh.order.back() == MeshAxis::pipeline;
  Places places;
  if (!has_experts(schedule) || node.gpus % mesh.tensor != 0) return places;
  const int all = node.gpus / mesh.tensor;
  places.sharing = std::min(all, std::max(1, mesh.expert * mesh.expert_tensor / mesh.tensor));
  if (all % places.sharing != 0) places.sharing = all;
  places.replicas = all / places.sharing;
  folds = folds && gpus_are_alike(node) && stages_have_nodes;
  places.kept_sharing = folds ? kept_of(places.sharing) : places.sharing;
  places.kept_replicas = folds ? kept_of(places.replicas) : places.replicas;
  return places;
}

/// The same for ranks of experts, by their places on nodes.
void put_in_order(const Schedule& schedule, const Places& places, std::vector<std::size_t>& ranks) {
  const Mesh& mesh = *schedule.mesh;
  std::map<int, std::size_t> first;  // node of a stage
  const auto stage_of = [&](std::size_t rank) {
    return coordinates(mesh, rank)[static_cast<std::size_t>(MeshAxis::pipeline)];
  };
  const auto node_of = [&](std::size_t rank) { return schedule.ranks[rank].place.node.index(); };
  for (const std::size_t rank : ranks) {
    const auto [found, is_new] = first.try_emplace(stage_of(rank), node_of(rank));
    found->second = std::min(found->second, node_of(rank));
  }
  const auto key = [&](std::size_t rank) {
    const int gpu = schedule.ranks[rank].place.gpu, stage = stage_of(rank);
    const int tensor = gpu % mesh.tensor, place = gpu / mesh.tensor;
    const int tensors = static_cast<int>(tensor_ranks_kept(true));
    const int sharing = place % places.sharing, replica = place / places.sharing;
    return std::tuple(tensor / tensors, sharing / places.kept_sharing,
                      replica / places.kept_replicas, node_of(rank) - first.at(stage),
                      replica % places.kept_replicas, sharing % places.kept_sharing,
                      tensor % tensors, stage);
  };
  std::ranges::sort(ranks, {}, key);
}

/// Those that stand for others first, and of these one rank of each stage before any other of a
/// stage: of the first ranks spans are kept.
void put_in_order(const Mesh& mesh, std::vector<std::size_t>& ranks) {
  const auto key = [&](std::size_t rank) {
    Coordinates at = coordinates(mesh, rank);
    const int stage = std::exchange(at[static_cast<std::size_t>(MeshAxis::pipeline)], 0);
    const int tensor = std::exchange(at[static_cast<std::size_t>(MeshAxis::tensor)], 0);
    return std::tuple(tensor, at, stage);
  };
  std::ranges::sort(ranks, {}, key);
}

/// Empty if nodes do not have the same replicas, or others: then none can be left out.
std::vector<Block> blocks_of(const Schedule& schedule) {
  std::map<std::size_t, std::set<int>> replicas;  // by node
  const auto data = static_cast<std::size_t>(MeshAxis::data);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    replicas[schedule.ranks[rank].place.node.index()].insert(
        coordinates(*schedule.mesh, rank)[data]);
  std::map<std::set<int>, Block> by_replicas;
  for (const auto& [node, own] : replicas) {
    Block& block = by_replicas[own];
    block.replicas = own;
    block.nodes.push_back(node);
  }
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    by_replicas[replicas[schedule.ranks[rank].place.node.index()]].ranks.push_back(rank);
  std::vector<Block> blocks;
  std::set<int> seen;
  for (auto& [own, block] : by_replicas) {
    for (const int replica : own)
      if (!seen.insert(replica).second) return {};
    if (!blocks.empty() && block.ranks.size() != blocks.front().ranks.size()) return {};
    if (!has_experts(schedule)) put_in_order(*schedule.mesh, block.ranks);
    blocks.push_back(std::move(block));
  }
  return blocks;
}

double slowest_rank(const Schedule& schedule, const Block& block) {
  double slowdown = 0;
  for (const std::size_t rank : block.ranks)
    slowdown = std::max(slowdown, schedule.ranks[rank].slowdown);
  return slowdown;
}

/// Of blocks whose ranks share experts, two stand for all: these and the two at the same places of
/// the next ranks with the same experts come first. Returns how many are kept.
std::size_t put_kept_first(const Schedule& schedule, std::vector<Block>& blocks) {
  std::size_t sharing = 1;  // blocks
  const std::size_t nodes =
      blocks.front().nodes.size() / static_cast<std::size_t>(schedule.mesh->pipeline);
  for (const Group& group : schedule.groups)
    if (group.axis == MeshAxis::expert && nodes > 0)
      sharing = std::max(sharing, group.nodes / nodes);
  std::vector<bool> keeps(blocks.size(), false);
  std::vector<Block> ordered;
  for (std::size_t replica = 0; replica < kBlocksKept; ++replica) {
    for (std::size_t i = 0; i < std::min(kBlocksKept, sharing); ++i) {
      const std::size_t at = replica * sharing + i;
      if (at >= blocks.size()) continue;
      keeps[at] = true;
      ordered.push_back(blocks[at]);
    }
  }
  const std::size_t kept = ordered.size();
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (!keeps[i]) ordered.push_back(std::move(blocks[i]));
  blocks = std::move(ordered);
  return kept;
}

/// Each kept block is the slowest of those that it stands for: every second one.
void put_slowest_first(const Schedule& schedule, std::vector<Block>& blocks) {
  for (std::size_t kept = 0; kept < std::min(kBlocksKept, blocks.size()); ++kept) {
    std::size_t slowest = kept;
    for (std::size_t i = kept; i < blocks.size(); i += kBlocksKept)
      if (slowest_rank(schedule, blocks[i]) > slowest_rank(schedule, blocks[slowest])) slowest = i;
    std::swap(blocks[kept], blocks[slowest]);
  }
}

Crowd crowd_of(const Schedule& schedule, const std::vector<Block>& blocks, std::size_t each) {
  Crowd crowd{.ranks_per_node = blocks.front().ranks.size() / each};
  for (std::size_t position = 0; position < blocks.size(); ++position) {
    crowd.nodes.push_back(static_cast<std::uint32_t>(position));
    for (const std::size_t rank : blocks[position].ranks) {
      crowd.ranks.push_back(static_cast<std::uint32_t>(rank));
      crowd.slowdowns.push_back(schedule.ranks[rank].slowdown);
    }
  }
  return crowd;
}

std::size_t nodes_of(const std::vector<RankId>& members, const Schedule& schedule) {
  std::set<NodeId> nodes;
  for (const RankId member : members) nodes.insert(schedule.ranks[member.index()].place.node);
  return nodes.size();
}

/// Of all ranks that a kept one stands for, the slowest one's: those at its place of every `kept`th
/// block (of one block, where that is as many as there are), and there of every so many places.
double slowest_of(const Schedule& schedule, const std::vector<Block>& blocks, std::size_t kept,
                  std::size_t block, std::size_t place, std::size_t each) {
  double slowdown = 0;
  for (std::size_t b = block; b < blocks.size(); b += kept) {
    const std::vector<std::size_t>& ranks = blocks[b].ranks;
    for (std::size_t i = place; i < ranks.size(); i += ranks.size() / each)
      slowdown = std::max(slowdown, schedule.ranks[ranks[i]].slowdown);
  }
  return slowdown;
}

/// Ranks and nodes of the blocks that are kept, numbered anew.
class Kept {
 public:
  /// `each`: ranks of its nodes that a kept one stands for; `count`: blocks that are kept.
  Kept(const Schedule& schedule, const std::vector<Block>& blocks, std::size_t each,
       std::size_t count, Schedule& folded)
      : schedule_(schedule), folded_(folded) {
    for (std::size_t block = 0; block < count; ++block) {
      for (const std::size_t node : blocks[block].nodes) nodes_.emplace(node, nodes_.size());
      for (std::size_t i = 0; i < blocks[block].ranks.size() / each; ++i) {
        const std::size_t rank = blocks[block].ranks[i];
        ranks_.emplace(rank, folded.ranks.size());
        folded.ranks.push_back(schedule.ranks[rank]);
        RankSpec& kept = folded.ranks.back();
        kept.place.node = NodeId(nodes_.at(kept.place.node.index()));
        if (has_experts(schedule))
          kept.slowdown = slowest_of(schedule, blocks, count, block, i, each);
        else if (schedule.jitter.distribution == Jitter::Distribution::none)
          kept.slowdown = slowest_of(schedule, blocks, blocks.size(), block, i, each);
      }
    }
  }
  std::size_t nodes() const { return nodes_.size(); }

  /// Why a group's kept members do not stand for it; empty: they do.
  std::string add_groups() {
    std::map<GroupId, GroupId> renamed;
    for (RankSpec& rank : folded_.ranks) {
      for (GroupId& id : rank.groups) {
        const auto found = renamed.find(id);
        if (found == renamed.end()) {
          const Group& original = schedule_.groups[id.index()];
          renamed.emplace(id, GroupId(folded_.groups.size()));
          if (std::string why = add(original); !why.empty()) return why;
        }
        id = renamed.at(id);
      }
    }
    return "";
  }

 private:
  std::string add(const Group& original) {
    Group& group = folded_.groups.emplace_back(original);
    group.members.clear();
    for (const RankId member : original.members)
      if (const auto kept = ranks_.find(member.index()); kept != ranks_.end())
        group.members.emplace_back(kept->second);
    if (group.members.size() == original.ranks || stand_for(group, original)) return "";
    return "the ranks of group \"" + original.name + "\" do not repeat from replica to replica";
  }

  /// Two nodes of several, with as many members each; and of these all, or two of several, or one
  /// of those that tensor parallelism makes alike.
  bool stand_for(const Group& group, const Group& original) const {
    const std::size_t nodes = nodes_of(group.members, folded_);
    const std::size_t each = group.members.size() / nodes, all = original.ranks / original.nodes;
    if (original.axis == MeshAxis::pipeline || !are_even(group, each)) return false;
    const std::size_t least =
        original.axis == MeshAxis::tensor ? tensor_ranks_kept(has_experts(schedule_)) : kPlacesKept;
    const bool enough = original.nodes == nodes || nodes >= kBlocksKept;
    return enough && (each == all || each >= least) && original.ranks % original.nodes == 0;
  }

  bool are_even(const Group& group, std::size_t each) const {
    std::map<NodeId, std::size_t> members;
    for (const RankId member : group.members) ++members[folded_.ranks[member.index()].place.node];
    return std::ranges::all_of(members, [each](const auto& node) { return node.second == each; });
  }

  const Schedule& schedule_;
  Schedule& folded_;
  std::map<std::size_t, std::size_t> nodes_, ranks_;
};

std::optional<Folded> fold_replicas(const Schedule& schedule, const Cluster& cluster,
                                    const Places& places, std::string& why_not) {
  why_not.clear();
  std::vector<Block> blocks = blocks_of(schedule);
  const std::size_t each = tensor_ranks_per_kept(schedule, cluster) * places.per_kept();
  std::size_t count = kBlocksKept;
  if (!blocks.empty() && has_experts(schedule)) {
    for (Block& block : blocks) put_in_order(schedule, places, block.ranks);
    count = put_kept_first(schedule, blocks);
  }
  count = std::min(count, blocks.size());
  if (blocks.empty() || (blocks.size() == count && each == 1)) {
    why_not = blocks.empty() ? "replicas of the model share nodes unevenly"
                             : "there are no more than two replicas on nodes of their own, and no "
                               "tensor groups whose GPUs are alike";
    return std::nullopt;
  }
  if (!has_experts(schedule)) put_slowest_first(schedule, blocks);
  Folded folded{.schedule = without_ranks(schedule), .cluster = cluster};
  Schedule& kept = folded.schedule;
  if (kept.jitter.distribution != Jitter::Distribution::none)
    kept.crowd = crowd_of(schedule, blocks, each);
  Kept few(schedule, blocks, each, count, kept);
  why_not = few.add_groups();
  if (!why_not.empty()) return std::nullopt;
  folded.cluster.groups.front().nodes = static_cast<int>(few.nodes());
  return folded;
}

}  // namespace

std::optional<Folded> fold_replicas(const Schedule& schedule, const Cluster& cluster,
                                    std::string& why_not) {
  why_not = why_not_on(schedule, cluster);
  if (!why_not.empty()) return std::nullopt;
  const Places places = places_of(schedule, cluster, true);
  std::optional<Folded> folded = fold_replicas(schedule, cluster, places, why_not);
  if (folded || places.per_kept() == 1) return folded;
  return fold_replicas(schedule, cluster, places_of(schedule, cluster, false), why_not);
}

}  // namespace rehearse::inline schedule
