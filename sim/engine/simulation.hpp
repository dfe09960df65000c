#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/collective_table.hpp"
#include "engine/cores.hpp"
#include "engine/engine.hpp"
#include "engine/network.hpp"
#include "schedule/factors.hpp"

namespace rehearse {

/// Plays a schedule on a Network: which operation starts when. Knows lanes, queues, events and
/// collectives, not SimGrid.
///
/// Lanes go through their operations in order, iteration after iteration. An operation starts when
/// it is at the head of its lane (or has been taken by its queue, or has neither) and all that it
/// comes after is over.
class Simulation {
 public:
  /// Of the schedule on the cluster: the machine's, or those of all jobs. All must stay.
  Simulation(const Schedule& schedule, const Cluster& cluster, const Machine& machine,
             const EngineOptions& options, const CollectiveTable& collectives);

  /// Runs to the end. StuckError if an operation never ends.
  Trace play(Network& network);
  /// A timer or flow of the network is over.
  void on_token(Token token);

 private:
  enum TokenKind : std::uint32_t {
    kAwake,            // a rank, b op
    kComputed,         // a rank, b op
    kPacedComputed,    // a cores, b version of what they compute
    kTransferStart,    // a rank, b op
    kMessageTurn,      // a rank, b op
    kTransferred,      // a rank, b op
    kCollectiveStart,  // a collective, b member
    kCoreTurn,         // a number of who waits for a core
    kCoreFree,
    kFlowStart,  // a collective, b flow
    kFlowDone,   // a collective, b flow
    kLeft,       // a port, b number of the message that leaves it
    kCaughtUp,   // a collective, b version of what it lags
  };

  /// A program with its edges turned round.
  struct ProgramIndex {
    const Program* program = nullptr;
    std::vector<std::vector<std::uint32_t>> lane_ops;
    std::vector<bool> collectives;                       // by lane: whether some run on it
    std::vector<std::vector<std::uint32_t>> successors;  // ops that come after this one
    std::vector<std::uint32_t> free_ops;                 // on no lane
  };
  struct LaneState {
    std::uint32_t position = 0, iteration = 0;  // of the operation that begins next
    std::uint32_t running = 0;
    bool awaits = false;
  };
  struct FreeOpState {
    std::uint32_t issued = 0;  // iterations started
    bool awaits = false;
  };
  struct RankState {
    const ProgramIndex* index = nullptr;
    std::vector<LaneState> lanes;
    std::vector<FreeOpState> free_ops;  // by op
    std::vector<std::uint32_t> done;    // by op: iterations ended
    std::vector<Span> current;  // by op, of its current iteration; empty where nothing is recorded
    std::vector<std::uint32_t> left;  // by iteration, as far as it got: operations to go
    std::vector<double> slowdowns;  // of compute, by the communication in flight that slows it down
    std::vector<std::uint32_t> slowed;  // collectives in flight that compute slows down
    /// What the compute lane is at, where communication and it slow each other down.
    std::optional<std::uint32_t> computing;
    std::uint32_t computed_in = ~0U;  // iteration of its last computation with jitter
  };
  struct RankOp {
    std::uint32_t rank = 0, op = 0;
  };
  struct EventState {
    std::vector<std::uint32_t> signals;  // by iteration, as far as there were some
    std::uint32_t signals_of(std::uint32_t iteration) const {
      return iteration < signals.size() ? signals[iteration] : 0;
    }
    std::uint32_t signal(std::uint32_t iteration) {
      if (iteration >= signals.size()) signals.resize(iteration + 1, 0);
      return ++signals[iteration];
    }
    std::vector<RankOp> waiting;
  };
  struct QueueState {
    bool busy = false;
    std::vector<RankOp> waiting;  // in order of arrival, from `next` on
    std::size_t next = 0;
  };
  /// What a collective that compute slows down is behind its flows, which know nothing of compute.
  struct Lag {
    std::uint32_t computing = 0;  // members that compute now
    bool flows_over = false;      // it now catches up
    double behind = 0, since = 0;
    std::uint32_t version = 0;
  };
  /// What a port still has to send over sockets: flows of collectives.
  struct Outbox {
    struct Message {
      Message(std::uint32_t of, std::uint32_t which) : collective(of), flow(which) {}
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
  /// Messages over sockets that leave a port, and those that others have a head start over.
  struct Turn {
    double since = 0;  // when the first of them began
    std::uint32_t messages = 0;
    std::deque<RankOp> waiting;  // in order of arrival
  };
  struct CollectiveState {
    std::uint32_t arrived = 0, flows_left = 0;
    std::vector<std::uint32_t> waits_for;  // by flow
    std::vector<RankOp> members;           // in order of arrival
    struct Host {
      RankOp op;
      std::uint32_t steps_left = 0;
    };
    std::vector<Host> hosts;  // of a plan by member
    Lag lag;
  };

  /// A member's, of a collective.
  struct Start {
    std::uint32_t collective = 0, member = 0;
  };

  void index_programs();
  void make_ranks();
  void begin();
  Trace finish();

  bool met(RankOp what, std::uint32_t iteration, bool& awaits);
  std::uint32_t width_of(std::uint32_t rank, std::uint32_t lane) const;
  bool is_full(std::uint32_t rank, std::uint32_t lane) const;
  void advance_lane(std::uint32_t rank, std::uint32_t lane);
  void advance_free_op(std::uint32_t rank, std::uint32_t op);
  void advance(RankOp what);
  void serve(std::uint32_t queue);
  void put_first(QueueState& state) const;

  bool in_background(std::uint32_t rank) const { return schedule_.ranks[rank].job > 0; }
  bool goes_on(std::uint32_t rank, std::uint32_t iteration) const;
  void go_on(std::uint32_t rank);
  bool takes_part(std::uint32_t rank, std::uint32_t iteration) const {
    return present_.empty() || in_background(rank) || present_[iteration][rank];
  }
  void end_iteration(std::uint32_t rank, std::uint32_t iteration);
  bool is_open_ended() const { return static_cast<bool>(options_.enough); }
  bool suffices();
  void end_iteration_in_background(std::uint32_t rank);
  void count_traffic(std::uint32_t rank, PortKind port, double bytes);
  void begin_op(RankOp what, std::uint32_t iteration);
  void start_work(RankOp what, std::uint32_t iteration);
  void start_compute(RankOp what, const Compute& compute, std::uint32_t iteration);
  void start_transfer(RankOp what, const Transfer& transfer);
  PortPair ports_of(RankOp what) const;
  void send_message(RankOp what);
  bool takes_turn(RankOp what);
  Seconds head_start(RankOp what, bool fresh) const;
  void end_wait(RankOp what);
  void give_up_turn(RankOp what);
  bool goes_over_socket(RankOp what) const;
  Bytes on_wire(Bytes size, const PortPair& ports) const;
  void arrive(RankOp what, const Collective& collective);
  void start_collective(std::uint32_t collective, std::uint32_t member);
  bool waits_for_a_core(std::uint32_t collective, std::uint32_t member);
  void take_core(std::uint32_t turn);
  void offer_cores();
  void prepare_flows(std::uint32_t collective);
  void start_flows(std::uint32_t collective, std::uint32_t member);
  void start_flow(std::uint32_t collective, std::uint32_t flow);
  void start_host_step(std::uint32_t collective, std::uint32_t flow);
  void send_flow(std::uint32_t collective, std::uint32_t flow);
  void place_flows(std::uint32_t collective, const FlowPlan::Flow& where);
  Outbox::Message& place(std::uint32_t collective, std::uint32_t flow);
  void hand_over(std::uint32_t collective, std::uint32_t flow);
  void send_next(std::uint32_t port);
  void leave(std::uint32_t port, std::uint32_t number);
  void move_bytes(std::uint32_t collective, std::uint32_t flow, double part);
  Outbox::Messages::iterator next_to_leave(Outbox& outbox);
  bool arrive_over_socket(std::uint32_t collective, std::uint32_t flow);
  void end_flow(std::uint32_t collective, std::uint32_t flow);
  void end_host_step(std::uint32_t collective, std::uint32_t member);
  void end_flows(std::uint32_t collective);
  void end_collective(std::uint32_t collective);
  void end_op(RankOp what);
  void drain();

  // Compute at a changing pace: on shared cores, or where communication and it slow each other down
  // (overlap.cpp).
  bool overlaps(RankOp what) const;
  bool paced(RankOp what) const { return cluster_.shared_cores || overlaps(what); }
  std::uint32_t cores_of(std::uint32_t rank) const { return cluster_.shared_cores ? 0 : rank; }
  void begin_computing(RankOp what, double duration);
  void end_computing(std::uint32_t cores);
  void schedule_computed(std::uint32_t cores);
  double slowdown_of(std::uint32_t rank) const;
  void begin_communicating(std::uint32_t rank, double slowdown);
  void end_communicating(std::uint32_t rank, double slowdown);
  void change_slowdown(std::uint32_t rank, double before);
  void begin_lag(std::uint32_t collective);
  void end_lag(std::uint32_t collective);
  void count_computing(std::uint32_t rank, int change);
  void account(std::uint32_t collective);
  void schedule_catching_up(std::uint32_t collective);

  const PlannedCollective& planned(std::uint32_t collective) const {
    return collectives_.planned(collective % static_cast<std::uint32_t>(collectives_.size()));
  }
  const Group& group_of(std::uint32_t collective) const {
    const auto id = collective % static_cast<std::uint32_t>(collectives_.size());
    return schedule_.groups[collectives_.group(id).index()];
  }
  const Op& op_of(RankOp what) const { return ranks_[what.rank].index->program->ops[what.op]; }
  Place place(RankId rank) const { return schedule_.ranks[rank.index()].place; }
  void mark(RankOp what, Seconds Span::*when);
  std::string wait_of(RankOp what, std::uint32_t iteration, bool begun) const;
  std::string waiting_list() const;

  const Schedule& schedule_;
  const Cluster& cluster_;
  const CommProfile* comm_;  ///< null: the links alone
  const EngineOptions& options_;
  const CollectiveTable& collectives_;
  ComputeFactors factors_;
  Network* network_ = nullptr;
  std::vector<ProgramIndex> programs_;
  std::vector<RankState> ranks_;
  std::vector<std::vector<bool>> present_;  // by iteration and rank; empty: all take part
  std::vector<EventState> events_;
  std::vector<QueueState> queues_;
  /// Of even iterations, then of odd ones: members that have ended one may begin the next.
  std::vector<CollectiveState> states_;
  double transfer_slowdown_ = 1;  // of compute beside a transfer
  bool overlap_costs_ = false;    // some communication and compute slow each other down
  std::vector<Cores> cores_;      // shared by all; or where overlap costs, each rank's own
  std::vector<RankOp> over_;      // operations that have just ended
  std::map<std::uint32_t, Outbox> outboxes_;       // by port
  std::map<Port, Turn> sending_;                   // by port of a message's sender
  std::map<std::uint32_t, Start> waiting_starts_;  // for a core, by number
  std::uint32_t turns_ = 0;                        // numbers given
  std::uint64_t iterations_left_ = 0;  // of the schedule's, of ranks that are not in the background
  // Of an open-ended run, without the background:
  std::uint64_t operations_ = 0, iterations_ = 0;  // that have ended
  std::uint64_t asks_at_ = 0;                      // iterations at which to ask again
  bool closing_ = false;  // only ranks that lack iterations of the schedule's go on
  bool finished_ = false;
  std::vector<std::uint32_t> slowest_;  // by job: iterations that all of its ranks have ended
  Trace trace_;
};

}  // namespace rehearse
