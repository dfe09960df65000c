#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/quantity.hpp"
#include "cluster/cluster.hpp"
#include "engine/bundle.hpp"
#include "engine/loops.hpp"
#include "engine/token_buckets.hpp"

namespace simgrid::s4u {
class Activity;
class Engine;
class Host;
class Link;
class NetZone;
}  // namespace simgrid::s4u

namespace rehearse::inline engine {

/// Value that a timer or a flow hands back when it is over; the meaning is the caller's.
struct Token {
  std::uint32_t kind = 0, a = 0, b = 0;
};

/// A cluster's ports as SimGrid hosts, flows between them and a clock, without actors: SimGrid
/// calls back when a flow is over. Flows share links max-min fairly; latencies are the caller's (as
/// timers), so that they never weigh the shares.
class Network {
 public:
  using Callback = std::function<void(Token)>;
  /// How flows end: many at once, as the steps of an algorithm do, or one by one. It picks one of
  /// SimGrid's two ways to update them and changes no simulated time. On 256 ranks at hop fidelity
  /// lockstep saves a tenth on like all-reduces (4.7 s, not 5.2) and costs a third where steps
  /// drift apart (FSDP Llama-7B: 7.7 s, not 5.9).
  enum class Pace { lockstep, free };

  /// Builds only the ports in `used`. One Network per process: SimGrid's clock does not go back.
  Network(const Cluster& cluster, const std::vector<Port>& used, Pace pace);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// From now on only flows from this port to itself will cross it.
  void loop(const Port& port, const Cluster& cluster) {
    loops_.add(index_of(port), port_bandwidth(cluster, port));
  }
  /// Index of a port in `used`.
  std::uint32_t index_of(const Port& port) const { return indices_.at(port); }
  /// Now, or the date of the timer that is being handled.
  double now() const;
  /// Calls back at `date` (seconds), or as soon as possible if that has passed. Equal dates: in
  /// order of the calls.
  void call_at(double date, Token token);
  /// Calls back when `size` has moved from one port to the other: at once what the ports' bursts
  /// let pass (TokenBuckets), the rest at their rates.
  void start_flow(std::uint32_t source, std::uint32_t target, Bytes size, Token token);
  /// The flows of a collective of that size, if nothing else uses their ports; else false. Calls
  /// back once with `whole` when all have ended; or, when something else has come to one of the
  /// ports, for each flow with `each`, whose `b` is its number.
  bool start_bundle(const Bundle& bundle, Bytes size, Token whole, Token each);
  /// Runs until nothing is left to happen, and calls back.
  void run(Callback on_token);

 private:
  struct Timer {
    double date;
    std::uint64_t sequence;
    Token token;
    bool operator>(const Timer& other) const {
      return date != other.date ? date > other.date : sequence > other.sequence;
    }
  };

  struct Flow {
    Token token;
    std::uint32_t source = 0, target = 0;
  };

  void add_port(simgrid::s4u::NetZone* zone, const Port& port, const Cluster& cluster);
  void add_zones(const Cluster& cluster, const std::vector<Port>& used);
  /// Which of the switches that a NIC hangs on.
  using SwitchOf = std::function<std::pair<std::size_t, int>(const Port& port)>;
  void add_switches(simgrid::s4u::NetZone* star, const SwitchOf& switch_of, BytesPerSecond above,
                    const Cluster& cluster, const std::vector<Port>& used);
  std::span<const std::uint32_t> cables_between(std::uint32_t source, std::uint32_t target);
  void arm();
  void fire();
  void make_room(std::uint32_t source, std::uint32_t target);
  void end_bundle(Token alarm);
  void set_alarm(std::uint32_t port, Loops<Token>::Alarm alarm);
  void end_loops(Token alarm);

  Callback on_token_;
  std::unique_ptr<simgrid::s4u::Engine> engine_;
  std::map<Port, std::uint32_t> indices_;
  /// Where what the host's memory passes on to another GPU of the node leaves a port.
  struct Staging {
    simgrid::s4u::Host* host = nullptr;
    const void* memory = nullptr;  ///< the node's: its s4u::Link
  };
  simgrid::s4u::Host* source_host(std::uint32_t source, std::uint32_t target) const;
  std::vector<simgrid::s4u::Host*> hosts_;
  std::vector<Staging> staging_;                    // by port
  std::map<NodeId, void*> host_memory_;             // s4u::Link of nodes that stage
  std::set<const simgrid::s4u::Link*> port_links_;  // all others are cables of the fabric
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::uint64_t sequence_ = 0;
  std::vector<double> armed_;  // dates of the SimGrid timers that are set, the earliest last
  double date_ = -1;           // of the timer that is being handled
  TokenBuckets buckets_;
  Loops<Token> loops_;
  /// Rate and burst of the fabric's cables, where they have buckets.
  struct Cables {
    BytesPerSecond bandwidth;
    Bytes burst;
  };
  static std::optional<Cables> shaped_cables(const Fabric& fabric);
  std::optional<Cables> cables_;
  std::map<const simgrid::s4u::Link*, std::uint32_t> cable_numbers_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> ways_;
  /// A bundle in flight, or none.
  struct Held {
    const Bundle* bundle = nullptr;
    Bytes size;
    double since = 0;
    Token whole, each;
    std::uint32_t version = 0;
  };
  PortUses uses_;
  std::vector<Held> held_;
  std::vector<std::uint32_t> free_held_;
  std::vector<Flow> flows_;
  boost::intrusive_ptr<simgrid::s4u::Activity> over_;  // the flow that ended last
  std::vector<std::uint32_t> free_flows_;
};

}  // namespace rehearse::inline engine
