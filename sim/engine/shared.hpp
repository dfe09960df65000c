#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/collective_table.hpp"
#include "engine/network.hpp"
#include "engine/recorder.hpp"
#include "engine/repeats.hpp"

namespace rehearse::inline engine {

/// Meaning of a Token of a simulation, and of its numbers.
enum TokenKind : std::uint32_t {
  kAwake,            ///< a rank, b op
  kComputed,         ///< a rank, b op
  kPacedComputed,    ///< a cores, b version of what they compute
  kTransferStart,    ///< a rank, b op
  kMessageTurn,      ///< a rank, b op
  kTransferred,      ///< a rank, b op
  kCollectiveStart,  ///< a collective, b member
  kCoreTurn,         ///< a number of who waits for a core
  kCoreFree,
  kFlowStart,  ///< a collective, b flow
  kFlowDone,   ///< a collective, b flow
  kFlowsDone,  ///< a collective
  kLeft,       ///< a port, b number of the message that leaves it
  kCaughtUp,   ///< a collective, b version of what it lags
  kResumed,    ///< a rank, b lane
};

/// State that the parts of a simulation share: what is played, on which network, and what came of
/// it.
struct Shared {
  const Schedule& schedule;
  const Cluster& cluster;
  const Transport* transport;  ///< over sockets; null: the wire alone
  const CollectiveTable& collectives;
  Network& network;
  Recorder& recorder;
  Repeats& repeats;
  std::vector<RankOp> over{};  ///< operations that have just ended

  void call_in(double seconds, Token token) { network.call_at(network.now() + seconds, token); }
  const Op& op_of(RankOp what) const { return schedule.program_of(RankId(what.rank)).ops[what.op]; }
  Place place(RankId rank) const { return schedule.ranks[rank.index()].place; }
  /// A collective in flight has a number of CollectiveTable, or that and its size: those of even
  /// iterations come first, and then those of odd ones, which members that have ended an even one
  /// may begin.
  const PlannedCollective& planned(std::uint32_t collective) const {
    return collectives.planned(repeats.plan_of(collective));
  }
  const Group& group_of(std::uint32_t collective) const {
    return schedule.groups[collectives.group(repeats.plan_of(collective)).index()];
  }
};

}  // namespace rehearse::inline engine
