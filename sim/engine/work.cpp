// What an operation does between its start and its end: computation, transfers, and collectives as
// flows.
#include <algorithm>

#include "base/error.hpp"
#include "engine/simulation.hpp"
#include "schedule/jitter.hpp"

namespace rehearse {

void Simulation::start_work(RankOp what, std::uint32_t iteration) {
  mark(what, &Span::start);
  const Work& work = op_of(what).work;
  if (const auto* compute = std::get_if<Compute>(&work))
    return start_compute(what, *compute, iteration);
  if (const auto* transfer = std::get_if<Transfer>(&work)) return start_transfer(what, *transfer);
  if (const auto* collective = std::get_if<Collective>(&work)) return arrive(what, *collective);
  over_.push_back(what);
}

void Simulation::start_compute(RankOp what, const Compute& compute, std::uint32_t iteration) {
  double duration = compute.duration.value();
  if (compute.jittered) {
    const bool first = ranks_[what.rank].computed_in != iteration;
    ranks_[what.rank].computed_in = iteration;
    duration *= factors_.of(RankId(what.rank), OpId(what.op), iteration);
    duration *= operation_factor(schedule_, RankId(what.rank), OpId(what.op), iteration);
    const Seconds delay = schedule_.ranks[what.rank].delay;
    if (first && delay > Seconds(0))
      return network_->call_at(network_->now() + delay.value(), {kAwake, what.rank, what.op});
  }
  if (paced(what)) return begin_computing(what, duration);
  network_->call_at(network_->now() + duration, {kComputed, what.rank, what.op});
}

void Simulation::start_transfer(RankOp what, const Transfer& transfer) {
  const Place from = place(transfer.source.value_or(RankId(what.rank)));
  const Place to = place(transfer.target.value_or(RankId(what.rank)));
  begin_communicating(what.rank, transfer_slowdown_);
  // Within one place there is nothing to cross.
  const Token token{from == to || transfer.size.value() <= 0 ? kTransferred : kTransferStart,
                    what.rank, what.op};
  const Seconds latency = from == to ? Seconds(0) : path_latency(cluster_, from, to);
  network_->call_at(network_->now() + latency.value(), token);
}

void Simulation::arrive(RankOp what, const Collective& collective) {
  const std::uint32_t odd = ranks_[what.rank].done[what.op] % 2;
  const std::uint32_t id = collectives_.id(RankId(what.rank), collective, OpId(what.op)) +
                           odd * static_cast<std::uint32_t>(collectives_.size());
  CollectiveState& state = states_[id];
  check(state.arrived < group_of(id).members.size(), "a member is two iterations ahead of another");
  const PlayablePlan& plan = *planned(id).plan;
  if (plan.plan.by_member && state.arrived == 0) prepare_flows(id);
  state.members.push_back(what);
  const bool all = ++state.arrived == group_of(id).members.size();
  if (plan.plan.by_member) {
    const auto& ranks = group_of(id).members;
    const auto member =
        static_cast<std::uint32_t>(std::ranges::find(ranks, RankId(what.rank)) - ranks.begin());
    state.hosts[member].op = what;
    begin_communicating(what.rank, planned(id).compute_slowdown);
    start_collective(id, member);
  }
  if (!all) return;
  for (const RankOp member : state.members) {
    mark(member, &Span::start);
    if (!plan.plan.by_member) begin_communicating(member.rank, planned(id).compute_slowdown);
  }
  begin_lag(id);
  if (!plan.plan.by_member) start_collective(id, 0);
}

/// `member`: where each begins by itself.
void Simulation::start_collective(std::uint32_t collective, std::uint32_t member) {
  if (waits_for_a_core(collective, member)) return;
  network_->call_at(network_->now() + planned(collective).latency.value(),
                    {kCollectiveStart, collective, member});
}

void Simulation::prepare_flows(std::uint32_t collective) {
  const PlayablePlan& plan = *planned(collective).plan;
  CollectiveState& state = states_[collective];
  state.flows_left = static_cast<std::uint32_t>(plan.plan.flows.size());
  if (!plan.plan.after.empty()) state.waits_for = plan.waits_for;
  state.hosts.clear();
  for (const std::uint32_t steps : plan.host_steps)
    state.hosts.push_back({.op = {}, .steps_left = steps});
}

void Simulation::start_flows(std::uint32_t collective, std::uint32_t member) {
  const PlannedCollective& one = planned(collective);
  if (one.plan->plan.by_member) {
    for (const std::uint32_t flow : one.plan->begins[member]) start_flow(collective, flow);
    return;
  }
  prepare_flows(collective);
  const std::uint32_t flows = states_[collective].flows_left;
  if (flows == 0 || one.size.value() <= 0) return end_flows(collective);
  for (std::uint32_t flow = 0; flow < flows; ++flow)
    if (one.plan->waits_for[flow] == 0) start_flow(collective, flow);
}

void Simulation::start_flow(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& one = planned(collective);
  const FlowPlan::Flow& edge = one.plan->plan.flows[flow];
  if (edge.share <= 0 && !edge.readies) return start_host_step(collective, flow);
  if (one.transport) place(collective, flow);
  const double latency = edge.latency.value() * one.latency_scale;
  if (latency <= 0) return send_flow(collective, flow);
  network_->call_at(network_->now() + latency, {kFlowStart, collective, flow});
}

/// Over sockets a port sends in order.
void Simulation::send_flow(std::uint32_t collective, std::uint32_t flow) {
  if (planned(collective).transport) return hand_over(collective, flow);
  move_bytes(collective, flow, 1);
}

/// A flow of a rank, or of a group with that rank.
void Simulation::count_traffic(std::uint32_t rank, PortKind port, double bytes) {
  if (in_background(rank)) return;
  trace_.traffic.bytes[static_cast<std::size_t>(port)] += bytes;
  ++trace_.traffic.flows;
}

void Simulation::move_bytes(std::uint32_t collective, std::uint32_t flow, double part) {
  const PlannedCollective& one = planned(collective);
  const FlowPlan::Flow& edge = one.plan->plan.flows[flow];
  const auto [source, target] = one.plan->ports[flow];
  const Bytes bytes = one.size * (edge.share * part);
  count_traffic(static_cast<std::uint32_t>(group_of(collective).members.front().index()),
                edge.source.kind, bytes.value() * one.plan->stands_for[flow]);
  network_->start_flow(source, target, bytes, {kFlowDone, collective, flow});
}

void Simulation::end_flow(std::uint32_t collective, std::uint32_t flow) {
  if (!arrive_over_socket(collective, flow)) return;
  const PlayablePlan& plan = *planned(collective).plan;
  CollectiveState& state = states_[collective];
  const bool last = --state.flows_left == 0;
  for (std::uint32_t i = plan.next_begin[flow]; i < plan.next_begin[flow + 1]; ++i)
    if (--state.waits_for[plan.next[i]] == 0) start_flow(collective, plan.next[i]);
  const FlowPlan::Flow& step = plan.plan.flows[flow];
  if (plan.plan.by_member && step.of_host()) end_host_step(collective, step.member);
  if (last) end_flows(collective);
}

/// A member of a plan by member is through, unless compute slows the collective down: then all of
/// them catch up together.
void Simulation::end_host_step(std::uint32_t collective, std::uint32_t member) {
  CollectiveState::Host& host = states_[collective].hosts[member];
  if (--host.steps_left > 0 || planned(collective).comm_slowdown != 1) return;
  end_communicating(host.op.rank, planned(collective).compute_slowdown);
  over_.push_back(host.op);
}

void Simulation::end_collective(std::uint32_t collective) {
  CollectiveState& state = states_[collective];
  end_lag(collective);
  state.arrived = 0;
  const bool ended =
      planned(collective).plan->plan.by_member && planned(collective).comm_slowdown == 1;
  for (const RankOp member : state.members) {
    if (ended) break;
    end_communicating(member.rank, planned(collective).compute_slowdown);
    over_.push_back(member);
  }
  state.members.clear();
}

void Simulation::on_token(Token token) {
  // What is left is in the background, or of iterations that nobody asks for.
  if (is_open_ended() ? finished_ : iterations_left_ == 0) return;
  const RankOp what{token.a, token.b};
  switch (token.kind) {
    case kAwake:
      start_work(what, ranks_[what.rank].done[what.op]);
      break;
    case kComputed:
      over_.push_back(what);
      break;
    case kPacedComputed:
      if (cores_[token.a].version() == token.b) end_computing(token.a);
      break;
    case kTransferStart:
      if (takes_turn(what)) send_message(what);
      break;
    case kMessageTurn:
      end_wait(what);
      break;
    case kTransferred:
      end_communicating(token.a, transfer_slowdown_);
      give_up_turn(what);
      over_.push_back(what);
      break;
    case kCoreTurn:
      take_core(token.a);
      break;
    case kCoreFree:
      offer_cores();
      break;
    case kCollectiveStart:
      start_flows(token.a, token.b);
      break;
    case kFlowStart:
      send_flow(token.a, token.b);
      break;
    case kFlowDone:
      end_flow(token.a, token.b);
      break;
    case kLeft:
      leave(token.a, token.b);
      break;
    case kCaughtUp:
      if (states_[token.a].lag.version == token.b) end_collective(token.a);
      break;
    default:
      check(false, "an unknown token");
  }
  drain();
}

}  // namespace rehearse
