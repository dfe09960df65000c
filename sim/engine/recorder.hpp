#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.hpp"
#include "engine/rank_op.hpp"
#include "schedule/schedule.hpp"
#include "trace/trace.hpp"

namespace rehearse::inline engine {

/// Writes the trace of a simulation down.
class Recorder {
 public:
  Recorder(const Schedule& schedule, const EngineOptions& options);

  /// A moment of what the rank does in its current iteration.
  void mark(RankOp what, Seconds Span::*when, double now) {
    std::vector<Span>& current = current_[what.rank];
    if (!current.empty()) current[what.op].*when = Seconds(now);
  }
  /// `shift`: the rank was so much later than it was played.
  void end(RankOp what, std::uint32_t iteration, double now, double shift = 0);
  /// The operation that has just ended stands for one of each of so many repeats to come.
  struct Repeated {
    std::uint32_t times = 0, period = 0;  ///< in operations
    double gap = 0;
  };
  void repeat(RankOp what, const Repeated& more);
  /// A flow of a rank, or of a group with that rank.
  void count(std::uint32_t rank, PortKind port, double bytes, std::uint32_t times = 1) {
    if (schedule_.ranks[rank].in_background()) return;
    trace_.traffic.bytes[static_cast<std::size_t>(port)] += bytes * times;
    trace_.traffic.flows += times;
  }
  /// So far; what else is known of it is written there.
  Trace& trace() { return trace_; }
  const Trace& trace() const { return trace_; }
  /// All of it, in order. It is gone here then.
  Trace take();

 private:
  void add_rank(std::size_t rank, const EngineOptions& options);

  const Schedule& schedule_;
  std::size_t spans_ = 0;                   // of all iterations, of the ranks so far
  std::vector<std::vector<Span>> current_;  // by rank and op; empty where nothing is recorded
  Trace trace_;
};

}  // namespace rehearse::inline engine
