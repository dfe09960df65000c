#include "explain/wait_graph.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace rehearse::inline explanation {
namespace {

constexpr std::uint32_t kNoSpan = std::numeric_limits<std::uint32_t>::max();
/// How far back on a lane of several an operation may still run.
constexpr std::uint32_t kLaneWidth = 64;

bool has(const std::vector<std::size_t>& spans, std::size_t span) {
  return std::ranges::find(spans, span) != spans.end();
}

}  // namespace

WaitGraph::WaitGraph(const Schedule& schedule, const Trace& trace)
    : schedule_(schedule), trace_(trace) {
  check(trace.recorded_ranks == schedule.ranks.size(), "what ranks waited for was not recorded");
  index_spans();
  index_programs();
  index_signals();
}

void WaitGraph::index_spans() {
  iterations_ = schedule_.iterations;
  for (const Span& span : trace_.spans)
    iterations_ = std::max<std::size_t>(iterations_, span.iteration + 1);
  for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
    const std::size_t ops = schedule_.program_of(RankId(r)).ops.size();
    at_.emplace_back(ops * iterations_, kNoSpan);
  }
  for (std::size_t s = 0; s < trace_.spans.size(); ++s) {
    const Span& span = trace_.spans[s];
    at_[span.rank.index()][span.op.index() * iterations_ + span.iteration] =
        static_cast<std::uint32_t>(s);
  }
}

void WaitGraph::index_programs() {
  for (const Program& program : schedule_.programs) {
    ProgramIndex index;
    index.lane_ops.resize(program.lanes.size());
    std::map<std::size_t, std::uint32_t> issued;
    for (std::uint32_t o = 0; o < program.ops.size(); ++o) {
      const Op& op = program.ops[o];
      index.place.push_back(0);
      if (op.lane) {
        auto& lane = index.lane_ops[op.lane->index()];
        index.place.back() = static_cast<std::uint32_t>(lane.size());
        lane.push_back(o);
      }
      const auto* collective = std::get_if<Collective>(&op.work);
      index.issued.push_back(collective ? issued[collective->group]++ : 0);
    }
    programs_.push_back(std::move(index));
  }
  for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
    const auto& ops = schedule_.program_of(RankId(r)).ops;
    for (std::size_t o = 0; o < ops.size(); ++o)
      if (std::holds_alternative<Collective>(ops[o].work))
        members_[meeting_of(RankId(r), OpId(o))].push_back({RankId(r), OpId(o)});
  }
}

void WaitGraph::index_signals() {
  served_.resize(schedule_.queues.size());
  arrivals_.resize(schedule_.queues.size());
  signals_.resize(schedule_.events.size());
  for (auto& event : signals_) event.resize(iterations_);
  for (std::size_t s = 0; s < trace_.spans.size(); ++s) {
    if (op(s).queue) {
      served_[op(s).queue->index()].push_back(s);
      arrivals_[op(s).queue->index()].push_back(span(s).ready);
    }
    for (const EventId event : op(s).signals)
      signals_[event.index()][span(s).iteration].push_back(s);
  }
  const auto by_end = [&](std::size_t s) { return std::pair(span(s).end, span(s).start); };
  for (auto& queue : served_) std::ranges::stable_sort(queue, {}, by_end);
  for (auto& queue : arrivals_) std::ranges::sort(queue);
  for (auto& event : signals_)
    for (auto& iteration : event) std::ranges::stable_sort(iteration, {}, by_end);
}

const Op& WaitGraph::op(std::size_t index) const {
  const Span& what = span(index);
  return schedule_.program_of(what.rank).ops[what.op.index()];
}

std::optional<std::size_t> WaitGraph::find(RankId rank, OpId op, std::int64_t iteration) const {
  if (iteration < 0) return std::nullopt;
  const std::uint32_t found =
      at_[rank.index()][op.index() * iterations_ + static_cast<std::size_t>(iteration)];
  return found == kNoSpan ? std::nullopt : std::optional<std::size_t>(found);
}

WaitGraph::Meeting WaitGraph::meeting_of(RankId rank, OpId op) const {
  const RankSpec& spec = schedule_.ranks[rank.index()];
  const auto& ops = schedule_.programs[spec.program.index()].ops;
  const auto& collective = std::get<Collective>(ops[op.index()].work);
  return {spec.groups[collective.group].index(),
          programs_[spec.program.index()].issued[op.index()]};
}

std::optional<WaitGraph::Cause> WaitGraph::cause(std::size_t index, Seconds now,
                                                 const std::vector<std::size_t>& passed) const {
  if (span(index).ready == now) return made_ready(index, now, passed);
  if (std::holds_alternative<Collective>(op(index).work)) return last_member(index, now, passed);
  return op(index).queue ? served_last(index, now, passed) : std::nullopt;
}

/// Of several that came last the rank itself would have been found before.
std::optional<WaitGraph::Cause> WaitGraph::last_member(
    std::size_t index, Seconds now, const std::vector<std::size_t>& passed) const {
  const Span& what = span(index);
  for (const RankOp& member : members_.at(meeting_of(what.rank, what.op))) {
    const auto other = find(member.rank, member.op, what.iteration);
    if (other && span(*other).ready == now && !has(passed, *other))
      return Cause{*other, WaitedFor::peer};
  }
  return std::nullopt;
}

std::optional<WaitGraph::Cause> WaitGraph::served_last(
    std::size_t index, Seconds now, const std::vector<std::size_t>& passed) const {
  const auto& queue = served_[op(index).queue->index()];
  const auto first = std::ranges::lower_bound(queue, now, {}, [&](auto s) { return span(s).end; });
  for (auto s = first; s != queue.end() && span(*s).end == now; ++s)
    if (*s != index && !has(passed, *s)) return Cause{*s, WaitedFor::queue};
  return std::nullopt;
}

std::optional<WaitGraph::Cause> WaitGraph::made_ready(
    std::size_t index, Seconds now, const std::vector<std::size_t>& passed) const {
  const Span& what = span(index);
  const auto ended_now = [&](OpId op, std::int64_t iteration) -> std::optional<std::size_t> {
    const auto found = find(what.rank, op, iteration);
    return found && span(*found).end == now && !has(passed, *found) ? found : std::nullopt;
  };
  if (const auto before = on_lane(index, now, passed)) return before;
  for (const After& after : op(index).after) {
    const auto before = ended_now(after.op, std::int64_t{what.iteration} - after.distance);
    if (!before) continue;
    const bool host = op(*before).phase == Phase::host;
    return Cause{*before, host ? WaitedFor::host : WaitedFor::dependency};
  }
  if (const auto by = signalled(index, now, passed)) return by;
  if (const auto own = ended_now(what.op, std::int64_t{what.iteration} - 1))
    return Cause{*own, WaitedFor::lane};
  return std::nullopt;
}

/// The operation so many places before it on its lane, in this iteration or an earlier one.
std::optional<std::size_t> WaitGraph::before_on_lane(std::size_t index, std::uint32_t back) const {
  const Span& what = span(index);
  const ProgramIndex& program = programs_[schedule_.ranks[what.rank.index()].program.index()];
  const auto& ops = program.lane_ops[op(index).lane->index()];
  const auto length = static_cast<std::int64_t>(ops.size());
  const std::int64_t place =
      what.iteration * length + program.place[what.op.index()] - std::int64_t{back};
  if (place < 0) return std::nullopt;
  return find(what.rank, OpId(ops[static_cast<std::size_t>(place % length)]), place / length);
}

/// A lane of several takes its operations in order, each when one that runs on it ends.
std::optional<WaitGraph::Cause> WaitGraph::on_lane(std::size_t index, Seconds now,
                                                   const std::vector<std::size_t>& passed) const {
  if (!op(index).lane) return std::nullopt;
  std::optional<std::size_t> begun_now;
  for (std::uint32_t back = 1; back <= kLaneWidth; ++back) {
    const auto before = before_on_lane(index, back);
    if (!before) break;
    if (span(*before).end == now && !has(passed, *before)) return Cause{*before, WaitedFor::lane};
    if (back == 1 && span(*before).end < now) break;
    if (back == 1 && span(*before).ready == now && !has(passed, *before)) begun_now = before;
  }
  if (!begun_now) return std::nullopt;
  return Cause{*begun_now, WaitedFor::lane};
}

std::vector<std::size_t> WaitGraph::before(std::size_t index) const {
  const Span& what = span(index);
  std::vector<std::size_t> all;
  const auto add = [&](std::optional<std::size_t> found) {
    if (found && span(*found).end <= what.ready) all.push_back(*found);
  };
  for (std::uint32_t back = 1; op(index).lane && back <= kLaneWidth; ++back) {
    const auto on_lane = before_on_lane(index, back);
    add(on_lane);
    if (!on_lane || span(*on_lane).end <= what.ready) break;
  }
  for (const After& after : op(index).after)
    add(find(what.rank, after.op, std::int64_t{what.iteration} - after.distance));
  add(find(what.rank, what.op, std::int64_t{what.iteration} - 1));
  for (const Await& await : op(index).awaits) {
    if (what.iteration < await.distance) continue;
    const auto& signals = signals_[await.event.index()][what.iteration - await.distance];
    const std::size_t needs = schedule_.events[await.event.index()].needs;
    for (std::size_t i = 0; i < std::min(needs, signals.size()); ++i) add(signals[i]);
  }
  return all;
}

std::vector<std::size_t> WaitGraph::members(std::size_t index) const {
  const Span& what = span(index);
  std::vector<std::size_t> all;
  for (const RankOp& member : members_.at(meeting_of(what.rank, what.op)))
    if (const auto other = find(member.rank, member.op, what.iteration)) all.push_back(*other);
  return all;
}

std::optional<std::size_t> WaitGraph::served_before(std::size_t index) const {
  const auto& queue = served_[op(index).queue->index()];
  const auto own = std::ranges::lower_bound(
      queue, std::pair(span(index).end, span(index).start), {},
      [&](std::size_t s) { return std::pair(span(s).end, span(s).start); });
  if (own == queue.begin()) return std::nullopt;
  return *(own - 1);
}

std::optional<Seconds> WaitGraph::arrives_after(std::size_t index) const {
  const auto& arrivals = arrivals_[op(index).queue->index()];
  const auto next = std::ranges::upper_bound(arrivals, span(index).ready);
  return next == arrivals.end() ? std::nullopt : std::optional(*next);
}

std::optional<WaitGraph::Cause> WaitGraph::signalled(std::size_t index, Seconds now,
                                                     const std::vector<std::size_t>& passed) const {
  for (const Await& await : op(index).awaits) {
    if (span(index).iteration < await.distance) continue;
    const auto& signals = signals_[await.event.index()][span(index).iteration - await.distance];
    const std::size_t needs = schedule_.events[await.event.index()].needs;
    if (signals.size() < needs || span(signals[needs - 1]).end != now) continue;
    if (!has(passed, signals[needs - 1])) return Cause{signals[needs - 1], WaitedFor::event};
  }
  return std::nullopt;
}

}  // namespace rehearse::inline explanation
