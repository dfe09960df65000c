#include "collective/plan_builder.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline collective {

PlanBuilder::PlanBuilder(const Group& group, const std::vector<RankSpec>& ranks,
                         const Cluster& cluster, HostPart hosts)
    : group_(group),
      cluster_(cluster),
      rails_(std::holds_alternative<Rail>(cluster.fabric)),
      segments_(static_cast<std::size_t>(hosts.segments)),
      by_hosts_(hosts.by_hosts) {
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

double PlanBuilder::kept_of_node() const {
  if (!folded()) return 1;
  return static_cast<double>(places_.size()) * nodes() /
         (static_cast<double>(by_node_.size()) * ranks());
}

Seconds PlanBuilder::edge_latency(std::size_t from, std::size_t to) const {
  const Place a = places_[from], b = from == to ? neighbour(to) : places_[to];
  const Seconds path = path_latency(cluster_, a, b);
  if (by_hosts_ || a.node == b.node) return path;
  return path + std::max(cluster_.node(a.node).transport.per_message,
                         cluster_.node(b.node).transport.per_message);
}

FlowRange PlanBuilder::edge(std::size_t from, std::size_t to, double share,
                            std::span<const FlowRange> after, Seconds latency) {
  const Place &a = places_[from], &b = places_[to];
  if (from == to) {
    const Port own = ports_between(cluster_, a, neighbour(from)).source;
    return add(from, {own, own}, share, after, latency);
  }
  if (a.node == b.node) return add(from, ports_between(cluster_, a, b), share, after, latency);
  const auto& nics_a = nics_[node_of_[from]];
  const auto& nics_b = nics_[node_of_[to]];
  const std::size_t stripes = std::min(nics_a.size(), nics_b.size());
  share *= kept_of_node();  // the NICs of members that are left out carry the rest
  FlowRange range{static_cast<std::uint32_t>(plan.flows.size()), 0};
  for (std::size_t s = 0; s < stripes; ++s) {
    const PortPair ports{.source = {PortKind::nic, a.node, nics_a[s]},
                         .target = {PortKind::nic, b.node, nics_b[s]}};
    range.end = add(from, ports, share / static_cast<double>(stripes), after, latency).end;
  }
  return range;
}

/// Another GPU of a member's node.
Place PlanBuilder::neighbour(std::size_t member) const {
  const Place& place = places_[member];
  return {place.node, (place.gpu + 1) % cluster_.node(place.node).gpus};
}

FlowRange PlanBuilder::unstriped_edge(std::size_t from, std::size_t to, double share,
                                      std::span<const FlowRange> after, Seconds latency) {
  PortPair ports = ports_between(cluster_, places_[from], places_[to]);
  // NCCL hands what changes rails to the GPU at the target's rail, over NVLink (PXN).
  const Node& node = cluster_.node(places_[from].node);
  if (rails_ && node.nvlink && ports.source.kind == PortKind::nic && ports.target.index < node.nics)
    ports.source.index = ports.target.index;
  return add(from, ports, share, after, latency);
}

FlowRange PlanBuilder::join(std::size_t member, std::span<const FlowRange> after) {
  return add(member, {}, 0, after, {});
}

void PlanBuilder::place(FlowRange join, FlowRange flows) {
  plan.steps[join.begin].places_begin = flows.begin;
  plan.steps[join.begin].places_end = flows.end;
}

FlowRange PlanBuilder::host(std::size_t member, double share, std::span<const FlowRange> after) {
  const FlowRange range = add(member, {}, 0, after, {});
  plan.steps.back().handled = share;
  return range;
}

FlowRange PlanBuilder::wake(std::size_t member, FlowRange arrived) {
  const FlowRange after[] = {arrived};
  const FlowRange range = add(member, {}, 0, after, {});
  plan.steps.back().wakes = true;
  return range;
}

FlowRange PlanBuilder::ready(std::size_t from, std::size_t to, std::span<const FlowRange> after) {
  const FlowRange range =
      add(from, ports_between(cluster_, places_[from], places_[to]), 0, after, Seconds{});
  plan.steps.back().readies = true;
  return range;
}

void PlanBuilder::wait_too(FlowRange flows, FlowRange before) {
  for (std::uint32_t flow = flows.begin; flow < flows.end; ++flow)
    for (std::uint32_t id = before.begin; id < before.end; ++id) later_.emplace_back(flow, id);
}

FlowPlan PlanBuilder::finish() {
  std::ranges::sort(later_);
  std::vector<std::uint32_t> after;
  auto later = later_.begin();
  for (std::uint32_t i = 0; !later_.empty() && i < plan.flows.size(); ++i) {
    FlowPlan::Flow& flow = plan.flows[i];
    const auto begin = static_cast<std::uint32_t>(after.size());
    after.insert(after.end(), plan.after.begin() + flow.after_begin,
                 plan.after.begin() + flow.after_end);
    for (; later != later_.end() && later->first == i; ++later) after.push_back(later->second);
    flow.after_begin = begin;
    flow.after_end = static_cast<std::uint32_t>(after.size());
  }
  if (!later_.empty()) plan.after = std::move(after);
  return std::move(plan);
}

FlowRange PlanBuilder::add(std::size_t member, const PortPair& ports, double share,
                           std::span<const FlowRange> after, Seconds latency) {
  FlowPlan::Flow flow{
      .source = ports.source, .target = ports.target, .share = share, .latency = latency};
  flow.after_begin = static_cast<std::uint32_t>(plan.after.size());
  for (const FlowRange& range : after)
    for (std::uint32_t id = range.begin; id < range.end; ++id) plan.after.push_back(id);
  flow.after_end = static_cast<std::uint32_t>(plan.after.size());
  plan.flows.push_back(flow);
  if (segments_ > 0) plan.steps.push_back({.member = static_cast<std::uint32_t>(member)});
  const auto id = static_cast<std::uint32_t>(plan.flows.size() - 1);
  return {id, id + 1};
}

}  // namespace rehearse::inline collective
