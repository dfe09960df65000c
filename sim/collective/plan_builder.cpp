#include "collective/plan_builder.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse {

PlanBuilder::PlanBuilder(const Group& group, const std::vector<RankSpec>& ranks,
                         const Cluster& cluster, int segments)
    : group_(group), cluster_(cluster), segments_(static_cast<std::size_t>(segments)) {
  check(group.ranks >= group.members.size() && group.nodes >= 1,
        "a group that stands for fewer ranks than it has");
  std::vector<NodeId> nodes;
  for (const RankId member : group.members) {
    const Place& place = ranks[member.index()].place;
    if (nodes.empty() || nodes.back() != place.node) {
      nodes.push_back(place.node);
      by_node_.emplace_back();
      nics_.emplace_back();
    }
    by_node_.back().push_back(places_.size());
    node_of_.push_back(by_node_.size() - 1);
    const int nic = nic_of(cluster.node(place.node), place.gpu);
    auto& nics = nics_.back();
    if (std::find(nics.begin(), nics.end(), nic) == nics.end()) nics.push_back(nic);
    places_.push_back(place);
  }
}

Seconds PlanBuilder::edge_latency(std::size_t from, std::size_t to) const {
  return path_latency(cluster_, places_[from], places_[to]);
}

FlowRange PlanBuilder::edge(std::size_t from, std::size_t to, double share,
                            std::span<const FlowRange> after, Seconds latency) {
  const Place &a = places_[from], &b = places_[to];
  if (a.node == b.node) return add(ports_between(cluster_, a, b), share, after, latency);
  const auto& nics_a = nics_[node_of_[from]];
  const auto& nics_b = nics_[node_of_[to]];
  const std::size_t stripes = std::min(nics_a.size(), nics_b.size());
  FlowRange range{static_cast<std::uint32_t>(plan.flows.size()), 0};
  for (std::size_t s = 0; s < stripes; ++s) {
    const PortPair ports{.source = {PortKind::nic, a.node, nics_a[s]},
                         .target = {PortKind::nic, b.node, nics_b[s]}};
    range.end = add(ports, share / static_cast<double>(stripes), after, latency).end;
  }
  return range;
}

FlowRange PlanBuilder::unstriped_edge(std::size_t from, std::size_t to, double share,
                                      std::span<const FlowRange> after, Seconds latency) {
  return add(ports_between(cluster_, places_[from], places_[to]), share, after, latency);
}

FlowRange PlanBuilder::join(std::span<const FlowRange> after) { return add({}, 0, after, {}); }

FlowRange PlanBuilder::host(double share, std::span<const FlowRange> after) {
  const FlowRange range = add({}, 0, after, {});
  plan.flows.back().handled = share;
  return range;
}

FlowRange PlanBuilder::wake(FlowRange arrived) {
  const FlowRange after[] = {arrived};
  const FlowRange range = add({}, 0, after, {});
  plan.flows.back().wakes = true;
  return range;
}

FlowRange PlanBuilder::ready(std::size_t from, std::size_t to) {
  const FlowRange range = add(ports_between(cluster_, places_[from], places_[to]), 0, {}, {});
  plan.flows.back().readies = true;
  return range;
}

FlowRange PlanBuilder::add(const PortPair& ports, double share, std::span<const FlowRange> after,
                           Seconds latency) {
  FlowPlan::Flow flow{
      .source = ports.source, .target = ports.target, .share = share, .latency = latency};
  flow.after_begin = static_cast<std::uint32_t>(plan.after.size());
  for (const FlowRange& range : after)
    for (std::uint32_t id = range.begin; id < range.end; ++id) plan.after.push_back(id);
  flow.after_end = static_cast<std::uint32_t>(plan.after.size());
  plan.flows.push_back(flow);
  const auto id = static_cast<std::uint32_t>(plan.flows.size() - 1);
  return {id, id + 1};
}

}  // namespace rehearse
