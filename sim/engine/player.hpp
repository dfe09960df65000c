#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/collectives.hpp"
#include "engine/iterations.hpp"
#include "engine/messages.hpp"
#include "engine/pace.hpp"
#include "engine/shared.hpp"
#include "schedule/factors.hpp"

namespace rehearse::inline engine {

/// Plays a schedule on a Network: which operation starts when. Knows lanes, queues and events; what
/// an operation does between its start and its end is the other parts'.
///
/// Lanes go through their operations in order, iteration after iteration. An operation starts when
/// it is at the head of its lane (or has been taken by its queue, or has neither) and all that it
/// comes after is over.
class Player {
 public:
  /// All that `shared` and the options refer to must stay.
  Player(Shared& shared, const EngineOptions& options);

  /// Runs to the end. StuckError if an operation never ends.
  Trace play();

 private:
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
    bool held = false;            // until kResumed
    std::uint32_t kept_in = ~0U;  // iteration in which it began the last repeat before a cut
    double resumes = 0;           // behind the cut, at the earliest
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
    std::vector<std::uint32_t> left;    // by iteration, as far as it got: operations to go
    std::uint32_t computed_in = ~0U;    // iteration of its last computation with jitter
    double until_stopped = 0;           // of its computing (stops_)
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

  void index_programs();
  void make_ranks();
  void settle_stops();
  void begin();

  bool met(RankOp what, std::uint32_t iteration, bool& awaits);
  std::uint32_t width_of(std::uint32_t rank, std::uint32_t lane) const;
  bool is_full(std::uint32_t rank, std::uint32_t lane) const;
  void advance_lane(std::uint32_t rank, std::uint32_t lane);
  void advance_free_op(std::uint32_t rank, std::uint32_t op);
  void advance(RankOp what);
  void wake(RankOp waiter);
  void serve(std::uint32_t queue);
  void put_first(QueueState& state) const;
  void signal(EventId id, std::uint32_t iteration);
  void go_on(std::uint32_t rank);
  void go_on(Iterations::Next next, std::uint32_t rank);

  void begin_op(RankOp what, std::uint32_t iteration);
  void start_work(RankOp what);
  void start_compute(RankOp what, const Compute& compute);
  double stopped_for(RankOp what, double duration);
  void end_computing(std::uint32_t cores);
  void end_op(RankOp what);
  void count_ended(RankOp what, std::uint32_t iteration);
  void watch_repeats(RankOp what, std::uint32_t iteration);
  void cut_repeats(std::uint32_t iteration);
  void leave_out(std::uint32_t rank, const Cut& cut, std::uint32_t iteration);
  void near_cut(RankOp what, LaneState& state) const;
  void pass_cut(std::uint32_t rank, std::uint32_t lane);
  void record_end(RankOp what, std::uint32_t iteration);
  void drain();
  void on_token(Token token);
  void dispatch(Token token);

  std::uint32_t iteration_of(RankOp what) const { return ranks_[what.rank].done[what.op]; }
  const Op& op_of(RankOp what) const { return ranks_[what.rank].index->program->ops[what.op]; }
  std::string wait_of(RankOp what, std::uint32_t iteration, bool begun) const;
  std::string waiting_list() const;

  Shared& shared_;
  const Schedule& schedule_;
  Iterations iterations_;
  Pace pace_;
  Collectives collectives_;
  Messages messages_;
  ComputeFactors factors_;
  Interruptions stops_;
  std::vector<ProgramIndex> programs_;
  std::vector<RankState> ranks_;
  std::vector<EventState> events_;
  std::vector<QueueState> queues_;
};

}  // namespace rehearse::inline engine
