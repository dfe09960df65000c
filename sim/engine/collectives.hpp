#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/pace.hpp"
#include "engine/shared.hpp"
#include "engine/sockets.hpp"

namespace rehearse::inline engine {

/// Collectives in flight: their members come, their flows move, their members are through. They
/// have numbers as Shared::planned takes them.
class Collectives final : private Carried {
 public:
  Collectives(Shared& shared, Pace& pace);

  /// A rank has come to a collective, in its iteration.
  void arrive(RankOp what, const Collective& collective, std::uint32_t iteration);
  /// Starts the flows: all that comes before them is over, for all or for a member.
  void start_flows(std::uint32_t collective, std::uint32_t member);
  /// A flow's latency is over.
  void send(std::uint32_t collective, std::uint32_t flow);
  /// A flow has arrived, or a part of it, or the host has done its step.
  void end_flow(std::uint32_t collective, std::uint32_t flow) override;
  /// All flows have arrived.
  void end_flows(std::uint32_t collective);
  /// All is over.
  void end(std::uint32_t collective);
  /// The sockets that carry flows which the wire alone does not; null: there are none.
  Sockets* sockets() { return sockets_ ? &*sockets_ : nullptr; }

 private:
  struct State {
    std::uint32_t arrived = 0, flows_left = 0;
    std::uint32_t stands_for = 1;          // itself, and those that are not played
    std::vector<std::uint32_t> waits_for;  // by flow
    std::vector<RankOp> members;           // in order of arrival
    struct Host {
      RankOp op;
      std::uint32_t steps_left = 0;
    };
    std::vector<Host> hosts;  // of a plan by member
    std::optional<std::uint32_t> turn;
  };
  /// Collectives of a group that go one at a time (Collective::turn).
  struct Turns {
    bool busy = false;
    std::vector<std::uint32_t> waiting;  // in order of arrival
  };

  bool by_member(std::uint32_t collective) const {
    return shared_.planned(collective).plan->plan.by_member;
  }
  void wait_for_turn(std::uint32_t collective);
  void take_turn(Turns& turns);
  void begin_all(std::uint32_t collective);
  void begin_member(std::uint32_t collective, RankOp what);
  void start(std::uint32_t collective, std::uint32_t member);
  void prepare_flows(std::uint32_t collective);
  void start_flow(std::uint32_t collective, std::uint32_t flow);
  void move(std::uint32_t collective, std::uint32_t flow, double part) override;
  void count(std::uint32_t collective, std::uint32_t flow, Bytes bytes);
  void end_host_step(std::uint32_t collective, std::uint32_t member);
  void end_member(std::uint32_t collective, RankOp member);

  Shared& shared_;
  Pace& pace_;
  std::optional<Sockets> sockets_;
  std::vector<State> states_;
  std::map<const Group*, Turns> turns_{};
};

}  // namespace rehearse::inline engine
