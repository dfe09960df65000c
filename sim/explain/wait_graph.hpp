#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/schedule.hpp"
#include "trace/trace.hpp"

namespace rehearse::inline explanation {

/// Causes of an operation's last wait before it could begin.
enum class WaitedFor : std::uint8_t {
  start,       ///< of the run: nothing
  lane,        ///< what ran before it on its stream, or its own previous iteration
  dependency,  ///< an operation of its rank that it comes after
  host,        ///< the same, of the host: its launch
  peer,        ///< the last member to reach a collective
  queue,       ///< what a server took before it
  event        ///< other ranks: a barrier, an update
};

/// Waits of every operation of a trace, found in the trace itself. An operation is ready at the
/// very moment (the same number) at which the last of what it comes after ends.
///
/// Bytes that share a link, and messages over sockets that wait for their turn at it, count as the
/// work of who sends them.
class WaitGraph {
 public:
  /// Both must stay; every rank's operations must be recorded.
  WaitGraph(const Schedule& schedule, const Trace& trace);

  /// A span that was over (or that, on a lane of several, had begun) when another could go on.
  struct Cause {
    std::size_t span = 0;
    WaitedFor by = WaitedFor::start;
  };
  /// Why the span went on at `now`, which is when it was ready, or when it started. Spans in
  /// `passed` are no answer. Nothing if nothing explains it (the start of the run).
  std::optional<Cause> cause(std::size_t span, Seconds now,
                             const std::vector<std::size_t>& passed) const;

  /// All that the span waited for to be ready, whether it came last or not: what had to end, and of
  /// an event the signals that made it happen.
  std::vector<std::size_t> before(std::size_t span) const;
  /// The spans of a collective's members, its own included.
  std::vector<std::size_t> members(std::size_t span) const;
  /// The span that its queue served right before it, and when the next one came to that queue;
  /// nothing where there is none.
  std::optional<std::size_t> served_before(std::size_t span) const;
  std::optional<Seconds> arrives_after(std::size_t span) const;

  /// The span of a rank's operation in an iteration; nothing before the first.
  std::optional<std::size_t> find(RankId rank, OpId op, std::int64_t iteration) const;
  const Span& span(std::size_t index) const { return trace_.spans[index]; }
  const Op& op(std::size_t index) const;
  const Schedule& schedule() const { return schedule_; }
  const Trace& trace() const { return trace_; }

 private:
  struct RankOp {
    RankId rank;
    OpId op;
  };
  using Meeting = std::pair<std::size_t, std::uint32_t>;  // group, how many it issued before

  void index_spans();
  void index_programs();
  void index_signals();
  Meeting meeting_of(RankId rank, OpId op) const;
  std::optional<Cause> last_member(std::size_t span, Seconds now,
                                   const std::vector<std::size_t>& passed) const;
  std::optional<Cause> served_last(std::size_t span, Seconds now,
                                   const std::vector<std::size_t>& passed) const;
  std::optional<Cause> made_ready(std::size_t span, Seconds now,
                                  const std::vector<std::size_t>& passed) const;
  std::optional<std::size_t> before_on_lane(std::size_t span, std::uint32_t back) const;
  std::optional<Cause> on_lane(std::size_t span, Seconds now,
                               const std::vector<std::size_t>& passed) const;
  std::optional<Cause> signalled(std::size_t span, Seconds now,
                                 const std::vector<std::size_t>& passed) const;

  const Schedule& schedule_;
  const Trace& trace_;
  std::size_t iterations_ = 0;                  // the most of any rank
  std::vector<std::vector<std::uint32_t>> at_;  // [rank][op * iterations_ + iteration]
  struct ProgramIndex {
    std::vector<std::vector<std::uint32_t>> lane_ops;
    std::vector<std::uint32_t> place;   // [op] among its lane's
    std::vector<std::uint32_t> issued;  // [op] collectives before it in its group's slot
  };
  std::vector<ProgramIndex> programs_;
  std::map<Meeting, std::vector<RankOp>> members_;
  std::vector<std::vector<std::size_t>> served_;                // [queue] in order of their ends
  std::vector<std::vector<Seconds>> arrivals_;                  // [queue] sorted
  std::vector<std::vector<std::vector<std::size_t>>> signals_;  // [event][iteration], likewise
};

}  // namespace rehearse::inline explanation
