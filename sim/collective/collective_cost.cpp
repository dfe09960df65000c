#include "collective/collective_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace rehearse {
namespace {

/// What a collective costs before its first step: NCCL's own model has 6.6 us for a ring with LL
/// (NCCL 2.28.7, src/graph/tuning.cc, baseLatencies). It stays when the number of steps changes.
constexpr Seconds kLaunch(6.6e-6);

// Of all_reduce's busbw inside a node, what all_gather and reduce_scatter reach. A switch that adds
// up (NVLink SHARP) serves all_reduce alone: 480 against 362 GB/s on eight H100s (NVIDIA/nccl,
// issues 1047 and 1083). On eight A100s 0.92 (nccl-tests, aiconfigurator's tables).
constexpr double kWithoutSharp = 0.75;
constexpr double kOwnCopies = 0.92;

bool splits_all_reduce(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::broadcast;
}

/// An all_reduce whose busbw is above its links' rate was added up by the switch.
double gather_share(const CommCurve& curve, CollectiveKind kind, const CommLinks& links) {
  const bool derived = curve.kind == CollectiveKind::all_reduce &&
                       (kind == CollectiveKind::all_gather ||
                        kind == CollectiveKind::reduce_scatter);
  if (!derived || curve.nodes > 1 || links.nvlink == BytesPerSecond(0)) return 1;
  return curve.segments.back().busbw > links.nvlink ? kWithoutSharp : kOwnCopies;
}

std::string placement(int ranks, int nodes) {
  return nodes == 1 ? fmt::format("{}", ranks) : fmt::format("{} on {} nodes", ranks, nodes);
}

void add(std::string& reasons, const std::string& reason) {
  if (!reasons.empty()) reasons += "; ";
  reasons += reason;
}

std::string reasons_outside(const CommCurve& curve, CollectiveKind kind, Bytes size, int ranks,
                            int nodes) {
  std::string reasons;
  if (curve.kind != kind)
    add(reasons, fmt::format("{} derived from {}", to_string(kind), to_string(curve.kind)));
  if (curve.ranks != ranks || curve.nodes != nodes) {
    const std::string wanted = nodes == 1 ? fmt::format("{} ranks", ranks)
                                          : fmt::format("{} ranks on {} nodes", ranks, nodes);
    add(reasons, fmt::format("{} from a curve of {}", wanted, placement(curve.ranks, curve.nodes)));
  }
  if (size > curve.largest)
    add(reasons, fmt::format("{} above the measured {}", format(size), format(curve.largest)));
  if (size < curve.smallest) {
    add(reasons, fmt::format("{} below the measured {}", format(size), format(curve.smallest)));
  }
  return reasons;
}

int ranks_of(const Group& group) { return static_cast<int>(group.ranks); }
int nodes_of(const Group& group) { return static_cast<int>(group.nodes); }

double links_error(const FlowPlan& plan, const Group& group, const Cluster& cluster) {
  if (plan.algorithm == CollectiveAlgorithm::tree && group.nodes == 2) return kTwoNodeTreeError;
  const bool staged_unsaid =
      group.nodes == 1 && std::ranges::any_of(plan.flows, [&](const FlowPlan::Flow& flow) {
        return flow.share > 0 && staged(cluster, {flow.source, flow.target}) &&
               !cluster.node(flow.source.node).pcie.staged_rate_stated;
      });
  return staged_unsaid ? kStagedError : kLinksError;
}

/// Closed forms of all algorithms that NCCL chooses from for a curve's collective on its links.
std::vector<LinkCost> costs_on(const CommLinks& links, const CommCurve& curve) {
  const Cluster cluster = cluster_on(links, curve.ranks, curve.nodes);
  Group group{.name = "measured", .members = {}};
  group.ranks = static_cast<std::size_t>(curve.ranks);
  group.nodes = static_cast<std::size_t>(curve.nodes);
  std::vector<RankSpec> ranks;
  std::vector<int> on_node(group.nodes, 0);
  for (std::size_t i = 0; i < group.ranks; ++i) {
    const std::size_t node = i * group.nodes / group.ranks;
    RankSpec rank;
    rank.place = {NodeId(node), on_node[node]++};
    ranks.push_back(rank);
    group.members.emplace_back(i);
  }
  std::vector<LinkCost> costs;
  for (const CollectiveAlgorithm algorithm : automatic_candidates(curve.kind, group)) {
    const FlowPlan plan =
        plan_collective(curve.kind, algorithm, group, ranks, cluster, Fidelity::flow);
    costs.push_back({plan.latency, plan.seconds_per_byte});
  }
  return costs;
}

}  // namespace

LinkCost CollectiveCosts::measured_links(const CommCurve& curve, Bytes size) {
  std::vector<LinkCost>& known = measured_links_[&curve];
  if (known.empty()) known = costs_on(*profile_->links, curve);
  return *std::ranges::min_element(known, {}, [size](const LinkCost& one) { return one.of(size); });
}

CollectiveCost CollectiveCosts::carried(const CommCurve& curve, CollectiveKind kind, Bytes size,
                                        const Group& group, const LinkCost& links) {
  const int ranks = ranks_of(group), nodes = nodes_of(group);
  const bool own = curve.kind == kind && curve.ranks == ranks && curve.nodes == nodes;
  Rescaling elsewhere;
  if (profile_->links) {
    const LinkCost there = measured_links(curve, size);
    elsewhere = {.there = kLaunch + there.latency,
                 .here = kLaunch + links.latency,
                 .rate = links.seconds_per_byte / gather_share(curve, kind, *profile_->links) /
                         there.seconds_per_byte};
    const auto alike = [](double a, double b) { return std::abs(a - b) <= 1e-9 * b; };
    if (own && alike(elsewhere.rate, 1) && alike(elsewhere.here.value(), elsewhere.there.value()))
      elsewhere = {};
  }
  const CommCost measured = curve.cost(size), here = curve.cost(size, elsewhere);
  CollectiveCost cost{.latency = here.latency,
                      .transfer = here.transfer,
                      .basis = own && elsewhere.changes_nothing() ? CostBasis::curve
                                                                  : CostBasis::rescaled,
                      .ratio = here.total() / measured.total(),
                      .outside = reasons_outside(curve, kind, size, ranks, nodes),
                      .uncertainty = curve.uncertainty(size)};
  if (profile_->links_assumed) {
    // No algorithm sends less than half of what a ring does, whatever it was measured on.
    cost.transfer = std::max(cost.transfer, Seconds(0.5 * size.value() * links.seconds_per_byte));
  }
  if (cost.basis == CostBasis::curve) return cost;
  const bool same_place = curve.ranks == ranks && curve.nodes == nodes;
  const double least = curve.kind != kind && same_place && nodes == 1
                           ? kDerivedError
                           : (size >= kLargeMessage ? kRescaledLarge : kRescaledSmall);
  cost.uncertainty = std::max(2 * curve.uncertainty(size), least);
  return cost;
}

void CollectiveCosts::add_what_a_node_takes(CollectiveKind kind, const Group& group,
                                            CollectiveCost& cost) {
  const int local = std::max(1, ranks_of(group) / nodes_of(group));
  const CommCurve* node = profile_->nearest(kind, local, 1);
  if (!node && splits_all_reduce(kind))
    node = profile_->nearest(CollectiveKind::all_reduce, local, 1);
  if (!node || !profile_->links) return;
  const Seconds beyond =
      node->segments.front().latency - measured_links(*node, node->smallest).latency;
  cost.latency += std::max(Seconds(0), beyond);
}

CollectiveCost CollectiveCosts::cost(CollectiveKind kind, Bytes size, const Group& group,
                                     const FlowPlan& plan, const LinkCost& links,
                                     const Cluster& cluster) {
  const int ranks = ranks_of(group), nodes = nodes_of(group);
  CollectiveCost by_links{.latency = links.latency,
                          .transfer = Seconds(size.value() * links.seconds_per_byte),
                          .uncertainty = links_error(plan, group, cluster)};
  if (!profile_) return by_links;
  const CommCurve* curve = profile_->nearest(kind, ranks, nodes);
  if (!curve && splits_all_reduce(kind))
    curve = profile_->nearest(CollectiveKind::all_reduce, ranks, nodes);
  if (curve) return carried(*curve, kind, size, group, links);
  by_links.outside = fmt::format("{} on {} ranks of {} node{}: no curve in {}, links alone",
                                 to_string(kind), ranks, nodes, nodes == 1 ? "" : "s",
                                 profile_->name);
  if (nodes > 1) add_what_a_node_takes(kind, group, by_links);
  return by_links;
}

}  // namespace rehearse
