// What an operation does between its start and its end: computation, transfers, and collectives as
// flows.
#include <algorithm>
#include <utility>

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

double Simulation::factor(std::uint32_t rank, std::uint32_t iteration) {
  RankState& state = ranks_[rank];
  if (state.factor_iteration != iteration) {
    state.factor = compute_factor(schedule_, RankId(rank), iteration);
    state.factor_iteration = iteration;
  }
  return state.factor;
}

void Simulation::start_compute(RankOp what, const Compute& compute, std::uint32_t iteration) {
  double duration = compute.duration.value();
  if (compute.jittered) duration *= factor(what.rank, iteration);
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

PortPair Simulation::ports_of(RankOp what) const {
  const auto& transfer = std::get<Transfer>(op_of(what).work);
  return ports_between(cluster_, place(transfer.source.value_or(RankId(what.rank))),
                       place(transfer.target.value_or(RankId(what.rank))));
}

void Simulation::send_message(RankOp what) {
  const PortPair ports = ports_of(what);
  const Bytes size = std::get<Transfer>(op_of(what).work).size;
  trace_.traffic.bytes[static_cast<std::size_t>(ports.source.kind)] += size.value();
  ++trace_.traffic.flows;
  network_->start_flow(network_->index_of(ports.source), network_->index_of(ports.target),
                       on_wire(size, ports), {kTransferred, what.rank, what.op});
}

/// Over sockets a message waits until those that pass its ports are over, but those that were sent
/// at the same moment share them, after the first iteration. Equal shares would keep workers in
/// phase that began in phase, for ever; the shares of TCP's connections are never quite equal, so
/// that real workers soon take turns unless a barrier brings them together again.
bool Simulation::take_turn(RankOp what, bool may_share) {
  if (!goes_over_socket(what)) return true;
  const PortPair ports = ports_of(what);
  const double now = network_->now();
  const auto is_free = [&](const std::map<Port, Turn>& turns, const Port& port) {
    const auto turn = turns.find(port);
    return turn == turns.end() || (may_share && turn->second.since == now);
  };
  if (!is_free(sending_, ports.source) || !is_free(receiving_, ports.target)) {
    waiting_messages_.push_back(what);
    return false;
  }
  for (Turn* turn : {&sending_[ports.source], &receiving_[ports.target]}) {
    if (turn->messages++ == 0) turn->since = now;
  }
  return true;
}

void Simulation::give_up_turn(RankOp what) {
  if (!goes_over_socket(what)) return;
  const PortPair ports = ports_of(what);
  if (--sending_.at(ports.source).messages == 0) sending_.erase(ports.source);
  if (--receiving_.at(ports.target).messages == 0) receiving_.erase(ports.target);
  const std::vector<RankOp> waiting = std::move(waiting_messages_);
  waiting_messages_.clear();
  for (const RankOp next : waiting)
    if (take_turn(next, false)) send_message(next);
}

bool Simulation::goes_over_socket(RankOp what) const {
  if (!options_.comm || !options_.comm->transport) return false;
  const auto& transfer = std::get<Transfer>(op_of(what).work);
  const Place from = place(transfer.source.value_or(RankId(what.rank)));
  return transfer.size.value() > 0 &&
         from.node != place(transfer.target.value_or(RankId(what.rank))).node;
}

/// What a message of this size occupies of a link.
Bytes Simulation::on_wire(Bytes size, const PortPair& ports) const {
  const bool measured = options_.comm && options_.comm->transport;
  return measured && ports.source.kind == PortKind::nic
             ? size / options_.comm->transport->efficiency
             : size;
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

/// A back end's thread that wakes for a new collective while all shared cores compute waits for its
/// turn, one time slice of each computation on its core, or until a core is free.
bool Simulation::waits_for_a_core(std::uint32_t collective) {
  const Transport* transport = collectives_.planned(collective).transport;
  if (!transport || !cluster_.shared_cores || transport->slice.value() <= 0) return false;
  const double on_each =
      static_cast<double>(cores_[0].operations()) / static_cast<double>(*cluster_.shared_cores);
  if (on_each < 1) return false;
  waiting_collectives_.push_back(collective);
  network_->call_at(network_->now() + on_each * transport->slice.value(),
                    {kCoreTurn, collective, states_[collective].starts});
  return true;
}

/// Its turn has come; nothing where it did not wait so long.
void Simulation::take_core(std::uint32_t collective, std::uint32_t start) {
  if (states_[collective].starts != start) return;
  ++states_[collective].starts;
  std::erase(waiting_collectives_, collective);
  start_flows(collective);
}

/// Some computation is over, and what came after it has begun.
void Simulation::offer_cores() {
  if (std::cmp_greater_equal(cores_[0].operations(), *cluster_.shared_cores)) return;
  const std::vector<std::uint32_t> waiting = std::move(waiting_collectives_);
  waiting_collectives_.clear();
  for (const std::uint32_t collective : waiting) take_core(collective, states_[collective].starts);
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
  if (edge.share <= 0) return start_host_step(collective, flow);
  const double latency = edge.latency.value() * planned.latency_scale;
  if (latency <= 0) return send_flow(collective, flow);
  network_->call_at(network_->now() + latency, {kFlowStart, collective, flow});
}

/// What the host does between flows, if anything: it shares the cores with compute where they are
/// few.
void Simulation::start_host_step(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& planned = collectives_.planned(collective);
  const FlowPlan::Flow& step = planned.plan->plan.flows[flow];
  const Token over{kFlowDone, collective, flow};
  if (step.wakes) return network_->call_at(network_->now() + planned.transport->wake.value(), over);
  if (step.handled <= 0) return end_flow(collective, flow);
  const Bytes payload = planned.size * planned.transport->efficiency * step.handled;
  const double work = planned.transport->host_work(payload).value();
  if (!cluster_.shared_cores) return network_->call_at(network_->now() + work, over);
  cores_[0].begin({collective, flow, Cores::Task::Kind::handling}, work, 1, network_->now());
  schedule_computed(0);
}

void Simulation::send_flow(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& planned = collectives_.planned(collective);
  const FlowPlan::Flow& edge = planned.plan->plan.flows[flow];
  const auto [source, target] = planned.plan->ports[flow];
  // Over sockets what goes between two ports goes in order: one connection carries all of it.
  const Bytes bytes = bytes_of(planned, flow);
  if (planned.transport) {
    Connection& connection = connections_[planned.plan->ports[flow]];
    if (connection.busy) return connection.waiting.push_back({collective, flow});
    connection.busy = true;
  }
  trace_.traffic.bytes[static_cast<std::size_t>(edge.source.kind)] += bytes.value();
  ++trace_.traffic.flows;
  network_->start_flow(source, target, bytes, {kFlowDone, collective, flow});
}

/// What a flow occupies of its ports.
Bytes Simulation::bytes_of(const PlannedCollective& planned, std::uint32_t flow) const {
  const Bytes bytes = planned.size * planned.plan->plan.flows[flow].share;
  if (!planned.transport || planned.plan->plan.algorithm != CollectiveAlgorithm::direct)
    return bytes;
  const Transport& transport = *planned.transport;
  const Bytes payload = bytes * transport.efficiency;
  return payload < transport.exchange_from ? bytes : payload / transport.exchange_efficiency;
}

/// The connection of a flow that has arrived takes the next one.
void Simulation::free_connection(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& planned = collectives_.planned(collective);
  if (!planned.transport || planned.plan->plan.flows[flow].share <= 0) return;
  Connection& connection = connections_[planned.plan->ports[flow]];
  connection.busy = false;
  if (connection.waiting.empty()) return;
  const auto [next, its_flow] = connection.waiting.front();
  connection.waiting.pop_front();
  send_flow(next, its_flow);
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
