#include "engine/player.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"
#include "schedule/jitter.hpp"

namespace rehearse::inline engine {

Player::Player(Shared& shared, const EngineOptions& options)
    : shared_(shared),
      schedule_(shared.schedule),
      iterations_(shared.schedule, options, shared.recorder),
      pace_(shared),
      collectives_(shared, pace_),
      messages_(shared, pace_),
      factors_(shared.schedule),
      events_(shared.schedule.events.size()),
      queues_(shared.schedule.queues.size()) {
  index_programs();
  settle_stops();
  make_ranks();
}

/// As many whole stops as fall into the run, one at least, of as much time in all.
void Player::settle_stops() {
  stops_ = schedule_.interruptions;
  if (!stops_.any()) return;
  Seconds computed;
  for (const RankSpec& rank : schedule_.ranks)
    for (const Op& op : schedule_.programs[rank.program.index()].ops)
      if (const auto* compute = std::get_if<Compute>(&op.work); compute && compute->jittered)
        computed += compute->duration * schedule_.iterations;
  if (computed == Seconds(0)) return;
  const double expected = computed / stops_.every;
  const double played = std::max(1.0, std::round(expected));
  stops_.every = computed / played;
  stops_.time = stops_.time * (expected / played);
}

void Player::index_programs() {
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

void Player::make_ranks() {
  ranks_.resize(schedule_.ranks.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    RankState& rank = ranks_[r];
    rank.index = &programs_[schedule_.ranks[r].program.index()];
    const std::size_t ops = rank.index->program->ops.size();
    rank.lanes.resize(rank.index->lane_ops.size());
    rank.free_ops.resize(rank.index->free_ops.empty() ? 0 : ops);
    rank.done.assign(ops, 0);
    // One after the other, at even distances, so that few steps have as many stops as they should.
    RandomStream draw = random_stream(schedule_.seed, "interruptions");
    const double share = (static_cast<double>(r) + uniform01(draw)) / ranks_.size();
    rank.until_stopped = stops_.every.value() * share;
  }
}

Trace Player::play() {
  begin();
  shared_.network.run([this](Token token) { on_token(token); });
  if (!iterations_.complete())
    throw StuckError(
        "error: the simulation cannot finish: every operation that is left waits for another\n" +
        waiting_list());
  Trace trace = shared_.recorder.take();
  if (shared_.cluster.shared_cores)
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      trace.ready_share.push_back(pace_.ready_share(r));
  return trace;
}

void Player::begin() {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    go_on(r);
    drain();
  }
}

void Player::go_on(std::uint32_t rank) {
  for (std::uint32_t lane = 0; lane < ranks_[rank].lanes.size(); ++lane) advance_lane(rank, lane);
  for (const std::uint32_t op : ranks_[rank].index->free_ops) advance_free_op(rank, op);
}

void Player::go_on(Iterations::Next next, std::uint32_t rank) {
  if (next == Iterations::Next::rank) go_on(rank);
  if (next != Iterations::Next::job) return;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r)
    if (schedule_.ranks[r].job == schedule_.ranks[rank].job) go_on(r);
}

// Whether all that the operation of this iteration comes after is over. Otherwise the end of what
// it still waits for will call again: operations of the same rank always do, an event only if it is
// asked to here.
bool Player::met(RankOp what, std::uint32_t iteration, bool& awaits) {
  const RankState& rank = ranks_[what.rank];
  const Op& op = op_of(what);
  for (const After& after : op.after) {
    if (iteration < after.distance) continue;
    auto waited = static_cast<std::uint32_t>(after.op.index());
    if (after.distance == 0 && shared_.repeats.any())
      waited = shared_.repeats.played_for(what.rank, what.op, waited, iteration);
    if (rank.done[waited] + after.distance <= iteration) return false;
  }
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
std::uint32_t Player::width_of(std::uint32_t rank, std::uint32_t lane) const {
  if (!ranks_[rank].index->collectives[lane]) return 1;
  if (shared_.transport) return static_cast<std::uint32_t>(shared_.transport->at_a_time);
  return shared_.cluster.collectives == CollectiveModel::gloo ? GlooOptions::kAtATime : 1;
}

/// Whether the lane's next operation has to wait for one that runs on it.
bool Player::is_full(std::uint32_t rank, std::uint32_t lane) const {
  const LaneState& state = ranks_[rank].lanes[lane];
  if (state.running == 0) return false;
  const std::uint32_t op = ranks_[rank].index->lane_ops[lane][state.position];
  // An operation's last iteration may still run where the lane has few.
  return state.running >= width_of(rank, lane) || ranks_[rank].done[op] < state.iteration;
}

void Player::advance_lane(std::uint32_t rank, std::uint32_t lane) {
  LaneState& state = ranks_[rank].lanes[lane];
  const auto& ops = ranks_[rank].index->lane_ops[lane];
  while (iterations_.goes_on(rank, state.iteration) && !ops.empty() && !is_full(rank, lane) &&
         !state.held) {
    const RankOp what{rank, ops[state.position]};
    const std::uint32_t iteration = state.iteration;
    if (!met(what, iteration, state.awaits)) return;
    ++state.running;
    if (shared_.repeats.any()) near_cut(what, state);
    if (++state.position == ops.size()) state.position = 0, ++state.iteration;
    if (shared_.repeats.any()) pass_cut(rank, lane);
    begin_op(what, iteration);
  }
}

void Player::advance_free_op(std::uint32_t rank, std::uint32_t op) {
  FreeOpState& state = ranks_[rank].free_ops[op];
  if (state.issued > ranks_[rank].done[op] || !iterations_.goes_on(rank, state.issued)) return;
  if (met({rank, op}, state.issued, state.awaits)) begin_op({rank, op}, state.issued++);
}

void Player::advance(RankOp what) {
  const auto lane = op_of(what).lane;
  if (!lane) return advance_free_op(what.rank, what.op);
  const auto index = static_cast<std::uint32_t>(lane->index());
  const LaneState& state = ranks_[what.rank].lanes[index];
  if (ranks_[what.rank].index->lane_ops[index][state.position] == what.op)
    advance_lane(what.rank, index);
}

void Player::begin_op(RankOp what, std::uint32_t iteration) {
  if (!iterations_.takes_part(what.rank, iteration)) return shared_.over.push_back(what);
  shared_.recorder.mark(what, &Span::ready, shared_.network.now());
  const auto queue = op_of(what).queue;
  if (!queue) return start_work(what);
  queues_[queue->index()].waiting.push_back(what);
  serve(static_cast<std::uint32_t>(queue->index()));
}

/// Brings the first of those with the least priority to the front.
void Player::put_first(QueueState& state) const {
  const auto first = state.waiting.begin() + static_cast<std::ptrdiff_t>(state.next);
  const auto least = std::ranges::min_element(first, state.waiting.end(), {},
                                              [&](RankOp what) { return op_of(what).priority; });
  std::rotate(first, least, least + 1);
}

// Takes the operation that has waited longest, or the most urgent one.
void Player::serve(std::uint32_t queue) {
  QueueState& state = queues_[queue];
  if (state.busy || state.next == state.waiting.size()) return;
  if (schedule_.queues[queue].by_priority) put_first(state);
  const RankOp what = state.waiting[state.next++];
  if (state.next == state.waiting.size()) state.waiting.clear(), state.next = 0;
  state.busy = true;
  start_work(what);
}

void Player::start_work(RankOp what) {
  shared_.recorder.mark(what, &Span::start, shared_.network.now());
  const Work& work = op_of(what).work;
  if (const auto* compute = std::get_if<Compute>(&work)) return start_compute(what, *compute);
  if (const auto* transfer = std::get_if<Transfer>(&work)) return messages_.start(what, *transfer);
  if (const auto* collective = std::get_if<Collective>(&work))
    return collectives_.arrive(what, *collective, iteration_of(what));
  shared_.over.push_back(what);
}

void Player::start_compute(RankOp what, const Compute& compute) {
  double duration = compute.duration.value();
  if (compute.jittered) {
    const std::uint32_t iteration = iteration_of(what);
    const bool first = ranks_[what.rank].computed_in != iteration;
    ranks_[what.rank].computed_in = iteration;
    duration *= factors_.of(RankId(what.rank), OpId(what.op), iteration);
    duration *= operation_factor(schedule_, RankId(what.rank), OpId(what.op), iteration);
    duration += stopped_for(what, duration);
    const Seconds delay = schedule_.ranks[what.rank].delay;
    if (first && delay > Seconds(0))
      return shared_.call_in(delay.value(), {kAwake, what.rank, what.op});
  }
  if (pace_.changes(what)) return pace_.begin(what, duration);
  shared_.call_in(duration, {kComputed, what.rank, what.op});
}

/// A rank's stops add this to a computation. Where one stands for others, its stops come behind
/// them all: the trace has the computation so many times, and each stop once.
double Player::stopped_for(RankOp what, double duration) {
  if (!stops_.any()) return 0;
  double& left = ranks_[what.rank].until_stopped;
  const std::uint32_t repeats = shared_.repeats.stands_for(what, iteration_of(what));
  left -= duration * repeats;
  if (left > 0 || repeats > 1) return 0;
  const double times = std::floor(-left / stops_.every.value()) + 1;
  left += times * stops_.every.value();
  return times * stops_.time.value();
}

/// Of what runs on these cores the next one is over.
void Player::end_computing(std::uint32_t cores) {
  const Cores::Task task = pace_.end(cores);
  if (task.kind == Cores::Task::Kind::handling) {
    pace_.go_on(cores);
    return collectives_.end_flow(task.of, task.what);
  }
  shared_.over.push_back({task.of, task.what});
  if (collectives_.sockets()) collectives_.sockets()->free_core();
  pace_.go_on(cores);
}

void Player::drain() {
  std::vector<RankOp>& over = shared_.over;
  for (std::size_t i = 0; i < over.size() && !iterations_.finished(); ++i) end_op(over[i]);
  over.clear();
}

void Player::count_ended(RankOp what, std::uint32_t iteration) {
  RankState& rank = ranks_[what.rank];
  if (iteration >= rank.left.size())
    rank.left.resize(iteration + 1, static_cast<std::uint32_t>(rank.done.size()));
  iterations_.count_operation(what.rank);
  if (--rank.left[iteration] == 0)
    go_on(iterations_.end(what.rank, iteration,
                          shared_.network.now() + shared_.repeats.shift(iteration)),
          what.rank);
}

void Player::end_op(RankOp what) {
  RankState& rank = ranks_[what.rank];
  const Op& op = op_of(what);
  const std::uint32_t iteration = rank.done[what.op]++;
  const bool present = iterations_.takes_part(what.rank, iteration);
  if (present) record_end(what, iteration);
  if (shared_.repeats.any()) watch_repeats(what, iteration);
  count_ended(what, iteration);
  if (op.lane) --rank.lanes[op.lane->index()].running;
  if (present)
    for (const EventId id : op.signals) signal(id, iteration);
  if (op.lane)
    advance_lane(what.rank, static_cast<std::uint32_t>(op.lane->index()));
  else
    advance_free_op(what.rank, what.op);
  for (const std::uint32_t next : rank.index->successors[what.op]) advance({what.rank, next});
  // Behind a cut operations wait for others than those that they come after.
  if (shared_.repeats.any() && shared_.repeats.cut_of(iteration))
    for (std::uint32_t lane = 0; lane < rank.lanes.size(); ++lane) advance_lane(what.rank, lane);
  if (present && op.queue) {
    queues_[op.queue->index()].busy = false;
    serve(static_cast<std::uint32_t>(op.queue->index()));
  }
}

void Player::signal(EventId id, std::uint32_t iteration) {
  EventState& event = events_[id.index()];
  if (event.signal(iteration) != schedule_.events[id.index()].needs) return;
  const std::vector<RankOp> waiting = std::move(event.waiting);
  event.waiting.clear();
  for (const RankOp waiter : waiting) wake(waiter);
}

/// What an operation waited for has happened.
void Player::wake(RankOp waiter) {
  RankState& rank = ranks_[waiter.rank];
  const auto lane = op_of(waiter).lane;
  (lane ? rank.lanes[lane->index()].awaits : rank.free_ops[waiter.op].awaits) = false;
  advance(waiter);
}

void Player::on_token(Token token) {
  if (iterations_.over()) return;
  dispatch(token);
  drain();
}

void Player::dispatch(Token token) {
  const RankOp what{token.a, token.b};
  switch (token.kind) {
    case kAwake:
      return start_work(what);
    case kComputed:
      return shared_.over.push_back(what);
    case kPacedComputed:
      return pace_.holds(token.a, token.b) ? end_computing(token.a) : void();
    case kTransferStart:
      return messages_.send(what, iteration_of(what));
    case kMessageTurn:
      return messages_.take_turn(what);
    case kTransferred:
      return messages_.end(what);
    case kCoreTurn:
      return collectives_.sockets()->take_core(token.a);
    case kCoreFree:
      return collectives_.sockets()->offer_cores();
    case kCollectiveStart:
      return collectives_.start_flows(token.a, token.b);
    case kFlowStart:
      return collectives_.send(token.a, token.b);
    case kFlowDone:
      return collectives_.end_flow(token.a, token.b);
    case kFlowsDone:
      return collectives_.end_flows(token.a);
    case kLeft:
      return collectives_.sockets()->leave(token.a, token.b);
    case kResumed:
      ranks_[token.a].lanes[token.b].held = false;
      return advance_lane(token.a, token.b);
    case kCaughtUp:
      return pace_.caught_up(token.a, token.b) ? collectives_.end(token.a) : void();
    default:
      check(false, "an unknown token");
  }
}

}  // namespace rehearse::inline engine
