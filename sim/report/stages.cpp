// Where the stages of a pipeline spend a step: computing, exchanging, and waiting for each other.
#include <algorithm>
#include <limits>

#include "report/anatomy.hpp"
#include "report/intervals.hpp"

namespace rehearse::inline report {
namespace {

/// What a rank does in one iteration.
struct StageActivity {
  Intervals compute;
  std::map<MeshAxis, Intervals> exchanges;
  Seconds first_backward{std::numeric_limits<double>::infinity()}, last_forward{0};
};

void record(const Schedule& schedule, const Span& span, StageActivity& activity) {
  const Program& program = schedule.program_of(span.rank);
  const Op& op = program.ops[span.op.index()];
  if (const auto* collective = std::get_if<Collective>(&op.work)) {
    const GroupId group = schedule.ranks[span.rank.index()].groups[collective->group];
    if (const auto axis = schedule.groups[group.index()].axis)
      activity.exchanges[*axis].push_back({span.start, span.end});
    return;
  }
  const bool computes = op.lane && program.lanes[op.lane->index()].kind == LaneKind::compute;
  if (!computes) return;
  activity.compute.push_back({span.start, span.end});
  if (op.phase == Phase::forward) activity.last_forward = std::max(activity.last_forward, span.end);
  if (op.phase == Phase::backward)
    activity.first_backward = std::min(activity.first_backward, span.start);
}

/// What is left of a window.
Intervals gaps(const Intervals& busy, const Ends<Seconds>& window) {
  Intervals free;
  Seconds at = window.low;
  for (const Ends<Seconds>& one : busy) {
    if (one.low > at) free.push_back({at, one.low});
    at = std::max(at, one.high);
  }
  if (window.high > at) free.push_back({at, window.high});
  return free;
}

Seconds within(const Intervals& intervals, Seconds from, Seconds to) {
  return from < to ? length(unite(intervals, {from, to})) : Seconds(0);
}

void add(const StageActivity& activity, const Ends<Seconds>& window, double weight,
         StageReport& stage) {
  const Intervals compute = unite(activity.compute, window);
  Intervals busy = compute;
  for (const auto& [axis, intervals] : activity.exchanges) {
    const Seconds before = length(busy);
    busy.insert(busy.end(), intervals.begin(), intervals.end());
    busy = unite(std::move(busy), window);
    stage.exposed[axis] += weight * (length(busy) - before);
  }
  const Intervals idle = gaps(busy, window);
  const Seconds filled = std::min(activity.first_backward, window.high);
  const Seconds drained = std::max(filled, std::min(activity.last_forward, window.high));
  stage.compute += weight * length(compute);
  stage.warm_up += weight * within(idle, window.low, filled);
  stage.steady += weight * within(idle, filled, drained);
  stage.cool_down += weight * within(idle, drained, window.high);
}

}  // namespace

std::vector<StageReport> stages_of(const Schedule& schedule, const Trace& trace,
                                   std::uint32_t first, std::uint32_t last) {
  std::map<std::uint32_t, RankId> ranks;  // by stage
  for (std::size_t rank = 0; rank < trace.recorded_ranks; ++rank)
    if (const auto stage = schedule.program_of(RankId(rank)).stage)
      ranks.try_emplace(*stage, RankId(rank));
  std::vector<StageReport> stages;
  if (ranks.size() < 2) return stages;
  for (const auto& [number, rank] : ranks) {
    std::vector<StageActivity> activities(last - first);
    for (const Span& span : trace.spans)
      if (span.rank == rank && span.iteration >= first && span.iteration < last)
        record(schedule, span, activities[span.iteration - first]);
    StageReport& stage = stages.emplace_back();
    stage.stage = number;
    stage.rank = rank.index();
    const std::vector<Seconds>& ends = trace.iteration_end[rank.index()];
    for (std::uint32_t k = first; k < last; ++k)
      add(activities[k - first], {k == 0 ? Seconds(0) : ends[k - 1], ends[k]}, 1.0 / (last - first),
          stage);
  }
  return stages;
}

}  // namespace rehearse::inline report
