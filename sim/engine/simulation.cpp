#include "engine/simulation.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "schedule/jitter.hpp"

namespace rehearse {
namespace {

/// By rank and then by start. They come in order of their ends, so that each rank's are nearly
/// sorted.
std::vector<Span> in_order(const std::vector<Span>& spans, std::size_t ranks) {
  std::vector<std::size_t> place(ranks + 1, 0);
  for (const Span& span : spans) ++place[span.rank.index() + 1];
  for (std::size_t rank = 0; rank < ranks; ++rank) place[rank + 1] += place[rank];
  const std::vector<std::size_t> first = place;
  std::vector<Span> sorted(spans.size());
  for (const Span& span : spans) sorted[place[span.rank.index()]++] = span;
  const auto at = [&](std::size_t i) { return sorted.begin() + static_cast<std::ptrdiff_t>(i); };
  for (std::size_t rank = 0; rank < ranks; ++rank)
    std::stable_sort(at(first[rank]), at(first[rank + 1]),
                     [](const Span& a, const Span& b) { return a.start < b.start; });
  return sorted;
}

}  // namespace

Simulation::Simulation(const Schedule& schedule, const Cluster& cluster, const Machine& machine,
                       const EngineOptions& options, const CollectiveTable& collectives)
    : schedule_(schedule),
      cluster_(cluster),
      comm_(machine.comm ? &*machine.comm : nullptr),
      options_(options),
      collectives_(collectives),
      factors_(schedule) {
  index_programs();
  make_ranks();
  if (schedule.sampled_ranks > 0)
    for (std::uint32_t k = 0; k < schedule.iterations; ++k)
      present_.push_back(participants(schedule, k));
  events_.resize(schedule.events.size());
  queues_.resize(schedule.queues.size());
  states_.resize(2 * collectives.size());
  transfer_slowdown_ = schedule.overlap_slowdown.value_or(1);
  overlap_costs_ = transfer_slowdown_ != 1;
  for (std::uint32_t id = 0; id < collectives.size(); ++id) {
    const PlannedCollective& planned = collectives.planned(id);
    overlap_costs_ = overlap_costs_ || planned.compute_slowdown != 1 || planned.comm_slowdown != 1;
  }
  if (cluster.shared_cores)
    cores_.emplace_back(*cluster.shared_cores,
                        cluster.busy_cores ? cluster.busy_cores->slowdown : 1);
  else if (overlap_costs_)
    cores_.resize(ranks_.size());
}

void Simulation::index_programs() {
  for (const Program& program : schedule_.programs) {
    ProgramIndex index;
    index.program = &program;
    index.lane_ops.resize(program.lanes.size());
    index.collectives.resize(program.lanes.size(), false);
    index.successors.resize(program.ops.size());
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      if (op.lane)
        index.lane_ops[op.lane->index()].push_back(i);
      else
        index.free_ops.push_back(i);
      if (op.lane && std::holds_alternative<Collective>(op.work))
        index.collectives[op.lane->index()] = true;
      for (const After& after : op.after) index.successors[after.op.index()].push_back(i);
    }
    programs_.push_back(std::move(index));
  }
}

void Simulation::make_ranks() {
  std::size_t spans = 0;
  ranks_.resize(schedule_.ranks.size());
  trace_.iteration_end.resize(ranks_.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    RankState& rank = ranks_[r];
    rank.index = &programs_[schedule_.ranks[r].program.index()];
    const auto& ops = rank.index->program->ops;
    rank.lanes.resize(rank.index->lane_ops.size());
    rank.free_ops.resize(rank.index->free_ops.empty() ? 0 : ops.size());
    rank.done.assign(ops.size(), 0);
    slowest_.resize(schedule_.ranks[r].job + 1, 0);
    if (in_background(static_cast<std::uint32_t>(r))) continue;
    if (!is_open_ended() || ops.empty())
      trace_.iteration_end[r].assign(schedule_.iterations, Seconds(0));
    if (!ops.empty()) iterations_left_ += schedule_.iterations;
    spans += ops.size() * schedule_.iterations;
    const bool recorded = spans <= options_.span_limit || r == 0;
    if (recorded && trace_.recorded_ranks == r) trace_.recorded_ranks = r + 1;
    const bool has_role = std::any_of(ops.begin(), ops.end(),
                                      [](const Op& op) { return op.role != UpdateRole::none; });
    if (trace_.recorded_ranks > r || has_role) rank.current.resize(ops.size());
  }
}

Trace Simulation::play(Network& network) {
  network_ = &network;
  trace_.open_ended = is_open_ended();
  begin();
  network.run();
  return finish();
}

void Simulation::begin() {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    go_on(r);
    drain();
  }
}

Trace Simulation::finish() {
  if (iterations_left_ > 0 || (is_open_ended() && !finished_))
    throw StuckError(
        "error: the simulation cannot finish: every operation that is left waits for another\n" +
        waiting_list());
  trace_.spans = in_order(trace_.spans, ranks_.size());
  return std::move(trace_);
}

// Whether a rank may begin with this iteration. Background ranks never finish. A cap on how far a
// lane or a rank may run ahead keeps steps of no length from looping for ever.
bool Simulation::goes_on(std::uint32_t rank, std::uint32_t iteration) const {
  constexpr std::size_t kLanesAhead = 4, kRanksAhead = 1000;
  if (!in_background(rank)) {
    if (!is_open_ended() || closing_) return iteration < schedule_.iterations;
    return iteration < trace_.iteration_end[rank].size() + kLanesAhead;
  }
  return iteration < trace_.iteration_end[rank].size() + kLanesAhead &&
         iteration < slowest_[schedule_.ranks[rank].job] + kRanksAhead;
}

void Simulation::go_on(std::uint32_t rank) {
  for (std::uint32_t lane = 0; lane < ranks_[rank].lanes.size(); ++lane) advance_lane(rank, lane);
  for (const std::uint32_t op : ranks_[rank].index->free_ops) advance_free_op(rank, op);
}

// What waited for this iteration's end may go on.
void Simulation::end_iteration_in_background(std::uint32_t rank) {
  const std::uint32_t job = schedule_.ranks[rank].job;
  auto least = static_cast<std::uint32_t>(trace_.iteration_end[rank].size());
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (schedule_.ranks[r].job == job && !ranks_[r].done.empty())
      least = std::min(least, static_cast<std::uint32_t>(trace_.iteration_end[r].size()));
  if (least == slowest_[job]) return go_on(rank);
  slowest_[job] = least;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r)
    if (schedule_.ranks[r].job == job) go_on(r);
}

// Whether all that the operation of this iteration comes after is over. Otherwise the end of what
// it still waits for will call again: operations of the same rank always do, an event only if it is
// asked to here.
bool Simulation::met(RankOp what, std::uint32_t iteration, bool& awaits) {
  const RankState& rank = ranks_[what.rank];
  const Op& op = op_of(what);
  for (const After& after : op.after)
    if (iteration >= after.distance && rank.done[after.op.index()] + after.distance <= iteration)
      return false;
  for (const Await& await : op.awaits) {
    const auto instance = await.instance(iteration);
    if (!instance) continue;
    EventState& event = events_[await.event.index()];
    if (event.signals_of(*instance) >= schedule_.events[await.event.index()].needs) continue;
    if (!awaits) event.waiting.push_back(what);
    awaits = true;
    return false;
  }
  return true;
}

/// Operations that a lane runs at once: one, but for collectives that a back end's threads take.
std::uint32_t Simulation::width_of(std::uint32_t rank, std::uint32_t lane) const {
  const bool threads =
      comm_ && comm_->transport && ranks_[rank].index->collectives[lane];
  return threads ? static_cast<std::uint32_t>(comm_->transport->at_a_time) : 1;
}

/// Whether the lane's next operation has to wait for one that runs on it.
bool Simulation::is_full(std::uint32_t rank, std::uint32_t lane) const {
  const LaneState& state = ranks_[rank].lanes[lane];
  if (state.running == 0) return false;
  const std::uint32_t op = ranks_[rank].index->lane_ops[lane][state.position];
  // An operation's last iteration may still run where the lane has few.
  return state.running >= width_of(rank, lane) || ranks_[rank].done[op] < state.iteration;
}

void Simulation::advance_lane(std::uint32_t rank, std::uint32_t lane) {
  LaneState& state = ranks_[rank].lanes[lane];
  const auto& ops = ranks_[rank].index->lane_ops[lane];
  while (goes_on(rank, state.iteration) && !ops.empty() && !is_full(rank, lane)) {
    const RankOp what{rank, ops[state.position]};
    const std::uint32_t iteration = state.iteration;
    if (!met(what, iteration, state.awaits)) return;
    ++state.running;
    if (++state.position == ops.size()) state.position = 0, ++state.iteration;
    begin_op(what, iteration);
  }
}

void Simulation::advance_free_op(std::uint32_t rank, std::uint32_t op) {
  FreeOpState& state = ranks_[rank].free_ops[op];
  if (state.issued > ranks_[rank].done[op] || !goes_on(rank, state.issued)) return;
  if (met({rank, op}, state.issued, state.awaits)) begin_op({rank, op}, state.issued++);
}

void Simulation::advance(RankOp what) {
  const auto lane = op_of(what).lane;
  if (!lane) return advance_free_op(what.rank, what.op);
  const auto index = static_cast<std::uint32_t>(lane->index());
  const LaneState& state = ranks_[what.rank].lanes[index];
  if (ranks_[what.rank].index->lane_ops[index][state.position] == what.op)
    advance_lane(what.rank, index);
}

void Simulation::begin_op(RankOp what, std::uint32_t iteration) {
  if (!takes_part(what.rank, iteration)) return over_.push_back(what);
  mark(what, &Span::ready);
  const auto queue = op_of(what).queue;
  if (!queue) return start_work(what, iteration);
  queues_[queue->index()].waiting.push_back(what);
  serve(static_cast<std::uint32_t>(queue->index()));
}

/// Brings the first of those with the least priority to the front.
void Simulation::put_first(QueueState& state) const {
  const auto first = state.waiting.begin() + static_cast<std::ptrdiff_t>(state.next);
  const auto least = std::ranges::min_element(first, state.waiting.end(), {},
                                              [&](RankOp what) { return op_of(what).priority; });
  std::rotate(first, least, least + 1);
}

// Takes the operation that has waited longest, or the most urgent one.
void Simulation::serve(std::uint32_t queue) {
  QueueState& state = queues_[queue];
  if (state.busy || state.next == state.waiting.size()) return;
  if (schedule_.queues[queue].by_priority) put_first(state);
  const RankOp what = state.waiting[state.next++];
  if (state.next == state.waiting.size()) state.waiting.clear(), state.next = 0;
  state.busy = true;
  start_work(what, ranks_[what.rank].done[what.op]);
}

void Simulation::drain() {
  for (std::size_t i = 0; i < over_.size() && !finished_; ++i) end_op(over_[i]);
  over_.clear();
}

void Simulation::end_op(RankOp what) {
  RankState& rank = ranks_[what.rank];
  const Op& op = op_of(what);
  const std::uint32_t iteration = rank.done[what.op]++;
  const bool present = takes_part(what.rank, iteration);
  if (present && !rank.current.empty()) {
    Span& span = rank.current[what.op];
    span.rank = RankId(what.rank);
    span.op = OpId(what.op);
    span.iteration = iteration;
    span.end = Seconds(network_->now());
    if (what.rank < trace_.recorded_ranks || op.role != UpdateRole::none)
      trace_.spans.push_back(span);
  }
  if (iteration >= rank.left.size())
    rank.left.resize(iteration + 1, static_cast<std::uint32_t>(rank.done.size()));
  if (!in_background(what.rank)) ++operations_;
  if (--rank.left[iteration] == 0) end_iteration(what.rank, iteration);
  if (op.lane) --rank.lanes[op.lane->index()].running;
  for (const EventId id : op.signals) {
    if (!present) break;
    EventState& event = events_[id.index()];
    if (event.signal(iteration) != schedule_.events[id.index()].needs) continue;
    const std::vector<RankOp> waiting = std::move(event.waiting);
    event.waiting.clear();
    for (const RankOp waiter : waiting) {
      const auto lane = op_of(waiter).lane;
      if (lane)
        ranks_[waiter.rank].lanes[lane->index()].awaits = false;
      else
        ranks_[waiter.rank].free_ops[waiter.op].awaits = false;
      advance(waiter);
    }
  }
  if (op.lane)
    advance_lane(what.rank, static_cast<std::uint32_t>(op.lane->index()));
  else
    advance_free_op(what.rank, what.op);
  for (const std::uint32_t next : rank.index->successors[what.op]) advance({what.rank, next});
  if (present && op.queue) {
    queues_[op.queue->index()].busy = false;
    serve(static_cast<std::uint32_t>(op.queue->index()));
  }
}

void Simulation::end_iteration(std::uint32_t rank, std::uint32_t iteration) {
  std::vector<Seconds>& ends = trace_.iteration_end[rank];
  if (in_background(rank)) {
    ends.emplace_back(network_->now());  // iterations end in order
    return end_iteration_in_background(rank);
  }
  // Not the clock's last date: a computation that ended early leaves a timer that means nothing.
  trace_.end = Seconds(network_->now());
  if (is_open_ended())
    ends.push_back(trace_.end);  // iterations end in order
  else
    ends[iteration] = trace_.end;
  if (iteration < schedule_.iterations) --iterations_left_;
  if (options_.progress && rank == 0)
    options_.progress(std::min(1.0, (iteration + 1.0) / schedule_.iterations));
  if (!is_open_ended()) return;
  ++iterations_;
  finished_ = closing_ ? iterations_left_ == 0 : suffices();
  if (!finished_) go_on(rank);
}

// Whether an open-ended run may stop. Asking costs as much as all that was played.
bool Simulation::suffices() {
  constexpr double kMoreEachTime = 1.4;
  const bool at_limit = operations_ >= options_.most_operations;
  if (iterations_left_ > 0) {
    closing_ = trace_.cut_short = at_limit;
    return false;
  }
  if (iterations_ < asks_at_ && !at_limit) return false;
  asks_at_ = static_cast<std::uint64_t>(kMoreEachTime * static_cast<double>(iterations_)) + 1;
  const bool enough = options_.enough(trace_);
  trace_.cut_short = at_limit && !enough;
  return enough || at_limit;
}

void Simulation::mark(RankOp what, Seconds Span::*when) {
  RankState& rank = ranks_[what.rank];
  if (!rank.current.empty()) rank.current[what.op].*when = Seconds(network_->now());
}

}  // namespace rehearse
