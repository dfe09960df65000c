#include "engine/collectives.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline engine {

Collectives::Collectives(Shared& shared, Pace& pace)
    : shared_(shared), pace_(pace), states_(2 * shared.collectives.size()) {
  if (shared.transport) sockets_.emplace(shared, pace, static_cast<Carried&>(*this));
}

void Collectives::arrive(RankOp what, const Collective& collective, std::uint32_t iteration) {
  const std::uint32_t id = shared_.repeats.id(what, collective, iteration);
  State& state = states_[id];
  const std::size_t members = shared_.group_of(id).members.size();
  check(state.arrived < members, "a member is two iterations ahead of another");
  if (by_member(id) && state.arrived == 0) prepare_flows(id);
  state.members.push_back(what);
  if (RankId(what.rank) == shared_.group_of(id).members.front())
    state.stands_for = shared_.repeats.stands_for(what, iteration);
  const bool all = ++state.arrived == members;
  state.turn = collective.turn;
  if (state.turn) return all ? wait_for_turn(id) : void();
  if (by_member(id)) begin_member(id, what);
  if (all) begin_all(id);
}

void Collectives::wait_for_turn(std::uint32_t collective) {
  Turns& turns = turns_[&shared_.group_of(collective)];
  turns.waiting.push_back(collective);
  take_turn(turns);
}

void Collectives::take_turn(Turns& turns) {
  if (turns.busy || turns.waiting.empty()) return;
  const auto next = std::ranges::min_element(
      turns.waiting, {}, [this](std::uint32_t waiting) { return *states_[waiting].turn; });
  const std::uint32_t collective = *next;
  turns.waiting.erase(next);
  turns.busy = true;
  if (by_member(collective))
    for (const RankOp member : states_[collective].members) begin_member(collective, member);
  begin_all(collective);
}

void Collectives::begin_member(std::uint32_t collective, RankOp what) {
  const auto& ranks = shared_.group_of(collective).members;
  const auto member =
      static_cast<std::uint32_t>(std::ranges::find(ranks, RankId(what.rank)) - ranks.begin());
  states_[collective].hosts[member].op = what;
  pace_.begin_communicating(what.rank, shared_.planned(collective).compute_slowdown);
  start(collective, member);
}

void Collectives::begin_all(std::uint32_t collective) {
  const State& state = states_[collective];
  for (const RankOp member : state.members) {
    shared_.recorder.mark(member, &Span::start, shared_.network.now());
    if (!by_member(collective))
      pace_.begin_communicating(member.rank, shared_.planned(collective).compute_slowdown);
  }
  pace_.begin_lag(collective, state.members);
  if (!by_member(collective)) start(collective, 0);
}

/// `member`: where each begins by itself.
void Collectives::start(std::uint32_t collective, std::uint32_t member) {
  if (sockets_ && sockets_->delays(collective, member)) return;
  shared_.call_in(shared_.planned(collective).latency.value(),
                  {kCollectiveStart, collective, member});
}

void Collectives::prepare_flows(std::uint32_t collective) {
  const PlayablePlan& plan = *shared_.planned(collective).plan;
  State& state = states_[collective];
  state.flows_left = static_cast<std::uint32_t>(plan.plan.flows.size());
  if (!plan.plan.after.empty()) state.waits_for = plan.waits_for;
  state.hosts.clear();
  for (const std::uint32_t steps : plan.host_steps)
    state.hosts.push_back({.op = {}, .steps_left = steps});
}

void Collectives::start_flows(std::uint32_t collective, std::uint32_t member) {
  const PlannedCollective& one = shared_.planned(collective);
  if (one.plan->plan.by_member) {
    for (const std::uint32_t flow : one.plan->begins[member]) start_flow(collective, flow);
    return;
  }
  prepare_flows(collective);
  const std::uint32_t flows = states_[collective].flows_left;
  if (flows == 0 || one.size.value() <= 0) return end_flows(collective);
  const auto& bundle = one.plan->bundle;
  if (bundle && shared_.network.start_bundle(*bundle, one.size, {kFlowsDone, collective, 0},
                                             {kFlowDone, collective, 0})) {
    for (std::uint32_t flow = 0; flow < flows; ++flow)
      count(collective, flow, one.size * one.plan->plan.flows[flow].share);
    return;
  }
  for (std::uint32_t flow = 0; flow < flows; ++flow)
    if (one.plan->waits_for[flow] == 0) start_flow(collective, flow);
}

void Collectives::start_flow(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& one = shared_.planned(collective);
  const FlowPlan::Flow& edge = one.plan->plan.flows[flow];
  if (edge.share <= 0 && !one.plan->plan.step(flow).readies)
    return one.transport ? sockets_->do_step(collective, flow) : end_flow(collective, flow);
  if (one.transport) sockets_->place(collective, flow);
  const double latency = edge.latency.value() * one.latency_scale;
  if (latency <= 0) return send(collective, flow);
  shared_.call_in(latency, {kFlowStart, collective, flow});
}

void Collectives::send(std::uint32_t collective, std::uint32_t flow) {
  if (shared_.planned(collective).transport) return sockets_->hand_over(collective, flow);
  move(collective, flow, 1);
}

void Collectives::move(std::uint32_t collective, std::uint32_t flow, double part) {
  const PlannedCollective& one = shared_.planned(collective);
  const FlowPlan::Flow& edge = one.plan->plan.flows[flow];
  const auto [source, target] = one.plan->ports[flow];
  const Bytes bytes = one.size * (edge.share * part);
  count(collective, flow, bytes);
  shared_.network.start_flow(source, target, bytes, {kFlowDone, collective, flow});
}

void Collectives::count(std::uint32_t collective, std::uint32_t flow, Bytes bytes) {
  const PlayablePlan& plan = *shared_.planned(collective).plan;
  const auto first = shared_.group_of(collective).members.front();
  shared_.recorder.count(static_cast<std::uint32_t>(first.index()),
                         plan.plan.flows[flow].source.kind, bytes.value() * plan.stands_for[flow],
                         states_[collective].stands_for);
}

void Collectives::end_flow(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& one = shared_.planned(collective);
  if (one.transport && !sockets_->arrive(collective, flow)) return;
  const PlayablePlan& plan = *one.plan;
  State& state = states_[collective];
  const bool last = --state.flows_left == 0;
  for (std::uint32_t i = plan.next_begin[flow]; i < plan.next_begin[flow + 1]; ++i)
    if (--state.waits_for[plan.next[i]] == 0) start_flow(collective, plan.next[i]);
  const FlowPlan::HostStep& step = plan.plan.step(flow);
  if (plan.plan.by_member && step.of_host()) end_host_step(collective, step.member);
  if (last) end_flows(collective);
}

/// A member of a plan by member is through, unless compute slows the collective down: then all of
/// them catch up together.
void Collectives::end_host_step(std::uint32_t collective, std::uint32_t member) {
  State::Host& host = states_[collective].hosts[member];
  if (--host.steps_left == 0 && shared_.planned(collective).comm_slowdown == 1)
    end_member(collective, host.op);
}

void Collectives::end_flows(std::uint32_t collective) {
  if (!pace_.lags(collective)) end(collective);
}

void Collectives::end(std::uint32_t collective) {
  State& state = states_[collective];
  pace_.end_lag(collective, state.members);
  state.arrived = 0;
  const bool ended = by_member(collective) && shared_.planned(collective).comm_slowdown == 1;
  if (!ended)
    for (const RankOp member : state.members) end_member(collective, member);
  state.members.clear();
  if (!state.turn) return;
  Turns& turns = turns_.at(&shared_.group_of(collective));
  turns.busy = false;
  take_turn(turns);
}

void Collectives::end_member(std::uint32_t collective, RankOp member) {
  pace_.end_communicating(member.rank, shared_.planned(collective).compute_slowdown);
  shared_.over.push_back(member);
}

}  // namespace rehearse::inline engine
