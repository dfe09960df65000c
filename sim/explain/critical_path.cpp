#include "explain/critical_path.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline explanation {
namespace {

Seconds end_of(const Trace& trace, RankId rank, std::uint32_t iterations) {
  return iterations == 0 ? Seconds(0) : trace.iteration_end[rank.index()][iterations - 1];
}

/// The rank's operation of that iteration which ended last.
std::size_t last_span(const WaitGraph& graph, RankId rank, std::uint32_t iteration) {
  const Seconds end = end_of(graph.trace(), rank, iteration + 1);
  const std::size_t ops = graph.schedule().program_of(rank).ops.size();
  for (std::size_t op = ops; op-- > 0;) {
    const auto found = graph.find(rank, OpId(op), iteration);
    if (found && graph.span(*found).end == end) return *found;
  }
  throw InternalError("internal error: nothing ended an iteration");
}

}  // namespace

std::vector<PathSegment> path_back(const WaitGraph& graph, std::size_t span, Seconds end,
                                   Seconds begin) {
  std::vector<PathSegment> path;
  std::vector<std::size_t> passed;  // at this very moment
  Seconds now = end;
  const auto add = [&](Seconds from, bool slept) {
    const Span& what = graph.span(span);
    path.push_back({.rank = what.rank,
                    .op = what.op,
                    .iteration = what.iteration,
                    .start = std::max(from, begin),
                    .end = now,
                    .slept = slept});
    now = path.back().start;
    passed.clear();
  };
  while (now > begin) {
    if (graph.span(span).start < now) {
      add(graph.span(span).start, false);
      continue;
    }
    passed.push_back(span);
    if (const auto cause = graph.cause(span, now, passed)) {
      if (!path.empty() && path.back().waited_for == WaitedFor::start)
        path.back().waited_for = cause->by;
      span = cause->span;
      continue;
    }
    check(graph.span(span).ready < now, "nothing explains why an operation began");
    add(graph.span(span).ready, true);
  }
  std::ranges::reverse(path);
  return path;
}

StepWindow step_window(const WaitGraph& graph, const std::vector<RankId>& workers, bool in_step,
                       std::uint32_t first, std::uint32_t last) {
  const Trace& trace = graph.trace();
  const auto end = [&](RankId rank) { return end_of(trace, rank, last); };
  const RankId rank = in_step ? *std::ranges::max_element(workers, {}, end)
                              : *std::ranges::min_element(workers, {}, end);
  Seconds begin = end_of(trace, rank, first);
  for (const RankId other : workers)
    if (in_step) begin = std::max(begin, end_of(trace, other, first));
  return {begin, end(rank), last_span(graph, rank, last - 1)};
}

}  // namespace rehearse::inline explanation
