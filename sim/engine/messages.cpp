#include "engine/messages.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace rehearse::inline engine {

Place Messages::source_of(RankOp what) const {
  return shared_.place(transfer_of(what).source.value_or(RankId(what.rank)));
}

Place Messages::target_of(RankOp what) const {
  return shared_.place(transfer_of(what).target.value_or(RankId(what.rank)));
}

PortPair Messages::ports_of(RankOp what) const {
  return ports_between(shared_.cluster, source_of(what), target_of(what));
}

void Messages::start(RankOp what, const Transfer& transfer) {
  const Place from = source_of(what), to = target_of(what);
  pace_.begin_communicating(what.rank, slowdown_);
  // Within one place there is nothing to cross.
  const Token token{from == to || transfer.size.value() <= 0 ? kTransferred : kTransferStart,
                    what.rank, what.op};
  const Seconds latency = from == to ? Seconds(0) : path_latency(shared_.cluster, from, to);
  shared_.call_in(latency.value(), token);
}

void Messages::send(RankOp what, std::uint32_t iteration) {
  if (goes_over_socket(what) && waits_for_turn(what, iteration)) return;
  move(what, shared_.repeats.stands_for(what, iteration));
}

void Messages::move(RankOp what, std::uint32_t stands_for) {
  const PortPair ports = ports_of(what);
  const Bytes size = transfer_of(what).size;
  Network& network = shared_.network;
  shared_.recorder.count(what.rank, ports.source.kind, size.value(), stands_for);
  network.start_flow(network.index_of(ports.source), network.index_of(ports.target),
                     on_wire(size, ports), {kTransferred, what.rank, what.op});
}

void Messages::end(RankOp what) {
  pace_.end_communicating(what.rank, slowdown_);
  if (goes_over_socket(what)) give_up_turn(what);
  shared_.over.push_back(what);
}

bool Messages::waits_for_turn(RankOp what, std::uint32_t iteration) {
  Turn& turn = sending_[ports_of(what).source];
  const std::size_t others = turn.messages + turn.waiting.size();
  if (others == 0) turn.since = shared_.network.now();
  if (others > 0 && (iteration == 0 || turn.since < shared_.network.now())) {
    turn.waiting.push_back(what);
    const Seconds wait = head_start(what, iteration) * static_cast<double>(others);
    shared_.call_in(wait.value(), {kMessageTurn, what.rank, what.op});
    return true;
  }
  ++turn.messages;
  return false;
}

Seconds Messages::head_start(RankOp what, std::uint32_t iteration) const {
  // Where one of two messages of 1 to 2 MiB begins before the other it gets 0.1 of one ahead
  // (tests/validation/head_start.py); of two that began at once over new connections, at 200 Mbit/s
  // on one machine, one got 0.2 to 0.4. The factor was settled while recorded runs of asynchronous
  // workers were looked at.
  constexpr double kFresh = 2.5;
  RandomStream draw = random_stream(random_stream(shared_.schedule.seed, "head start", what.op)(),
                                    "head start", what.rank, iteration);
  const double mean = shared_.cluster.head_start * (iteration == 0 ? kFresh : 1);
  const PortPair ports = ports_of(what);
  return on_wire(transfer_of(what).size, ports) * (2 * mean * uniform01(draw)) /
         port_bandwidth(shared_.cluster, ports.source);
}

void Messages::take_turn(RankOp what) {
  Turn& turn = sending_.at(ports_of(what).source);
  const auto own = std::ranges::find(turn.waiting, what);
  if (own == turn.waiting.end()) return;
  turn.waiting.erase(own);
  ++turn.messages;
  move(what);
}

void Messages::give_up_turn(RankOp what) {
  Turn& turn = sending_.at(ports_of(what).source);
  if (--turn.messages == 0 && !turn.waiting.empty()) take_turn(turn.waiting.front());
}

bool Messages::goes_over_socket(RankOp what) const {
  return shared_.transport && transfer_of(what).size.value() > 0 &&
         source_of(what).node != target_of(what).node;
}

/// What a message of this size occupies of a link.
Bytes Messages::on_wire(Bytes size, const PortPair& ports) const {
  return shared_.transport && ports.source.kind == PortKind::nic
             ? size / shared_.transport->efficiency
             : size;
}

}  // namespace rehearse::inline engine
