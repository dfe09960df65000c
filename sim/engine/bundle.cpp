#include "engine/bundle.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace rehearse::inline engine {
namespace {

/// Beyond these the flows are SimGrid's.
constexpr std::size_t kMostStages = 8, kMostFlows = 1 << 14;
/// Rates and shares that differ by less are one.
constexpr double kAlike = 1 + 1e-12;

/// A port's direction.
using Direction = std::pair<std::uint32_t, bool>;

/// Max-min fair rates by progressive filling: of all links the one with the least share for a flow
/// fixes the rates of its flows, and so on (Bertsekas and Gallager, Data Networks, 6.5.2).
class FairRates {
 public:
  FairRates(const Bundle& bundle, const std::vector<Port>& ports, const Cluster& cluster) {
    std::map<Direction, std::uint32_t> numbers;
    const auto number = [&](Direction link) {
      const auto [at, fresh] =
          numbers.try_emplace(link, static_cast<std::uint32_t>(capacities_.size()));
      if (fresh) capacities_.push_back(port_bandwidth(cluster, ports[link.first]).value());
      return at->second;
    };
    for (const auto& [source, target] : bundle.flows) {
      const std::uint32_t out = number({source, false});
      links_.emplace_back(out, number({target, true}));
    }
  }

  /// Of the flows that have something left; 0 of the others.
  std::vector<double> of(const std::vector<double>& left) const {
    std::vector<double> rates(left.size(), 0), capacities = capacities_;
    std::vector<double> flows(capacities.size(), 0);
    std::vector<std::size_t> open;
    for (std::size_t flow = 0; flow < left.size(); ++flow)
      if (left[flow] > 0) open.push_back(flow);
    for (const std::size_t flow : open) count(flow, 1, flows);
    while (!open.empty()) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t link = 0; link < flows.size(); ++link)
        if (flows[link] > 0) least = std::min(least, capacities[link] / flows[link]);
      std::vector<bool> full(flows.size());
      for (std::size_t link = 0; link < flows.size(); ++link)
        full[link] = flows[link] > 0 && capacities[link] / flows[link] <= least * kAlike;
      std::vector<std::size_t> later;
      for (const std::size_t flow : open) {
        const auto [out, in] = links_[flow];
        if (!full[out] && !full[in]) {
          later.push_back(flow);
          continue;
        }
        rates[flow] = least;
        count(flow, -1, flows);
        capacities[out] -= least;
        capacities[in] -= least;
      }
      open = std::move(later);
    }
    return rates;
  }

 private:
  void count(std::size_t flow, double more, std::vector<double>& flows) const {
    const auto [out, in] = links_[flow];
    flows[out] += more;
    flows[in] += more;
  }

  std::vector<double> capacities_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> links_;  ///< by flow
};

/// Whether flows share their ports and nothing else: no cables, no memory of hosts, no buckets.
bool shares_ports_alone(const FlowPlan& plan, const Cluster& cluster) {
  const auto shares_more = [&](const Port& port) {
    const Node& node = cluster.node(port.node);
    if (port.kind == PortKind::nic)
      return node.nic_burst > Bytes(0) || !std::holds_alternative<Star>(cluster.fabric);
    return port.kind != PortKind::nvlink && !node.pcie.peer_to_peer;
  };
  return std::ranges::none_of(plan.flows, [&](const FlowPlan::Flow& flow) {
    return shares_more(flow.source) || shares_more(flow.target);
  });
}

}  // namespace

double Bundle::left(std::size_t flow, double since) const {
  double begin = 0, before = shares[flow];
  for (const Stage& stage : stages) {
    const double then = stage.left[flow];
    if (since < stage.end) return before + (then - before) * (since - begin) / (stage.end - begin);
    begin = stage.end;
    before = then;
  }
  return 0;
}

std::optional<Bundle> bundle_of(const FlowPlan& plan,
                                std::span<const std::pair<std::uint32_t, std::uint32_t>> flows,
                                const std::vector<Port>& ports, const Cluster& cluster) {
  const auto loops = [](const auto& flow) { return flow.first == flow.second; };
  if (plan.flows.empty() || plan.flows.size() > kMostFlows || !plan.begins_at_once() ||
      std::ranges::any_of(flows, loops) || !shares_ports_alone(plan, cluster))
    return std::nullopt;
  Bundle bundle;
  bundle.flows.assign(flows.begin(), flows.end());
  std::set<std::uint32_t> outs, ins;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    bundle.shares.push_back(plan.flows[i].share);
    outs.insert(flows[i].first);
    ins.insert(flows[i].second);
  }
  bundle.outs.assign(outs.begin(), outs.end());
  bundle.ins.assign(ins.begin(), ins.end());
  const FairRates rates(bundle, ports, cluster);
  std::vector<double> left = bundle.shares;
  for (double now = 0; std::ranges::any_of(left, [](double share) { return share > 0; });) {
    if (bundle.stages.size() == kMostStages) return std::nullopt;
    const std::vector<double> rate = rates.of(left);
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < left.size(); ++i)
      if (left[i] > 0) step = std::min(step, left[i] / rate[i]);
    for (std::size_t i = 0; i < left.size(); ++i)
      left[i] = left[i] <= step * rate[i] * kAlike ? 0 : left[i] - step * rate[i];
    bundle.stages.push_back({now += step, left});
  }
  return bundle;
}

bool PortUses::is_idle(const Bundle& bundle) const {
  const auto idle = [](const std::vector<Use>& uses) {
    return [&uses](std::uint32_t port) { return uses[port].flows == 0 && !uses[port].holder; };
  };
  return std::ranges::all_of(bundle.outs, idle(out_)) && std::ranges::all_of(bundle.ins, idle(in_));
}

void PortUses::hold(const Bundle& bundle, Holder holder) {
  for (const std::uint32_t port : bundle.outs) out_[port].holder = holder;
  for (const std::uint32_t port : bundle.ins) in_[port].holder = holder;
}

void PortUses::release(const Bundle& bundle) {
  for (const std::uint32_t port : bundle.outs) out_[port].holder.reset();
  for (const std::uint32_t port : bundle.ins) in_[port].holder.reset();
}

std::optional<PortUses::Holder> PortUses::in_the_way(std::uint32_t source,
                                                     std::uint32_t target) const {
  return out_[source].holder ? out_[source].holder : in_[target].holder;
}

void PortUses::begin(std::uint32_t source, std::uint32_t target) {
  ++out_[source].flows;
  ++in_[target].flows;
}

void PortUses::end(std::uint32_t source, std::uint32_t target) {
  --out_[source].flows;
  --in_[target].flows;
}

}  // namespace rehearse::inline engine
