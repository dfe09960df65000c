#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "engine/pace.hpp"
#include "engine/shared.hpp"

namespace rehearse::inline engine {

/// Point-to-point messages that need no partner operation (Transfer).
///
/// Over sockets messages share the ports that they pass, but one that comes to a sending port where
/// others are under way waits until these have their head start (Cluster::head_start): what they
/// have queued there leaves before it, and their windows are open while its own has to grow. Each
/// time it is as long as chance has it, and longer over connections that have sent nothing yet, so
/// that workers which began in phase come to take turns. Messages that begin at the same moment
/// over used connections are alike and wait for nothing. Messages that come to a port share it,
/// whenever each began: every sender fills it from a queue of its own.
class Messages {
 public:
  Messages(Shared& shared, Pace& pace)
      : shared_(shared), pace_(pace), slowdown_(shared.schedule.overlap_slowdown.value_or(1)) {}

  /// Begins a transfer: its latency is first.
  void start(RankOp what, const Transfer& transfer);
  /// Its latency is over, in the rank's iteration.
  void send(RankOp what, std::uint32_t iteration);
  /// The others that it waited for have had their head start.
  void take_turn(RankOp what);
  /// It has arrived.
  void end(RankOp what);

 private:
  /// Messages over sockets that leave a port, and those that others have a head start over.
  struct Turn {
    double since = 0;  // when the first of them began
    std::uint32_t messages = 0;
    std::deque<RankOp> waiting;  // in order of arrival
  };

  const Transfer& transfer_of(RankOp what) const {
    return std::get<Transfer>(shared_.op_of(what).work);
  }
  Place source_of(RankOp what) const;
  Place target_of(RankOp what) const;
  PortPair ports_of(RankOp what) const;
  bool goes_over_socket(RankOp what) const;
  bool waits_for_turn(RankOp what, std::uint32_t iteration);
  Seconds head_start(RankOp what, std::uint32_t iteration) const;
  void give_up_turn(RankOp what);
  Bytes on_wire(Bytes size, const PortPair& ports) const;
  void move(RankOp what, std::uint32_t stands_for = 1);

  Shared& shared_;
  Pace& pace_;
  double slowdown_;                 // of compute beside a transfer
  std::map<Port, Turn> sending_{};  // by port of a message's sender
};

}  // namespace rehearse::inline engine
