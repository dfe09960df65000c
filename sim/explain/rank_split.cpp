#include "explain/rank_split.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "explain/critical_path.hpp"
#include "explain/pace.hpp"
#include "explain/slack.hpp"
#include "report/intervals.hpp"

namespace rehearse::inline explanation {
namespace {

bool computes(const Program& program, const Op& op) {
  return std::holds_alternative<Compute>(op.work) && op.lane &&
         program.lanes[op.lane->index()].kind == LaneKind::compute;
}

bool communicates(const Op& op) {
  return std::holds_alternative<Collective>(op.work) || std::holds_alternative<Transfer>(op.work);
}

/// One rank's time as intervals, and which of its operations begins or ends at a moment.
struct Activity {
  Intervals compute, communication;
  std::map<Seconds, std::size_t> begins;  ///< of what computes or communicates
  std::map<Seconds, std::size_t> ends;    ///< of all
};

std::vector<Activity> activities(const WaitGraph& graph) {
  std::vector<Activity> all(graph.schedule().ranks.size());
  for (std::size_t s = 0; s < graph.trace().spans.size(); ++s) {
    const Span& span = graph.span(s);
    Activity& rank = all[span.rank.index()];
    rank.ends.insert_or_assign(span.end, s);
    const bool computing = computes(graph.schedule().program_of(span.rank), graph.op(s));
    if (!computing && !communicates(graph.op(s))) continue;
    (computing ? rank.compute : rank.communication).push_back({span.start, span.end});
    if (span.start < span.end) rank.begins.try_emplace(span.start, s);
  }
  return all;
}

Intervals gaps(const Intervals& busy, const Ends<Seconds>& window) {
  Intervals idle;
  Seconds from = window.low;
  for (const Ends<Seconds>& one : busy) {
    if (one.low > from) idle.push_back({from, one.low});
    from = one.high;
  }
  if (from < window.high) idle.push_back({from, window.high});
  return idle;
}

void add_wait_by_stage(const Schedule& schedule, const PathSegment& segment, Seconds time,
                       RankSplit& split) {
  const Program& program = schedule.program_of(segment.rank);
  const Op& op = program.ops[segment.op.index()];
  if (!program.stage) return;
  const auto* collective = std::get_if<Collective>(&op.work);
  if (!collective) {
    split.for_stage[*program.stage] += time;
    return;
  }
  const GroupId group = schedule.ranks[segment.rank.index()].groups[collective->group];
  if (const auto axis = schedule.groups[group.index()].axis) split.for_exchange[*axis] += time;
}

void add_wait(const WaitGraph& graph, const PathSegment& segment, RankSplit& split) {
  const Op& op = graph.schedule().program_of(segment.rank).ops[segment.op.index()];
  const Seconds time = segment.end - segment.start;
  if (op.phase == Phase::server) {
    split.server += time;
    return;
  }
  (segment.rank == split.rank ? split.host : split.peer) += time;
  if (segment.rank != split.rank) add_wait_by_stage(graph.schedule(), segment, time, split);
}

/// The operation that begins then, else one that ends then.
std::optional<std::size_t> at_the_end(const Activity& activity, Seconds time) {
  if (const auto begun = activity.begins.find(time); begun != activity.begins.end())
    return begun->second;
  const auto ended = activity.ends.find(time);
  return ended == activity.ends.end() ? std::nullopt : std::optional(ended->second);
}

/// Follows back why the rank had nothing to do until the interval's end. A worker that sits a round
/// out does nothing then, and waits for the others.
void explain_idle(const WaitGraph& graph, const Activity& activity, const Ends<Seconds>& interval,
                  RankSplit& split) {
  split.idle += interval.high - interval.low;
  const std::optional<std::size_t> from = at_the_end(activity, interval.high);
  if (!from) {
    split.peer += interval.high - interval.low;
    return;
  }
  for (const PathSegment& segment : path_back(graph, *from, interval.high, interval.low))
    add_wait(graph, segment, split);
}

/// Of the rank's first computation of an iteration: 0 where it computes nothing.
Seconds first_slack(const WaitGraph& graph, const std::vector<Seconds>& slack, RankId rank,
                    std::uint32_t iteration) {
  const auto& ops = graph.schedule().program_of(rank).ops;
  for (std::size_t op = 0; op < ops.size(); ++op) {
    if (!trains(ops[op])) continue;
    if (const auto span = graph.find(rank, OpId(op), iteration)) return slack[*span];
  }
  return Seconds(0);
}

RankSplit split_rank(const WaitGraph& graph, const Activity& activity, RankId rank,
                     const Ends<Seconds>& window) {
  RankSplit split;
  split.rank = rank;
  const Intervals compute = unite(activity.compute, window);
  const Intervals communication = unite(activity.communication, window);
  Intervals both = compute;
  both.insert(both.end(), communication.begin(), communication.end());
  const Intervals busy = unite(std::move(both), window);
  split.step = window.high - window.low;
  split.compute = length(compute);
  split.exposed_communication = std::max(Seconds(0), length(busy) - split.compute);
  split.hidden_communication =
      std::max(Seconds(0), length(communication) - split.exposed_communication);
  for (const Ends<Seconds>& idle : gaps(busy, window)) explain_idle(graph, activity, idle, split);
  return split;
}

}  // namespace

std::vector<RankSplit> split_ranks(const WaitGraph& graph, const std::vector<RankId>& ranks,
                                   std::uint32_t first, std::uint32_t last) {
  const std::vector<Activity> all = activities(graph);
  const std::vector<Seconds> slack = slack_of(graph);
  std::vector<RankSplit> splits;
  for (const RankId rank : ranks) {
    const auto& ends = graph.trace().iteration_end[rank.index()];
    const Ends<Seconds> window{first == 0 ? Seconds(0) : ends[first - 1], ends[last - 1]};
    RankSplit split = split_rank(graph, all[rank.index()], rank, window);
    for (Seconds* time :
         {&split.step, &split.compute, &split.exposed_communication, &split.hidden_communication,
          &split.idle, &split.host, &split.peer, &split.server})
      *time *= 1.0 / (last - first);
    for (auto& [stage, time] : split.for_stage) time *= 1.0 / (last - first);
    for (auto& [axis, time] : split.for_exchange) time *= 1.0 / (last - first);
    split.slack = first_slack(graph, slack, rank, last - 1);
    splits.push_back(split);
  }
  return splits;
}

}  // namespace rehearse::inline explanation
