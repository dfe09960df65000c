#include "engine/plans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/like_flows.hpp"

namespace rehearse::inline engine {

namespace {

void index_members(PlayablePlan& plan) {
  const auto& steps = plan.plan.steps;
  const auto last = std::ranges::max(steps, {}, &FlowPlan::HostStep::member);
  plan.begins.resize(last.member + 1);
  plan.host_steps.assign(last.member + 1, 0);
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    if (plan.waits_for[i] == 0) plan.begins[steps[i].member].push_back(i);
    if (steps[i].of_host()) ++plan.host_steps[steps[i].member];
  }
}

PlayablePlan playable(FlowPlan plan) {
  PlayablePlan result{.plan = std::move(plan),
                      .waits_for = {},
                      .next_begin = {},
                      .next = {},
                      .ports = {},
                      .stands_for = {},
                      .begins = {},
                      .host_steps = {}};
  const auto& flows = result.plan.flows;
  result.stands_for.assign(flows.size(), 1);
  result.waits_for.resize(flows.size());
  result.next_begin.assign(flows.size() + 1, 0);
  for (const std::uint32_t before : result.plan.after) ++result.next_begin[before + 1];
  for (std::size_t i = 0; i < flows.size(); ++i) result.next_begin[i + 1] += result.next_begin[i];
  result.next.resize(result.plan.after.size());
  std::vector<std::uint32_t> fill(result.next_begin.begin(), result.next_begin.end());
  for (std::uint32_t i = 0; i < flows.size(); ++i) {
    result.waits_for[i] = flows[i].after_end - flows[i].after_begin;
    for (std::uint32_t k = flows[i].after_begin; k < flows[i].after_end; ++k)
      result.next[fill[result.plan.after[k]]++] = i;
  }
  if (result.plan.by_member) index_members(result);
  return result;
}

/// So many times the bytes cross links inside nodes.
void carry_inside(FlowPlan& plan, double times) {
  for (FlowPlan::Flow& flow : plan.flows)
    if (flow.source.node == flow.target.node) flow.share *= times;
  plan.loads.inside *= times;
  plan.seconds_per_byte = std::max(plan.loads.inside, plan.loads.between);
}

/// Rounded, so that like ratios are one plan's.
double inside_over_between(const CollectiveCost& cost) {
  if (cost.between_scale <= 0) return 1;
  return std::round(cost.inside_scale / cost.between_scale * 0x1p40) * 0x1p-40;
}

}  // namespace

Plans::Plans(const Schedule& schedule, const Cluster& cluster, const Cluster& as_built,
             const Machine& machine, std::vector<CollectiveAnswer>* answers)
    : schedule_(schedule),
      cluster_(cluster),
      machine_(machine),
      answers_(answers),
      costs_(machine.comm ? &*machine.comm : nullptr, as_built, schedule.ranks,
             machine.links_slowed) {}

PlayablePlan& Plans::plan(const Key& key) {
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  FlowPlan made = plan_collective(key.kind, key.algorithm, schedule_.groups[key.group],
                                  schedule_.ranks, cluster_, key.fidelity, key.segments);
  if (key.inside != 1) carry_inside(made, key.inside);
  PlayablePlan& kept = plans_.emplace(key, playable(std::move(made))).first->second;
  number_ports(kept);
  return kept;
}

const PlayablePlan& Plans::played_plan(const Key& key) {
  PlayablePlan& played = plan(key);
  played.played = true;
  return played;
}

void Plans::number_ports(PlayablePlan& plan) {
  plan.ports.clear();
  for (std::size_t i = 0; i < plan.plan.flows.size(); ++i) {
    const FlowPlan::Flow& flow = plan.plan.flows[i];
    plan.ports.emplace_back(flow.share > 0 || plan.plan.step(i).readies
                                ? std::pair(number_of(flow.source), number_of(flow.target))
                                : std::pair(0U, 0U));
  }
}

void Plans::merge_flows() {
  std::vector<PlayablePlan*> played;
  for (auto& [key, plan] : plans_)
    if (plan.played) played.push_back(&plan);
  merge_like_flows(played, ports_, cluster_);
  numbers_.clear();
  ports_.clear();
  for (PlayablePlan* plan : played) number_ports(*plan);
}

void Plans::bundle_flows() {
  if (machine_.comm && machine_.comm->transport) return;
  for (auto& [key, plan] : plans_)
    if (plan.played) plan.bundle = bundle_of(plan.plan, plan.ports, ports_, cluster_);
}

std::vector<Port> Plans::loops() const {
  std::vector<bool> loops(ports_.size(), false), others(ports_.size(), false);
  for (const auto& [key, plan] : plans_) {
    if (!plan.played) continue;
    for (std::size_t flow = 0; flow < plan.ports.size(); ++flow) {
      if (plan.plan.flows[flow].share <= 0) continue;
      const auto [source, target] = plan.ports[flow];
      (source == target ? loops : others)[source] = true;
      if (source != target) others[target] = true;
    }
  }
  std::vector<Port> found;
  for (std::size_t port = 0; port < ports_.size(); ++port)
    if (loops[port] && !others[port]) found.push_back(ports_[port]);
  return found;
}

std::uint32_t Plans::number_of(const Port& port) {
  const auto [found, is_new] = numbers_.emplace(port, static_cast<std::uint32_t>(ports_.size()));
  if (is_new) ports_.push_back(port);
  return found->second;
}

CollectiveCost Plans::cost_of(const Collective& collective, GroupId group, const FlowPlan& flow) {
  const LinkCost links{flow.latency / machine_.links_slowed,
                       flow.seconds_per_byte / machine_.links_slowed};
  return costs_.cost(collective.kind, collective.size, schedule_.groups[group.index()], flow,
                     links);
}

CollectiveAlgorithm Plans::choose(const Collective& collective, GroupId group) {
  if (collective.algorithm != CollectiveAlgorithm::automatic) return collective.algorithm;
  const Group& members = schedule_.groups[group.index()];
  if (members.ranks < 2) return CollectiveAlgorithm::ring;  // without flows
  std::vector<CollectiveAlgorithm> all = costs_.choices(collective.kind, collective.size, members);
  const bool by_nccl = !all.empty();
  if (!by_nccl) all = automatic_candidates(collective.kind, members);
  // A star has no cables that NCCL's choice does not know.
  if (all.size() == 1 || (by_nccl && std::holds_alternative<Star>(cluster_.fabric)))
    return all.front();
  CollectiveAlgorithm best = all.front();
  Seconds least(std::numeric_limits<double>::infinity());
  for (const auto candidate : all) {
    const FlowPlan& flow = plan({collective.kind, candidate, group.index(), Fidelity::flow}).plan;
    const CollectiveCost cost = cost_of(collective, group, flow);
    if (cost.total() < least) least = cost.total(), best = candidate;
  }
  return best;
}

void Plans::add_overlap(const Collective& collective, double by_channels,
                        PlannedCollective& planned) const {
  if (schedule_.overlap_slowdown) {
    planned.compute_slowdown = *schedule_.overlap_slowdown;
    return;
  }
  if (schedule_.channels_slow_compute) {
    planned.compute_slowdown = by_channels;
    return;
  }
  if (!machine_.comm || collective.size.value() <= 0) return;
  const auto measured = machine_.comm->overlap_of(collective.kind, collective.size);
  if (!measured) return;
  planned.compute_slowdown = measured->compute_slowdown;
  planned.comm_slowdown = std::max(1.0, measured->comm_slowdown);
}

void Plans::add_kernel(const Collective& collective, GroupId group, double by_channels,
                       PlannedCollective& planned) {
  if (!collective.multiprocessors) return;
  const double slowdown =
      *collective.multiprocessors == 0
          ? by_channels
          : costs_.slowdown_beside(schedule_.groups[group.index()], *collective.multiprocessors);
  planned.compute_slowdown = std::max(planned.compute_slowdown, slowdown);
}

PlannedCollective Plans::planned_by_transport(const Collective& collective, GroupId group) {
  const Transport& transport = *machine_.comm->transport;
  CollectiveAlgorithm algorithm = collective.algorithm;
  // A reduce_scatter over sockets is an exchange of all parts, added up by their owners.
  if (algorithm == CollectiveAlgorithm::automatic) {
    algorithm = collective.kind == CollectiveKind::reduce_scatter ? CollectiveAlgorithm::direct
                                                                  : CollectiveAlgorithm::ring;
  }
  const double ranks = static_cast<double>(schedule_.groups[group.index()].ranks);
  const int segments = collective.kind == CollectiveKind::all_gather
                           ? transport.segments
                           : transport.segments_of(collective.size / ranks);
  const PlayablePlan& played =
      played_plan({collective.kind, algorithm, group.index(), machine_.fidelity, segments});
  PlannedCollective result{.plan = &played,
                           .size = collective.size / transport.efficiency,
                           .latency = played.plan.latency,
                           .transport = &transport};
  note(collective, group, played.plan,
       {.latency = result.latency,
        .transfer = Seconds(result.size.value() * played.plan.seconds_per_byte),
        .basis = CostBasis::curve});
  add_overlap(collective, 1, result);
  if (machine_.fidelity == Fidelity::hop || played.plan.algorithm != CollectiveAlgorithm::ring)
    return result;
  // The wire covers every step's host but the first's.
  const Bytes segment = collective.size / ranks / segments;
  result.latency += transport.wake + transport.host_work(segment);
  return result;
}

PlannedCollective Plans::planned(const Collective& collective, GroupId group) {
  const Asked asked{group, collective.kind, collective.algorithm, collective.size.value(),
                    collective.multiprocessors};
  const auto known = known_.find(asked);
  if (known != known_.end()) {
    if (known->second.answer) answers_->push_back(*known->second.answer);
    return known->second.planned;
  }
  const std::size_t noted = answers_ ? answers_->size() : 0;
  Known& anew = known_.emplace(asked, Known{plan_anew(collective, group), {}}).first->second;
  if (answers_ && answers_->size() > noted) anew.answer = answers_->back();
  return anew.planned;
}

PlannedCollective Plans::plan_anew(const Collective& collective, GroupId group) {
  const Group& members = schedule_.groups[group.index()];
  if (machine_.comm && collective.size.value() > 0 &&
      machine_.comm->travels(members.ranks, members.nodes))
    return planned_by_transport(collective, group);
  const CollectiveAlgorithm algorithm = choose(collective, group);
  const FlowPlan& flow = plan({collective.kind, algorithm, group.index(), Fidelity::flow}).plan;
  const bool moves = !flow.flows.empty() && collective.size.value() > 0;
  CollectiveCost cost = moves ? cost_of(collective, group, flow) : CollectiveCost{};
  const PlayablePlan& played = played_plan(
      {collective.kind, algorithm, group.index(), machine_.fidelity, 0, inside_over_between(cost)});
  PlannedCollective result{
      .plan = &played, .size = collective.size, .latency = played.plan.latency};
  if (!moves) {
    add_overlap(collective, 1, result);
    return result;
  }
  add_overlap(collective, cost.compute_slowdown, result);
  add_kernel(collective, group, cost.compute_slowdown, result);
  note(collective, group, flow, cost);
  const double shifted = std::exp(machine_.shift * cost.uncertainty);
  cost.latency *= shifted;
  result.size = collective.size * (cost.between_scale * shifted);
  if (machine_.fidelity == Fidelity::flow || flow.latency.value() <= 0)
    result.latency = cost.latency;
  else
    result.latency_scale = cost.latency / flow.latency;
  return result;
}

void Plans::note(const Collective& collective, GroupId group, const FlowPlan& plan,
                 const CollectiveCost& cost) const {
  if (!answers_) return;
  const Group& members = schedule_.groups[group.index()];
  answers_->push_back({.kind = collective.kind,
                       .size = collective.size,
                       .group = group,
                       .ranks = static_cast<int>(members.ranks),
                       .nodes = static_cast<int>(members.nodes),
                       .played = plan.algorithm,
                       .cost = cost});
}

}  // namespace rehearse::inline engine
