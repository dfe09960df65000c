#include "explain/link_costs.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "explain/pace.hpp"

namespace rehearse::inline explanation {
namespace {

std::string link_name(PortKind kind) {
  switch (kind) {
    case PortKind::nvlink:
      return "NVLink";
    case PortKind::pcie:
      return "PCIe";
    case PortKind::cpu:
      return "host";
    case PortKind::nic:
      return "NIC";
  }
  throw InternalError("internal error: unknown port kind");
}

std::string node_name(NodeId node) { return "node " + std::to_string(node.index()); }

/// Whatever it is played at: at flow fidelity a plan says what a collective costs alone.
Machine at_flow(Machine machine) {
  machine.fidelity = Fidelity::flow;
  return machine;
}

/// Seconds per byte of a collective's size on every port, each direction.
std::map<Port, double> loads(const FlowPlan& plan, const Cluster& cluster) {
  std::map<Port, double> out, in;
  for (const FlowPlan::Flow& flow : plan.flows) {
    if (flow.share <= 0) continue;
    out[flow.source] += flow.share / port_bandwidth(cluster, flow.source).value();
    in[flow.target] += flow.share / port_bandwidth(cluster, flow.target).value();
  }
  for (const auto& [port, load] : in) out[port] = std::max(out[port], load);
  return out;
}

}  // namespace

LinkCosts::LinkCosts(const Machine& machine)
    : machine_(at_flow(machine)),
      plans_(machine_.schedule, machine_.cluster, machine_.cluster, machine_),
      table_(machine_.schedule, plans_) {
  note_ports();
}

void LinkCosts::note_ports() {
  for (std::uint32_t id = 0; id < table_.size(); ++id)
    for (const FlowPlan::Flow& flow : table_.planned(id).plan->plan.flows)
      if (flow.share > 0) kinds_.insert({flow.source.kind, flow.target.kind});
  for (std::size_t r = 0; r < machine_.schedule.ranks.size(); ++r) {
    for (const Op& op : machine_.schedule.program_of(RankId(r)).ops) {
      const auto* one = std::get_if<Transfer>(&op.work);
      if (!one) continue;
      const Place& from = machine_.schedule.ranks[one->source.value_or(RankId(r)).index()].place;
      const Place& to = machine_.schedule.ranks[one->target.value_or(RankId(r)).index()].place;
      if (from == to) continue;
      const PortPair ports = ports_between(machine_.cluster, from, to);
      kinds_.insert({ports.source.kind, ports.target.kind});
    }
  }
}

std::optional<LinkCosts::Alone> LinkCosts::alone(RankId rank, OpId id) {
  const Op& op = machine_.schedule.program_of(rank).ops[id.index()];
  if (const auto* one = std::get_if<Collective>(&op.work))
    return collective(table_.planned(table_.id(rank, *one, id)));
  if (const auto* one = std::get_if<Transfer>(&op.work)) return transfer(rank, *one);
  if (!is_copy(op)) return std::nullopt;
  const NodeId node = machine_.schedule.ranks[rank.index()].place.node;
  const Seconds latency = machine_.cluster.node(node).pcie.latency;
  const Seconds whole = std::get<Compute>(op.work).duration;
  return Alone{"PCIe", node_name(node), std::min(latency, whole),
               std::max(Seconds(0), whole - latency)};
}

LinkCosts::Alone LinkCosts::collective(const PlannedCollective& planned) const {
  const std::map<Port, double> ports = loads(planned.plan->plan, machine_.cluster);
  if (ports.empty()) return {"none", "", planned.latency, Seconds(0)};
  const auto load = [](const auto& port) { return port.second; };
  const auto busiest = std::ranges::max_element(ports, {}, load);
  std::set<NodeId> nodes;
  for (const auto& [port, seconds] : ports)
    if (port.kind == busiest->first.kind && seconds >= busiest->second * (1 - 1e-9))
      nodes.insert(port.node);
  return {link_name(busiest->first.kind),
          nodes.size() > 1 ? "every node" : node_name(busiest->first.node), planned.latency,
          planned.plan->plan.uncontended(planned.size) - planned.plan->plan.latency};
}

/// Many workers talk to few servers, so that of two like ports the server's is the busy one.
std::optional<LinkCosts::Alone> LinkCosts::transfer(RankId rank, const Transfer& one) const {
  const Schedule& schedule = machine_.schedule;
  const Place& from = schedule.ranks[one.source.value_or(rank).index()].place;
  const Place& to = schedule.ranks[one.target.value_or(rank).index()].place;
  if (from == to) return std::nullopt;
  const PortPair ports = ports_between(machine_.cluster, from, to);
  const BytesPerSecond out = port_bandwidth(machine_.cluster, ports.source);
  const BytesPerSecond in = port_bandwidth(machine_.cluster, ports.target);
  const bool at_source = out == in ? one.source.has_value() : out < in;
  const Port& busy = at_source ? ports.source : ports.target;
  return Alone{link_name(busy.kind), node_name(busy.node), path_latency(machine_.cluster, from, to),
               one.size / std::min(out, in)};
}

}  // namespace rehearse::inline explanation
