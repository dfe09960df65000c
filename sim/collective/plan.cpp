#include "collective/plan.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "cluster/fabric.hpp"
#include "collective/plan_builder.hpp"

namespace rehearse::inline collective {

namespace {

bool like_nodes(const PlanBuilder& builder) {
  const std::size_t local = builder.by_node().front().size();
  return std::all_of(builder.by_node().begin(), builder.by_node().end(),
                     [local](const auto& members) { return members.size() == local; });
}

bool to_one_or_from_one(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
}

// What an algorithm becomes where it does not apply.
CollectiveAlgorithm suited(const PlanBuilder& builder, CollectiveKind kind,
                           CollectiveAlgorithm wanted) {
  if (kind == CollectiveKind::send_recv) return CollectiveAlgorithm::ring;
  if (kind == CollectiveKind::all_to_all) return CollectiveAlgorithm::direct;
  if (wanted == CollectiveAlgorithm::tree && kind != CollectiveKind::all_reduce)
    return CollectiveAlgorithm::ring;
  if (wanted == CollectiveAlgorithm::hierarchical &&
      (to_one_or_from_one(kind) || builder.nodes() < 2 || !like_nodes(builder)))
    return CollectiveAlgorithm::ring;
  return wanted;
}

// Flows that wait for nothing run first; those after a join run in the next phase. Each phase lasts
// as long as its busiest port.
void add_loads(FlowPlan& plan, const Cluster& cluster) {
  std::vector<FlowPlan::Loads> phases;
  std::vector<FlowPlan::Flow> phase;
  const auto end = [&] {
    phases.push_back(loads_of(phase, cluster));
    phase.clear();
  };
  for (const FlowPlan::Flow& flow : plan.flows) flow.share > 0 ? phase.push_back(flow) : end();
  end();
  double cables = 0;
  for (const FlowPlan::Loads& one : phases) {
    const double ports = std::max(one.inside, one.between);
    plan.seconds_per_byte += ports;
    cables += std::max(ports, one.cables);
  }
  plan.loads = phases.size() == 1 ? phases.front()
                                  : FlowPlan::Loads{.inside = plan.seconds_per_byte,
                                                    .between = plan.seconds_per_byte,
                                                    .cables = cables};
}

}  // namespace

FlowPlan plan_collective(CollectiveKind kind, CollectiveAlgorithm algorithm, const Group& group,
                         const std::vector<RankSpec>& ranks, const Cluster& cluster,
                         Fidelity fidelity, int segments) {
  check(algorithm != CollectiveAlgorithm::automatic,
        "an automatic algorithm is chosen before it is planned");
  PlanBuilder builder(
      group, ranks, cluster,
      {.segments = fidelity == Fidelity::hop ? segments : 0, .by_hosts = segments > 0});
  if (builder.ranks() < 2) return builder.plan;
  switch (suited(builder, kind, algorithm)) {
    case CollectiveAlgorithm::tree:
      plan_tree(builder, fidelity);
      break;
    case CollectiveAlgorithm::hierarchical:
      plan_hierarchical(builder, kind, fidelity);
      break;
    case CollectiveAlgorithm::direct:
      plan_direct(builder, kind, fidelity);
      break;
    case CollectiveAlgorithm::ring:
    case CollectiveAlgorithm::automatic:
      plan_ring(builder, kind, fidelity);
      break;
  }
  if (fidelity == Fidelity::flow) add_loads(builder.plan, cluster);
  return builder.finish();
}

bool FlowPlan::begins_at_once() const {
  return after.empty() && steps.empty() && !by_member &&
         std::ranges::all_of(
             flows, [](const Flow& flow) { return flow.share > 0 && flow.latency == Seconds(0); });
}

std::vector<CollectiveAlgorithm> automatic_candidates(CollectiveKind kind, const Group& group) {
  if (kind == CollectiveKind::all_reduce && group.nodes > 1)
    return {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree};
  return {CollectiveAlgorithm::ring};
}

FlowPlan::Loads loads_of(const std::vector<FlowPlan::Flow>& flows, const Cluster& cluster) {
  std::map<Port, double> out, in, host;
  std::map<std::array<std::uint32_t, 4>, double> cables;
  FlowPlan::Loads loads;
  for (const FlowPlan::Flow& flow : flows) {
    out[flow.source] += flow.share;
    in[flow.target] += flow.share;
    if (staged(cluster, {flow.source, flow.target}))
      host[{PortKind::cpu, flow.source.node, 0}] += flow.share;
    if (flow.source.node == flow.target.node) continue;
    for (const Cable& cable : cables_between(cluster, flow.source, flow.target)) {
      double& load = cables[cable.id];
      load += flow.share / cable.rate.value();
      loads.cables = std::max(loads.cables, load);
    }
  }
  for (const auto* side : {&out, &in})
    for (const auto& [port, share] : *side) {
      double& most = port.kind == PortKind::nic ? loads.between : loads.inside;
      most = std::max(most, share / port_bandwidth(cluster, port).value());
    }
  for (const auto& [port, share] : host)
    loads.inside = std::max(loads.inside, share / staging_rate(cluster.node(port.node)).value());
  return loads;
}

}  // namespace rehearse::inline collective
