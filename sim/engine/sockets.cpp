// Collectives and messages over sockets (CommProfile::transport): what hosts do between the flows,
// ports that send in order, turns of messages, and threads that wait for a core.
#include <algorithm>
#include <utility>

#include "base/random.hpp"
#include "engine/simulation.hpp"

namespace rehearse {

PortPair Simulation::ports_of(RankOp what) const {
  const auto& transfer = std::get<Transfer>(op_of(what).work);
  return ports_between(cluster_, place(transfer.source.value_or(RankId(what.rank))),
                       place(transfer.target.value_or(RankId(what.rank))));
}

void Simulation::send_message(RankOp what) {
  const PortPair ports = ports_of(what);
  const Bytes size = std::get<Transfer>(op_of(what).work).size;
  count_traffic(what.rank, ports.source.kind, size.value());
  network_->start_flow(network_->index_of(ports.source), network_->index_of(ports.target),
                       on_wire(size, ports), {kTransferred, what.rank, what.op});
}

/// Over sockets messages share the ports that they pass, but one that comes to a sending port where
/// others are under way waits until these have their head start (Cluster::head_start): what they
/// have queued there leaves before it, and their windows are open while its own has to grow. Each
/// time it is as long as chance has it, and longer over connections that have sent nothing yet, so
/// that workers which began in phase come to take turns. Messages that begin at the same moment
/// over used connections are alike and wait for nothing. Messages that come to a port share it,
/// whenever each began: every sender fills it from a queue of its own.
bool Simulation::takes_turn(RankOp what) {
  if (!goes_over_socket(what)) return true;
  Turn& turn = sending_[ports_of(what).source];
  const std::size_t others = turn.messages + turn.waiting.size();
  const bool fresh = ranks_[what.rank].done[what.op] == 0;
  if (others == 0) turn.since = network_->now();
  if (others > 0 && (fresh || turn.since < network_->now())) {
    turn.waiting.push_back(what);
    const Seconds wait = head_start(what, fresh) * static_cast<double>(others);
    network_->call_at(network_->now() + wait.value(), {kMessageTurn, what.rank, what.op});
    return false;
  }
  ++turn.messages;
  return true;
}

Seconds Simulation::head_start(RankOp what, bool fresh) const {
  // Where one of two messages of 1 to 2 MiB begins before the other it gets 0.1 of one ahead
  // (tests/validation/head_start.py); of two that began at once over new connections, at 200 Mbit/s
  // on one machine, one got 0.2 to 0.4. The factor was settled while recorded runs of asynchronous
  // workers were looked at.
  constexpr double kFresh = 2.5;
  RandomStream draw = random_stream(random_stream(schedule_.seed, "head start", what.op)(),
                                    "head start", what.rank, ranks_[what.rank].done[what.op]);
  const double mean = cluster_.head_start * (fresh ? kFresh : 1);
  const PortPair ports = ports_of(what);
  return on_wire(std::get<Transfer>(op_of(what).work).size, ports) * (2 * mean * uniform01(draw)) /
         port_bandwidth(cluster_, ports.source);
}

/// The others have their head start.
void Simulation::end_wait(RankOp what) {
  Turn& turn = sending_.at(ports_of(what).source);
  const auto own = std::ranges::find_if(turn.waiting, [what](const RankOp& waiting) {
    return waiting.rank == what.rank && waiting.op == what.op;
  });
  if (own == turn.waiting.end()) return;
  turn.waiting.erase(own);
  ++turn.messages;
  send_message(what);
}

void Simulation::give_up_turn(RankOp what) {
  if (!goes_over_socket(what)) return;
  Turn& turn = sending_.at(ports_of(what).source);
  if (--turn.messages == 0 && !turn.waiting.empty()) end_wait(turn.waiting.front());
}

bool Simulation::goes_over_socket(RankOp what) const {
  if (!comm_ || !comm_->transport) return false;
  const auto& transfer = std::get<Transfer>(op_of(what).work);
  const Place from = place(transfer.source.value_or(RankId(what.rank)));
  return transfer.size.value() > 0 &&
         from.node != place(transfer.target.value_or(RankId(what.rank))).node;
}

/// What a message of this size occupies of a link.
Bytes Simulation::on_wire(Bytes size, const PortPair& ports) const {
  const bool measured = comm_ && comm_->transport;
  return measured && ports.source.kind == PortKind::nic
             ? size / comm_->transport->efficiency
             : size;
}

/// A back end's thread that wakes for a new collective while all shared cores compute waits for its
/// turn, one time slice of each computation on its core, or until a core is free.
bool Simulation::waits_for_a_core(std::uint32_t collective, std::uint32_t member) {
  const Transport* transport = planned(collective).transport;
  if (!transport || !cluster_.shared_cores || transport->slice.value() <= 0) return false;
  const double on_each =
      static_cast<double>(cores_[0].operations()) / static_cast<double>(*cluster_.shared_cores);
  if (on_each < 1) return false;
  waiting_starts_.emplace(++turns_, Start{collective, member});
  network_->call_at(network_->now() + on_each * transport->slice.value(), {kCoreTurn, turns_, 0});
  return true;
}

/// Its turn has come; nothing where it did not wait so long.
void Simulation::take_core(std::uint32_t turn) {
  const auto waiting = waiting_starts_.find(turn);
  if (waiting == waiting_starts_.end()) return;
  const auto [collective, member] = waiting->second;
  waiting_starts_.erase(waiting);
  network_->call_at(network_->now() + planned(collective).latency.value(),
                    {kCollectiveStart, collective, member});
}

/// Some computation is over, and what came after it has begun.
void Simulation::offer_cores() {
  if (std::cmp_greater_equal(cores_[0].operations(), *cluster_.shared_cores)) return;
  while (!waiting_starts_.empty()) take_core(waiting_starts_.begin()->first);
}

/// What the host does between flows, if anything: it shares the cores with compute where they are
/// few.
void Simulation::start_host_step(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& one = planned(collective);
  const FlowPlan::Flow& step = one.plan->plan.flows[flow];
  const Token over{kFlowDone, collective, flow};
  if (step.wakes) return network_->call_at(network_->now() + one.transport->wake.value(), over);
  if (step.handled <= 0) {
    place_flows(collective, step);
    return end_flow(collective, flow);
  }
  const Bytes payload = one.size * one.transport->efficiency * step.handled;
  const double work = one.transport->host_work(payload).value();
  if (!cluster_.shared_cores) return network_->call_at(network_->now() + work, over);
  cores_[0].begin({collective, flow, Cores::Task::Kind::handling}, work, 1, network_->now());
  schedule_computed(0);
}

void Simulation::place_flows(std::uint32_t collective, const FlowPlan::Flow& where) {
  for (std::uint32_t flow = where.places_begin; flow < where.places_end; ++flow)
    place(collective, flow);
}

/// Behind what its port has to send already, unless it has its place.
Simulation::Outbox::Message& Simulation::place(std::uint32_t collective, std::uint32_t flow) {
  auto& messages = outboxes_[planned(collective).plan->ports[flow].first].messages;
  const auto own = std::ranges::find_if(messages, [=](const Outbox::Message& message) {
    return message.collective == collective && message.flow == flow;
  });
  return own == messages.end() ? messages.emplace_back(collective, flow) : *own;
}

void Simulation::hand_over(std::uint32_t collective, std::uint32_t flow) {
  place(collective, flow).handed = true;
  send_next(planned(collective).plan->ports[flow].first);
}

/// What leaves a port next: of each connection that has nothing under way the first message, in the
/// order of their places; of those that have left in part the one whose connection waits longest.
/// None behind a message that keeps its place and was not handed over yet.
Simulation::Outbox::Messages::iterator Simulation::next_to_leave(Outbox& outbox) {
  auto& messages = outbox.messages;
  auto next = messages.end();
  std::set<std::uint32_t> seen;
  for (auto one = messages.begin(); one != messages.end(); ++one) {
    const std::uint32_t target = planned(one->collective).plan->ports[one->flow].second;
    if (outbox.under_way.contains(target) || !seen.insert(target).second) continue;
    if (!one->handed) break;
    if (next == messages.end() || one->left_at < next->left_at) next = one;
    if (next->left_at == 0) break;
  }
  return next;
}

/// A connection has at most Transport::queued in its port: of longer messages to several others
/// parts leave in turns, and what is handed over later waits for no more than that. Words that have
/// no bytes are through at once.
void Simulation::send_next(std::uint32_t port) {
  constexpr double kLeastPart = 0.2;  // less than that of another is not left for a turn of its own
  Outbox& outbox = outboxes_[port];
  if (outbox.busy) return;
  const auto next = next_to_leave(outbox);
  if (next == outbox.messages.end()) return;
  const auto [collective, flow] = std::pair{next->collective, next->flow};
  const PlannedCollective& one = planned(collective);
  const FlowPlan::Flow& edge = one.plan->plan.flows[flow];
  if (edge.share <= 0) {
    outbox.messages.erase(next);
    end_flow(collective, flow);
    return send_next(port);
  }
  const Bytes whole = one.size * edge.share;
  double part = std::min(next->rest, one.transport->queued / whole);
  if (next->rest - part < kLeastPart * part) part = next->rest;
  outbox.busy = true;
  outbox.under_way.insert(one.plan->ports[flow].second);
  const Seconds leaving = whole * part / port_bandwidth(cluster_, edge.source);
  network_->call_at(network_->now() + leaving.value(), {kLeft, port, ++outbox.leaves});
  next->left_at = outbox.leaves;
  next->rest -= part;
  if (next->rest <= 0) outbox.messages.erase(next);
  move_bytes(collective, flow, part);
}

/// At its port's own rate a message has left by now; it may still be on its way.
void Simulation::leave(std::uint32_t port, std::uint32_t number) {
  Outbox& outbox = outboxes_[port];
  if (!outbox.busy || outbox.leaves != number) return;
  outbox.busy = false;
  send_next(port);
}

/// True once the whole message is there.
bool Simulation::arrive_over_socket(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& one = planned(collective);
  if (!one.transport || one.plan->plan.flows[flow].share <= 0) return true;
  const auto [port, target] = one.plan->ports[flow];
  Outbox& outbox = outboxes_[port];
  const bool whole = std::ranges::none_of(outbox.messages, [=](const Outbox::Message& message) {
    return message.collective == collective && message.flow == flow;
  });
  outbox.under_way.erase(target);
  // With a burst it is there before its rate alone would have let it leave.
  if (outbox.under_way.empty()) outbox.busy = false;
  send_next(port);
  return whole;
}

}  // namespace rehearse
