// What an operation does between its start and its end: computation, transfers, and collectives as
// flows.
#include <algorithm>

#include "base/error.hpp"
#include "engine/simulation.hpp"

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

double Simulation::factor(std::uint32_t rank, std::uint32_t step) {
  RankState& state = ranks_[rank];
  if (state.factor_step != step) {
    state.factor = compute_factor(schedule_, RankId(rank), step);
    state.factor_step = step;
  }
  return state.factor;
}

void Simulation::start_compute(RankOp what, const Compute& compute, std::uint32_t iteration) {
  double duration = compute.duration.value();
  if (compute.jittered) {
    const RankState& rank = ranks_[what.rank];
    const std::uint32_t steps = rank.index->program->steps;
    const bool first = rank.factor_step / steps != iteration;
    duration *= factor(what.rank, iteration * steps + compute.step);
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
  const std::uint32_t id = collectives_.id(RankId(what.rank), collective, OpId(what.op));
  CollectiveState& state = states_[id];
  state.members.push_back(what);
  if (++state.arrived < schedule_.groups[collectives_.group(id).index()].members.size()) return;
  for (const RankOp member : state.members) {
    mark(member, &Span::start);
    begin_communicating(member.rank, collectives_.planned(id).compute_slowdown);
  }
  begin_lag(id);
  if (waits_for_a_core(id)) return;
  network_->call_at(network_->now() + collectives_.planned(id).latency.value(),
                    {kCollectiveStart, id, 0});
}

void Simulation::start_flows(std::uint32_t collective) {
  const PlannedCollective& planned = collectives_.planned(collective);
  CollectiveState& state = states_[collective];
  const auto flows = static_cast<std::uint32_t>(planned.plan->plan.flows.size());
  state.flows_left = flows;
  if (flows == 0 || planned.size.value() <= 0) return end_flows(collective);
  if (!planned.plan->plan.after.empty()) state.waits_for = planned.plan->waits_for;
  for (std::uint32_t flow = 0; flow < flows; ++flow)
    if (planned.plan->waits_for[flow] == 0) start_flow(collective, flow);
}

void Simulation::start_flow(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& planned = collectives_.planned(collective);
  const FlowPlan::Flow& edge = planned.plan->plan.flows[flow];
  if (edge.share <= 0 && !edge.readies) return start_host_step(collective, flow);
  const double latency = edge.latency.value() * planned.latency_scale;
  if (latency <= 0) return send_flow(collective, flow);
  network_->call_at(network_->now() + latency, {kFlowStart, collective, flow});
}

void Simulation::send_flow(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& planned = collectives_.planned(collective);
  const FlowPlan::Flow& edge = planned.plan->plan.flows[flow];
  const auto [source, target] = planned.plan->ports[flow];
  // Over sockets what goes between two ports goes in order: one connection carries all of it.
  const Bytes bytes = planned.size * edge.share;
  if (planned.transport) {
    Connection& connection = connections_[planned.plan->ports[flow]];
    if (connection.busy) return connection.waiting.push_back({collective, flow});
    if (edge.readies) return end_flow(collective, flow);
    connection.busy = true;
  }
  trace_.traffic.bytes[static_cast<std::size_t>(edge.source.kind)] +=
      bytes.value() * planned.plan->stands_for[flow];
  ++trace_.traffic.flows;
  network_->start_flow(source, target, bytes, {kFlowDone, collective, flow});
}

void Simulation::end_flow(std::uint32_t collective, std::uint32_t flow) {
  free_connection(collective, flow);
  const PlayablePlan& plan = *collectives_.planned(collective).plan;
  CollectiveState& state = states_[collective];
  const bool last = --state.flows_left == 0;
  for (std::uint32_t i = plan.next_begin[flow]; i < plan.next_begin[flow + 1]; ++i)
    if (--state.waits_for[plan.next[i]] == 0) start_flow(collective, plan.next[i]);
  if (last) end_flows(collective);
}

void Simulation::end_collective(std::uint32_t collective) {
  CollectiveState& state = states_[collective];
  end_lag(collective);
  state.arrived = 0;
  for (const RankOp member : state.members) {
    end_communicating(member.rank, collectives_.planned(collective).compute_slowdown);
    over_.push_back(member);
  }
  state.members.clear();
}

void Simulation::on_token(Token token) {
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
      if (take_turn(what, ranks_[what.rank].done[what.op] > 0)) send_message(what);
      break;
    case kTransferred:
      end_communicating(token.a, transfer_slowdown_);
      give_up_turn(what);
      over_.push_back(what);
      break;
    case kCoreTurn:
      take_core(token.a, token.b);
      break;
    case kCoreFree:
      offer_cores();
      break;
    case kCollectiveStart:
      start_flows(token.a);
      break;
    case kFlowStart:
      send_flow(token.a, token.b);
      break;
    case kFlowDone:
      end_flow(token.a, token.b);
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
