// Replicas of a model are alike: two stand for all, for what they exchange is a ring, whose edges
// are alike, too. So are the ranks of a tensor group.
#include "schedule/fold_replicas.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace rehearse {
namespace {

constexpr std::size_t kBlocksKept = 2;

std::string why_not_on(const Schedule& schedule, const Cluster& cluster) {
  if (cluster.shared_cores) return "nodes share cores";
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

/// Replicas that share nodes, with these nodes and their ranks. Those that are kept of a tensor group
/// stand for others of it, `ranks` being in order of the kept ones and then of these.
struct Block {
  std::set<int> replicas;
  std::vector<std::size_t> nodes, ranks;
};

constexpr std::size_t kTensorRanksKept = 2;

/// How many ranks of its tensor group one rank stands for: their GPUs are joined by a switch, and
/// each has NICs of its own, so that two in a ring are as good as all.
std::size_t tensor_ranks_per_kept(const Schedule& schedule, const Cluster& cluster) {
  const auto tensor = static_cast<std::size_t>(schedule.mesh->tensor);
  const Node& node = cluster.groups.front().node;
  if (tensor % kTensorRanksKept != 0 || !node.nvlink || node.nics < node.gpus) return 1;
  for (const Group& group : schedule.groups)
    if (group.axis == MeshAxis::tensor && group.nodes > 1) return 1;
  return tensor / kTensorRanksKept;
}

/// Those that stand for others first, and of these one rank of each stage before any other of a
/// stage: of the first ranks spans are kept.
void put_in_order(const Mesh& mesh, std::vector<std::size_t>& ranks) {
  const auto key = [&](std::size_t rank) {
    Coordinates at = coordinates(mesh, rank);
    const int stage = std::exchange(at[static_cast<std::size_t>(MeshAxis::pipeline)], 0);
    int& tensor = at[static_cast<std::size_t>(MeshAxis::tensor)];
    const int kept = static_cast<int>(kTensorRanksKept);
    const int stands_for = tensor / kept;
    tensor %= kept;
    return std::tuple(stands_for, at, stage);
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
    put_in_order(*schedule.mesh, block.ranks);
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

/// Each kept block is the slowest of those that it stands for: every second one.
void put_slowest_first(const Schedule& schedule, std::vector<Block>& blocks) {
  for (std::size_t kept = 0; kept < kBlocksKept; ++kept) {
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

/// Ranks and nodes of the blocks that are kept, numbered anew.
class Kept {
 public:
  /// `each`: ranks that a kept one stands for within its tensor group.
  Kept(const Schedule& schedule, const std::vector<Block>& blocks, std::size_t each,
       Schedule& folded)
      : schedule_(schedule), folded_(folded) {
    for (std::size_t block = 0; block < kBlocksKept; ++block) {
      for (const std::size_t node : blocks[block].nodes) nodes_.emplace(node, nodes_.size());
      for (std::size_t i = 0; i < blocks[block].ranks.size() / each; ++i) {
        const std::size_t rank = blocks[block].ranks[i];
        ranks_.emplace(rank, folded.ranks.size());
        folded.ranks.push_back(schedule.ranks[rank]);
        RankSpec& kept = folded.ranks.back();
        kept.place.node = NodeId(nodes_.at(kept.place.node.index()));
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
    const bool alike = group.members.size() * original.nodes ==
                       original.ranks * nodes_of(group.members, folded_);
    const bool whole = group.members.size() == original.ranks ||
                       (original.axis == MeshAxis::tensor && group.members.size() > 1);
    if (whole || (original.axis == MeshAxis::data && alike)) return "";
    return "the ranks of group \"" + original.name + "\" do not repeat from replica to replica";
  }

  const Schedule& schedule_;
  Schedule& folded_;
  std::map<std::size_t, std::size_t> nodes_, ranks_;
};

}  // namespace

std::optional<Folded> fold_replicas(const Schedule& schedule, const Cluster& cluster,
                                    std::string& why_not) {
  why_not = why_not_on(schedule, cluster);
  if (!why_not.empty()) return std::nullopt;
  std::vector<Block> blocks = blocks_of(schedule);
  if (blocks.size() <= kBlocksKept) {
    why_not = blocks.empty() ? "replicas of the model share nodes unevenly"
                             : "there are no more than two replicas on nodes of their own";
    return std::nullopt;
  }
  put_slowest_first(schedule, blocks);
  const std::size_t each = tensor_ranks_per_kept(schedule, cluster);
  Folded folded{.schedule = {}, .cluster = cluster};
  Schedule& kept = folded.schedule;
  kept.programs = schedule.programs;
  kept.iterations = schedule.iterations;
  kept.samples_per_iteration = schedule.samples_per_iteration;
  kept.seed = schedule.seed;
  kept.overlap_slowdown = schedule.overlap_slowdown;
  kept.jitter = schedule.jitter;
  if (kept.jitter.distribution != Jitter::Distribution::none)
    kept.crowd = crowd_of(schedule, blocks, each);
  Kept few(schedule, blocks, each, kept);
  why_not = few.add_groups();
  if (!why_not.empty()) return std::nullopt;
  folded.cluster.groups.front().nodes = static_cast<int>(few.nodes());
  return folded;
}

}  // namespace rehearse
