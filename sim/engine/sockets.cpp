#include "engine/sockets.hpp"

#include <algorithm>
#include <utility>

namespace rehearse::inline engine {

/// A back end's thread that wakes for a new collective while all shared cores compute waits for its
/// turn, one time slice of each computation on its core, or until a core is free.
bool Sockets::delays(std::uint32_t collective, std::uint32_t member) {
  const Transport* transport = shared_.planned(collective).transport;
  const auto& cores = shared_.cluster.shared_cores;
  if (!transport || !cores || transport->slice.value() <= 0) return false;
  const double on_each = static_cast<double>(pace_.on_shared_cores()) / static_cast<double>(*cores);
  if (on_each < 1) return false;
  waiting_.emplace(++turns_, Start{collective, member});
  shared_.call_in(on_each * transport->slice.value(), {kCoreTurn, turns_, 0});
  return true;
}

void Sockets::take_core(std::uint32_t turn) {
  const auto waiting = waiting_.find(turn);
  if (waiting == waiting_.end()) return;
  const auto [collective, member] = waiting->second;
  waiting_.erase(waiting);
  shared_.call_in(shared_.planned(collective).latency.value(),
                  {kCollectiveStart, collective, member});
}

void Sockets::offer_cores() {
  if (std::cmp_greater_equal(pace_.on_shared_cores(), *shared_.cluster.shared_cores)) return;
  while (!waiting_.empty()) take_core(waiting_.begin()->first);
}

/// The host's work shares the cores with compute where they are few.
void Sockets::do_step(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& one = shared_.planned(collective);
  const FlowPlan::HostStep& step = one.plan->plan.step(flow);
  const Token over{kFlowDone, collective, flow};
  if (step.wakes) return shared_.call_in(one.transport->wake.value(), over);
  if (step.handled <= 0) {
    for (std::uint32_t next = step.places_begin; next < step.places_end; ++next)
      place(collective, next);
    return carried_.end_flow(collective, flow);
  }
  const Bytes payload = one.size * one.transport->efficiency * step.handled;
  const double work = one.transport->host_work(payload).value();
  if (!shared_.cluster.shared_cores) return shared_.call_in(work, over);
  pace_.handle(collective, flow, work);
}

void Sockets::place(std::uint32_t collective, std::uint32_t flow) { placed(collective, flow); }

Sockets::Outbox::Message& Sockets::placed(std::uint32_t collective, std::uint32_t flow) {
  auto& messages = outboxes_[source_of(collective, flow)].messages;
  const auto own = std::ranges::find_if(
      messages, [=](const Outbox::Message& message) { return message.is(collective, flow); });
  return own == messages.end() ? messages.emplace_back(collective, flow) : *own;
}

void Sockets::hand_over(std::uint32_t collective, std::uint32_t flow) {
  placed(collective, flow).handed = true;
  send_next(source_of(collective, flow));
}

/// What leaves a port next: of each connection that has nothing under way the first message, in the
/// order of their places; of those that have left in part the one whose connection waits longest.
/// None behind a message that keeps its place and was not handed over yet.
Sockets::Outbox::Messages::iterator Sockets::next_to_leave(Outbox& outbox) {
  auto& messages = outbox.messages;
  auto next = messages.end();
  std::set<std::uint32_t> seen;
  for (auto one = messages.begin(); one != messages.end(); ++one) {
    const std::uint32_t target = target_of(one->collective, one->flow);
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
void Sockets::send_next(std::uint32_t port) {
  constexpr double kLeastPart = 0.2;  // less than that of another is not left for a turn of its own
  Outbox& outbox = outboxes_[port];
  if (outbox.busy) return;
  const auto next = next_to_leave(outbox);
  if (next == outbox.messages.end()) return;
  const auto [collective, flow] = std::pair{next->collective, next->flow};
  const PlannedCollective& one = shared_.planned(collective);
  const FlowPlan::Flow& edge = one.plan->plan.flows[flow];
  if (edge.share <= 0) {
    outbox.messages.erase(next);
    carried_.end_flow(collective, flow);
    return send_next(port);
  }
  const Bytes whole = one.size * edge.share;
  double part = std::min(next->rest, one.transport->queued / whole);
  if (next->rest - part < kLeastPart * part) part = next->rest;
  outbox.busy = true;
  outbox.under_way.insert(target_of(collective, flow));
  const Seconds leaving = whole * part / port_bandwidth(shared_.cluster, edge.source);
  shared_.call_in(leaving.value(), {kLeft, port, ++outbox.leaves});
  next->left_at = outbox.leaves;
  next->rest -= part;
  if (next->rest <= 0) outbox.messages.erase(next);
  carried_.move(collective, flow, part);
}

void Sockets::leave(std::uint32_t port, std::uint32_t number) {
  Outbox& outbox = outboxes_[port];
  if (!outbox.busy || outbox.leaves != number) return;
  outbox.busy = false;
  send_next(port);
}

bool Sockets::arrive(std::uint32_t collective, std::uint32_t flow) {
  if (shared_.planned(collective).plan->plan.flows[flow].share <= 0) return true;
  const std::uint32_t port = source_of(collective, flow);
  Outbox& outbox = outboxes_[port];
  const bool whole = std::ranges::none_of(outbox.messages, [=](const Outbox::Message& message) {
    return message.is(collective, flow);
  });
  outbox.under_way.erase(target_of(collective, flow));
  // With a burst it is there before its rate alone would have let it leave.
  if (outbox.under_way.empty()) outbox.busy = false;
  send_next(port);
  return whole;
}

}  // namespace rehearse::inline engine
