#pragma once

#include <vector>

#include "explain/wait_graph.hpp"

namespace rehearse::inline explanation {

/// A stretch of a path through a trace: one operation's work, or a rank's sleep before it.
struct PathSegment {
  RankId rank;
  OpId op;
  std::uint32_t iteration = 0;
  Seconds start, end;
  bool slept = false;                       ///< RankSpec::delay, before the operation's work
  WaitedFor waited_for = WaitedFor::start;  ///< what it began after
};

/// From `span` at `end` (when it ended, started or was ready) back over what each operation waited
/// for to `begin`: segments in order of time, each of which starts where the one before it ends,
/// the first at `begin`, the last ending at `end`.
std::vector<PathSegment> path_back(const WaitGraph& graph, std::size_t span, Seconds end,
                                   Seconds begin);

/// Steps [first, last) of a run as one stretch of time, and the span that ends it. Where all train
/// in step it goes from the end of the slowest rank's iteration to another's; else (workers of a
/// parameter server) it is those of the worker that ends first.
struct StepWindow {
  Seconds begin, end;
  std::size_t last_span = 0;
};
StepWindow step_window(const WaitGraph& graph, const std::vector<RankId>& workers, bool in_step,
                       std::uint32_t first, std::uint32_t last);

}  // namespace rehearse::inline explanation
