// The double binary tree: two trees over the nodes, each reducing and broadcasting one half of the
// data, such that a node is inside one tree and a leaf of the other (Sanders, Speck, Traeff,
// "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
// 35(12), 2009). Inside a node the ranks form a chain.
#include <algorithm>
#include <bit>
#include <optional>

#include "collective/plan_builder.hpp"

namespace rehearse::inline collective {

namespace {

// Parent of node `i` in the in-order binary tree over n nodes: clear the lowest set bit and set the
// next one, or only clear it where that is beyond the end. Node 0 is the root, with the highest
// power of two as its only child.
std::optional<std::size_t> first_tree_parent(std::size_t i, std::size_t n) {
  if (i == 0) return std::nullopt;
  const std::size_t bit = i & (~i + 1);
  const std::size_t up = (i ^ bit) | (bit << 1);
  return up < n ? up : i ^ bit;
}

// The second tree is the first one mirrored (n even) or shifted by one (n odd), which turns leaves
// into inner nodes.
std::optional<std::size_t> second_tree_parent(std::size_t i, std::size_t n) {
  const bool mirror = n % 2 == 0;
  const std::size_t image = mirror ? n - 1 - i : (i + n - 1) % n;
  const auto parent = first_tree_parent(image, n);
  if (!parent) return std::nullopt;
  return mirror ? n - 1 - *parent : (*parent + 1) % n;
}

std::optional<std::size_t> parent_in(int tree, std::size_t i, std::size_t n) {
  return tree == 0 ? first_tree_parent(i, n) : second_tree_parent(i, n);
}

std::size_t depth(std::size_t n) {
  return n < 2 ? 0 : static_cast<std::size_t>(std::bit_width(n - 1));
}

// One tree over the members: node leaders as above, the others chained behind their leader.
struct MemberTree {
  std::vector<std::optional<std::size_t>> parent;
  std::vector<std::size_t> top_down;  // members, parents before children
};

MemberTree member_tree(const PlanBuilder& builder, int tree) {
  const auto& by_node = builder.by_node();
  MemberTree result;
  result.parent.resize(builder.members());
  auto ranks_of = [&](std::size_t node) {
    auto ranks = by_node[node];
    if (tree == 1) std::reverse(ranks.begin(), ranks.end());
    return ranks;
  };
  for (std::size_t node = 0; node < by_node.size(); ++node) {
    const auto ranks = ranks_of(node);
    for (std::size_t i = 1; i < ranks.size(); ++i) result.parent[ranks[i]] = ranks[i - 1];
    if (const auto up = parent_in(tree, node, by_node.size()))
      result.parent[ranks[0]] = ranks_of(*up)[0];
  }
  std::vector<std::vector<std::size_t>> children(builder.members());
  for (std::size_t i = 0; i < builder.members(); ++i)
    if (result.parent[i])
      children[*result.parent[i]].push_back(i);
    else
      result.top_down.push_back(i);
  for (std::size_t at = 0; at < result.top_down.size(); ++at)
    for (const std::size_t child : children[result.top_down[at]]) result.top_down.push_back(child);
  return result;
}

Seconds tree_latency(const PlanBuilder& builder) {
  if (builder.members() == 1) return 2 * (builder.ranks() - 1) * builder.edge_latency(0, 0);
  Seconds chain, between;
  const auto& by_node = builder.by_node();
  for (const auto& ranks : by_node) {
    Seconds sum;
    for (std::size_t i = 1; i < ranks.size(); ++i)
      sum += builder.edge_latency(ranks[i - 1], ranks[i]);
    chain = std::max(chain, sum);
  }
  for (std::size_t node = 0; node < by_node.size(); ++node) {
    const std::size_t next = (node + 1) % by_node.size();
    if (next != node)
      between = std::max(between, builder.edge_latency(by_node[node][0], by_node[next][0]));
  }
  return 2 *
         (chain + static_cast<double>(depth(static_cast<std::size_t>(builder.nodes()))) * between);
}

// A chunk goes up when all of the children's have come, and down when it has come from above; each
// edge carries its chunks one at a time.
void add_tree_hops(PlanBuilder& builder, const MemberTree& tree) {
  const double share = 0.5 / kPipelineChunks;
  std::vector<std::optional<FlowRange>> up(builder.members()), down(builder.members());
  for (std::size_t chunk = 0; chunk < kPipelineChunks; ++chunk) {
    std::vector<std::vector<FlowRange>> arrived(builder.members());
    for (auto it = tree.top_down.rbegin(); it != tree.top_down.rend(); ++it) {
      const auto parent = tree.parent[*it];
      if (!parent) continue;
      std::vector<FlowRange> wait = arrived[*it];
      if (up[*it]) wait.push_back(*up[*it]);
      up[*it] = builder.edge(*it, *parent, share, wait, builder.edge_latency(*it, *parent));
      arrived[*parent].push_back(*up[*it]);
    }
    for (const std::size_t member : tree.top_down) {
      const auto parent = tree.parent[member];
      if (!parent) continue;
      std::vector<FlowRange> wait;
      if (tree.parent[*parent])
        wait.push_back(*down[*parent]);
      else
        wait = arrived[*parent];
      if (down[member]) wait.push_back(*down[member]);
      down[member] =
          builder.edge(*parent, member, share, wait, builder.edge_latency(*parent, member));
    }
  }
}

void add_tree_flows(PlanBuilder& builder, const MemberTree& tree) {
  for (const std::size_t member : tree.top_down) {
    const auto parent = tree.parent[member];
    if (!parent) continue;
    builder.edge(member, *parent, 0.5);
    builder.edge(*parent, member, 0.5);
  }
}

// Most halves that leave (or enter) one node in the two trees over n nodes.
std::size_t most_edges_at_a_node(std::size_t n) {
  std::vector<std::size_t> edges(n, 0);  // each carries one half up and one half down
  for (int tree = 0; tree < 2; ++tree)
    for (std::size_t i = 0; i < n; ++i)
      if (const auto parent = parent_in(tree, i, n)) ++edges[i], ++edges[*parent];
  return *std::max_element(edges.begin(), edges.end());
}

// Two nodes stand for all: each sends and receives what the busiest node does.
void add_folded_tree(PlanBuilder& builder) {
  // One of a chain: an inner rank sends as much to both sides.
  if (builder.members() == 1) {
    for (int side = 0; side < (builder.ranks() > 2 ? 2 : 1); ++side) builder.edge(0, 0, 1);
    return;
  }
  const auto& by_node = builder.by_node();
  for (const auto& ranks : by_node)
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      builder.edge(ranks[i - 1], ranks[i], 1);  // one tree's half up, the other's down
      builder.edge(ranks[i], ranks[i - 1], 1);
    }
  const auto halves = most_edges_at_a_node(static_cast<std::size_t>(builder.nodes()));
  for (std::size_t node = 0; node < by_node.size(); ++node) {
    const std::size_t next = (node + 1) % by_node.size();
    if (next != node)
      builder.edge(by_node[node][0], by_node[next][0], 0.5 * static_cast<double>(halves));
  }
}

}  // namespace

void plan_tree(PlanBuilder& builder, Fidelity fidelity) {
  builder.plan.algorithm = CollectiveAlgorithm::tree;
  if (builder.folded() || fidelity == Fidelity::flow) builder.plan.latency = tree_latency(builder);
  if (builder.folded()) return add_folded_tree(builder);
  for (int tree = 0; tree < 2; ++tree) {
    const MemberTree members = member_tree(builder, tree);
    if (fidelity == Fidelity::hop)
      add_tree_hops(builder, members);
    else
      add_tree_flows(builder, members);
  }
}

}  // namespace rehearse::inline collective
