#include "planner/layouts/layout_exchanges.hpp"

#include <set>

namespace rehearse::inline planner {

LayoutExchanges::LayoutExchanges(const Scenario& scenario, const Mesh& mesh)
    : scenario_(scenario),
      element_(activation_element(computed_in(compute_precision(scenario)))),
      narrow_element_(element_),
      machine_{.schedule = {}, .cluster = scenario.cluster} {
  const Precision computes = computed_in(compute_precision(scenario));
  if (is_narrow(computes)) narrow_element_ = narrow_element(computes);
  if (scenario.comm) machine_.comm = *scenario.comm;
  for (std::size_t node = 0; node < scenario.cluster.node_count(); ++node)
    for (int gpu = 0; gpu < scenario.cluster.node(NodeId(node)).gpus; ++gpu)
      machine_.schedule.ranks.push_back({.place = {NodeId(node), gpu}, .groups = {}});
  add_group(ExchangeAxis::tensor, MeshAxis::tensor, mesh);
  add_group(ExchangeAxis::context, MeshAxis::context, mesh);
  const Mesh experts = expert_mesh(mesh);
  add_group(ExchangeAxis::expert, MeshAxis::expert, experts);
  add_group(ExchangeAxis::expert_tensor, MeshAxis::tensor, experts);
  plans_.emplace(machine_.schedule, machine_.cluster, machine_.cluster, machine_);
}

void LayoutExchanges::add_group(ExchangeAxis what, MeshAxis axis, const Mesh& mesh) {
  if (mesh.degree(axis) == 1) return;
  Schedule& schedule = machine_.schedule;
  Group group{.name = to_string(axis), .axis = axis};
  std::set<NodeId> nodes;
  const std::vector<std::size_t> members = groups(mesh, {axis}).front();
  for (const std::size_t member : members) {
    group.members.emplace_back(member);
    nodes.insert(schedule.ranks[member].place.node);
  }
  group.ranks = group.members.size();
  group.nodes = nodes.size();
  groups_[what] = GroupId(schedule.groups.size());
  schedule.groups.push_back(std::move(group));
}

Seconds LayoutExchanges::time(const Exchange& exchange) {
  const auto group = groups_.find(exchange.axis);
  if (group == groups_.end()) return Seconds(0);
  const double elements = exchange.elements * static_cast<double>(scenario_.batch_per_gpu);
  const double beside = exchange.wide_beside * static_cast<double>(scenario_.batch_per_gpu);
  Collective what{.kind = CollectiveKind::all_gather,
                  .size = elements * (exchange.wide     ? Bytes(4)
                                      : exchange.float8 ? Bytes(1)
                                      : exchange.narrow ? narrow_element_
                                                        : element_) +
                          beside * Bytes(4)};
  if (exchange.kind == ExchangeKind::all_reduce) what.kind = CollectiveKind::all_reduce;
  if (exchange.kind == ExchangeKind::all_to_all) what.kind = CollectiveKind::all_to_all;
  if (exchange.kind == ExchangeKind::reduce_scatter) what.kind = CollectiveKind::reduce_scatter;
  const std::pair key{what.size.value(), std::pair{what.kind, group->second.index()}};
  if (const auto known = times_.find(key); known != times_.end()) return known->second;
  const PlannedCollective planned = plans_->planned(what, group->second);
  const double per_byte = planned.plan->plan.seconds_per_byte;
  const Seconds own = planned.latency + Seconds(planned.size.value() * per_byte);
  return times_.emplace(key, own).first->second;
}

}  // namespace rehearse::inline planner
