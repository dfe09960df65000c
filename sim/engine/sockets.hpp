#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>

#include "engine/pace.hpp"
#include "engine/shared.hpp"

namespace rehearse::inline engine {

/// Whose flows sockets carry.
class Carried {
 public:
  /// A part of a flow's bytes leaves; its arrival is kFlowDone.
  virtual void move(std::uint32_t collective, std::uint32_t flow, double part) = 0;
  /// A flow is over that has no bytes.
  virtual void end_flow(std::uint32_t collective, std::uint32_t flow) = 0;

 protected:
  ~Carried() = default;
};

/// Collectives over sockets (CommProfile::transport), on cores that may be shared: what hosts do
/// between the flows, ports that send in order, and threads that wait for a core.
class Sockets {
 public:
  Sockets(Shared& shared, Pace& pace, Carried& carried)
      : shared_(shared), pace_(pace), carried_(carried) {}

  /// Whether a member's beginning has to wait for a core. kCollectiveStart comes when it has one.
  bool delays(std::uint32_t collective, std::uint32_t member);
  /// The turn of one that waits for a core has come; nothing where it did not wait so long.
  void take_core(std::uint32_t turn);
  /// Some computation is over: once what comes after it has begun, kCoreFree is for offer_cores().
  void free_core() {
    if (!waiting_.empty()) shared_.call_in(0, {kCoreFree, 0, 0});
  }
  void offer_cores();

  /// A flow that has no bytes, whose turn has come: what the host does, if anything.
  void do_step(std::uint32_t collective, std::uint32_t flow);
  /// A flow gets its place behind what its port has to send already, unless it has one.
  void place(std::uint32_t collective, std::uint32_t flow);
  /// A flow's latency is over: it leaves in the order of places.
  void hand_over(std::uint32_t collective, std::uint32_t flow);
  /// At its port's own rate a message has left by now; it may still be on its way.
  void leave(std::uint32_t port, std::uint32_t number);
  /// A part has arrived. True once the whole flow is there.
  bool arrive(std::uint32_t collective, std::uint32_t flow);

 private:
  /// Messages that a port still has to send.
  struct Outbox {
    struct Message {
      Message(std::uint32_t of, std::uint32_t which) : collective(of), flow(which) {}
      bool is(std::uint32_t of, std::uint32_t which) const {
        return collective == of && flow == which;
      }
      std::uint32_t collective, flow;
      bool handed = false;
      double rest = 1;            ///< share of it that has not left yet
      std::uint32_t left_at = 0;  ///< number of its last part that did; 0: none has
    };
    using Messages = std::deque<Message>;
    Messages messages;                  ///< in the order in which they got their places
    std::uint32_t leaves = 0;           ///< number of the one that does, or did as the last
    bool busy = false;                  ///< one leaves
    std::set<std::uint32_t> under_way;  ///< ports that something is on its way to
  };
  /// A member's, of a collective.
  struct Start {
    std::uint32_t collective = 0, member = 0;
  };

  std::uint32_t source_of(std::uint32_t collective, std::uint32_t flow) const {
    return shared_.planned(collective).plan->ports[flow].first;
  }
  std::uint32_t target_of(std::uint32_t collective, std::uint32_t flow) const {
    return shared_.planned(collective).plan->ports[flow].second;
  }
  Outbox::Message& placed(std::uint32_t collective, std::uint32_t flow);
  Outbox::Messages::iterator next_to_leave(Outbox& outbox);
  void send_next(std::uint32_t port);

  Shared& shared_;
  Pace& pace_;
  Carried& carried_;
  std::map<std::uint32_t, Outbox> outboxes_{};  // by port
  std::map<std::uint32_t, Start> waiting_{};    // for a core, by number
  std::uint32_t turns_ = 0;                     // numbers given
};

}  // namespace rehearse::inline engine
