#include "engine/simulation.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace rehearse {

Simulation::Simulation(const Schedule& schedule, const Cluster& cluster, const EngineOptions& options,
                       const CollectiveTable& collectives)
    : schedule_(schedule), cluster_(cluster), options_(options), collectives_(collectives) {
  index_programs();
  make_ranks();
  events_.resize(schedule.events.size());
  for (EventState& event : events_) event.signals.assign(schedule.iterations, 0);
  queues_.resize(schedule.queues.size());
  states_.resize(collectives.size());
}

void Simulation::index_programs() {
  for (const Program& program : schedule_.programs) {
    ProgramIndex index{.program = &program, .lane_ops = {}, .successors = {}, .free_ops = {}};
    index.lane_ops.resize(program.lanes.size());
    index.successors.resize(program.ops.size());
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      if (op.lane) index.lane_ops[op.lane->index()].push_back(i);
      else index.free_ops.push_back(i);
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
    rank.left.assign(schedule_.iterations, static_cast<std::uint32_t>(ops.size()));
    trace_.iteration_end[r].assign(schedule_.iterations, Seconds(0));
    if (!ops.empty()) iterations_left_ += schedule_.iterations;
    spans += ops.size() * schedule_.iterations;
    const bool recorded = spans <= options_.span_limit || r == 0;
    if (recorded && trace_.recorded_ranks == r) trace_.recorded_ranks = r + 1;
    const bool has_role = std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.role != UpdateRole::none; });
    if (trace_.recorded_ranks > r || has_role) rank.current.resize(ops.size());
  }
}

Trace Simulation::play(Network& network) {
  network_ = &network;
  begin();
  network.run();
  return finish();
}

void Simulation::begin() {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    for (std::uint32_t lane = 0; lane < ranks_[r].lanes.size(); ++lane) advance_lane(r, lane);
    for (const std::uint32_t op : ranks_[r].index->free_ops) advance_free_op(r, op);
    drain();
  }
}

Trace Simulation::finish() {
  if (iterations_left_ > 0)
    throw StuckError("error: the simulation cannot finish: every operation that is left waits for another\n" +
                     waiting_list());
  trace_.end = Seconds(network_->now());
  std::stable_sort(trace_.spans.begin(), trace_.spans.end(), [](const Span& a, const Span& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.start < b.start;
  });
  return std::move(trace_);
}

// Whether all that the operation of this iteration comes after is over. Otherwise the end of what it still waits for
// will call again: operations of the same rank always do, an event only if it is asked to here.
bool Simulation::met(RankOp what, std::uint32_t iteration, bool& awaits) {
  const RankState& rank = ranks_[what.rank];
  const Op& op = op_of(what);
  for (const After& after : op.after)
    if (iteration >= after.distance && rank.done[after.op.index()] + after.distance <= iteration) return false;
  for (const Await& await : op.awaits) {
    if (iteration < await.distance) continue;
    EventState& event = events_[await.event.index()];
    if (event.signals[iteration - await.distance] >= schedule_.events[await.event.index()].needs) continue;
    if (!awaits) event.waiting.push_back(what);
    awaits = true;
    return false;
  }
  return true;
}

void Simulation::advance_lane(std::uint32_t rank, std::uint32_t lane) {
  LaneState& state = ranks_[rank].lanes[lane];
  const auto& ops = ranks_[rank].index->lane_ops[lane];
  if (state.busy || state.iteration >= schedule_.iterations || ops.empty()) return;
  const RankOp what{rank, ops[state.position]};
  if (!met(what, state.iteration, state.awaits)) return;
  state.busy = true;
  begin_op(what, state.iteration);
}

void Simulation::advance_free_op(std::uint32_t rank, std::uint32_t op) {
  FreeOpState& state = ranks_[rank].free_ops[op];
  if (state.issued > ranks_[rank].done[op] || state.issued == schedule_.iterations) return;
  if (met({rank, op}, state.issued, state.awaits)) begin_op({rank, op}, state.issued++);
}

void Simulation::advance(RankOp what) {
  const auto lane = op_of(what).lane;
  if (!lane) return advance_free_op(what.rank, what.op);
  const auto index = static_cast<std::uint32_t>(lane->index());
  const LaneState& state = ranks_[what.rank].lanes[index];
  if (!state.busy && ranks_[what.rank].index->lane_ops[index][state.position] == what.op)
    advance_lane(what.rank, index);
}

void Simulation::begin_op(RankOp what, std::uint32_t iteration) {
  mark(what, &Span::ready);
  const auto queue = op_of(what).queue;
  if (!queue) return start_work(what, iteration);
  queues_[queue->index()].waiting.push_back(what);
  serve(static_cast<std::uint32_t>(queue->index()));
}

// Takes the operation that has waited longest.
void Simulation::serve(std::uint32_t queue) {
  QueueState& state = queues_[queue];
  if (state.busy || state.next == state.waiting.size()) return;
  const RankOp what = state.waiting[state.next++];
  if (state.next == state.waiting.size()) state.waiting.clear(), state.next = 0;
  state.busy = true;
  start_work(what, ranks_[what.rank].done[what.op]);
}

void Simulation::start_work(RankOp what, std::uint32_t iteration) {
  mark(what, &Span::start);
  const Work& work = op_of(what).work;
  if (const auto* compute = std::get_if<Compute>(&work)) return start_compute(what, *compute, iteration);
  if (const auto* transfer = std::get_if<Transfer>(&work)) return start_transfer(what, *transfer);
  if (const auto* collective = std::get_if<Collective>(&work)) return arrive(what, *collective);
  over_.push_back(what);
}

double Simulation::factor(std::uint32_t rank, std::uint32_t iteration) {
  RankState& state = ranks_[rank];
  if (state.factor_iteration != iteration) {
    state.factor = compute_factor(schedule_, RankId(rank), iteration);
    state.factor_iteration = iteration;
  }
  return state.factor;
}

void Simulation::start_compute(RankOp what, const Compute& compute, std::uint32_t iteration) {
  double duration = compute.duration.value();
  if (compute.jittered) duration *= factor(what.rank, iteration);
  RankState& rank = ranks_[what.rank];
  const auto lane = op_of(what).lane;
  const bool slowed = schedule_.overlap_slowdown != 1 && lane &&
                      rank.index->program->lanes[lane->index()].kind == LaneKind::compute;
  if (!slowed) return network_->call_at(network_->now() + duration, {kComputed, what.rank, what.op});
  check(!rank.computing.active, "a rank has two compute lanes");
  rank.computing.active = true;
  rank.computing.op = what.op;
  rank.computing.remaining = duration;
  rank.computing.since = network_->now();
  schedule_slowed(what.rank);
}

void Simulation::schedule_slowed(std::uint32_t rank) {
  Computing& computing = ranks_[rank].computing;
  const double slowdown = ranks_[rank].communicating > 0 ? schedule_.overlap_slowdown : 1;
  network_->call_at(network_->now() + computing.remaining * slowdown, {kSlowedComputed, rank, ++computing.version});
}

void Simulation::change_communicating(std::uint32_t rank, int change) {
  RankState& state = ranks_[rank];
  const bool before = state.communicating > 0;
  state.communicating += static_cast<std::uint32_t>(change);
  const bool after = state.communicating > 0;
  Computing& computing = state.computing;
  if (before == after || !computing.active) return;
  const double elapsed = network_->now() - computing.since;
  computing.remaining -= elapsed / (before ? schedule_.overlap_slowdown : 1);
  computing.remaining = std::max(computing.remaining, 0.0);
  computing.since = network_->now();
  schedule_slowed(rank);
}

void Simulation::start_transfer(RankOp what, const Transfer& transfer) {
  const Place from = place(transfer.source.value_or(RankId(what.rank)));
  const Place to = place(transfer.target.value_or(RankId(what.rank)));
  change_communicating(what.rank, +1);
  // Within one place there is nothing to cross.
  const Token token{from == to || transfer.size.value() <= 0 ? kTransferred : kTransferStart, what.rank, what.op};
  const Seconds latency = from == to ? Seconds(0) : path_latency(cluster_, from, to);
  network_->call_at(network_->now() + latency.value(), token);
}

void Simulation::arrive(RankOp what, const Collective& collective) {
  const std::uint32_t id = collectives_.id(RankId(what.rank), collective, OpId(what.op));
  CollectiveState& state = states_[id];
  state.members.push_back(what);
  if (++state.arrived < schedule_.groups[collectives_.group(id).index()].members.size()) return;
  for (const RankOp member : state.members) {
    mark(member, &Span::start);
    change_communicating(member.rank, +1);
  }
  network_->call_at(network_->now() + collectives_.planned(id).latency.value(), {kCollectiveStart, id, 0});
}

void Simulation::start_flows(std::uint32_t collective) {
  const PlannedCollective& planned = collectives_.planned(collective);
  CollectiveState& state = states_[collective];
  const auto flows = static_cast<std::uint32_t>(planned.plan->plan.flows.size());
  state.flows_left = flows;
  if (flows == 0 || planned.size.value() <= 0) return end_collective(collective);
  if (!planned.plan->plan.after.empty()) state.waits_for = planned.plan->waits_for;
  for (std::uint32_t flow = 0; flow < flows; ++flow)
    if (planned.plan->waits_for[flow] == 0) start_flow(collective, flow);
}

void Simulation::start_flow(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& planned = collectives_.planned(collective);
  const FlowPlan::Flow& edge = planned.plan->plan.flows[flow];
  if (edge.share <= 0) return end_flow(collective, flow);
  const double latency = edge.latency.value() * planned.latency_scale;
  if (latency <= 0) return send_flow(collective, flow);
  network_->call_at(network_->now() + latency, {kFlowStart, collective, flow});
}

void Simulation::send_flow(std::uint32_t collective, std::uint32_t flow) {
  const PlannedCollective& planned = collectives_.planned(collective);
  const FlowPlan::Flow& edge = planned.plan->plan.flows[flow];
  const auto [source, target] = planned.plan->ports[flow];
  const Bytes bytes = planned.size * edge.share;
  trace_.traffic.bytes[static_cast<std::size_t>(edge.source.kind)] += bytes.value();
  ++trace_.traffic.flows;
  network_->start_flow(source, target, bytes, {kFlowDone, collective, flow});
}

void Simulation::end_flow(std::uint32_t collective, std::uint32_t flow) {
  const PlayablePlan& plan = *collectives_.planned(collective).plan;
  CollectiveState& state = states_[collective];
  const bool last = --state.flows_left == 0;
  for (std::uint32_t i = plan.next_begin[flow]; i < plan.next_begin[flow + 1]; ++i)
    if (--state.waits_for[plan.next[i]] == 0) start_flow(collective, plan.next[i]);
  if (last) end_collective(collective);
}

void Simulation::end_collective(std::uint32_t collective) {
  CollectiveState& state = states_[collective];
  state.arrived = 0;
  for (const RankOp member : state.members) {
    change_communicating(member.rank, -1);
    over_.push_back(member);
  }
  state.members.clear();
}

void Simulation::on_token(Token token) {
  const RankOp what{token.a, token.b};
  switch (token.kind) {
    case kComputed: over_.push_back(what); break;
    case kSlowedComputed:
      if (Computing& computing = ranks_[token.a].computing; computing.active && computing.version == token.b) {
        computing.active = false;
        over_.push_back({token.a, computing.op});
      }
      break;
    case kTransferStart: {
      const auto& transfer = std::get<Transfer>(op_of(what).work);
      const PortPair ports = ports_between(cluster_, place(transfer.source.value_or(RankId(token.a))),
                                           place(transfer.target.value_or(RankId(token.a))));
      trace_.traffic.bytes[static_cast<std::size_t>(ports.source.kind)] += transfer.size.value();
      ++trace_.traffic.flows;
      network_->start_flow(network_->index_of(ports.source), network_->index_of(ports.target), transfer.size,
                           {kTransferred, token.a, token.b});
      break;
    }
    case kTransferred:
      change_communicating(token.a, -1);
      over_.push_back(what);
      break;
    case kCollectiveStart: start_flows(token.a); break;
    case kFlowStart: send_flow(token.a, token.b); break;
    case kFlowDone: end_flow(token.a, token.b); break;
    default: check(false, "an unknown token");
  }
  drain();
}

void Simulation::drain() {
  for (std::size_t i = 0; i < over_.size(); ++i) end_op(over_[i]);
  over_.clear();
}

void Simulation::end_op(RankOp what) {
  RankState& rank = ranks_[what.rank];
  const Op& op = op_of(what);
  const std::uint32_t iteration = rank.done[what.op]++;
  if (!rank.current.empty()) {
    Span& span = rank.current[what.op];
    span.rank = RankId(what.rank);
    span.op = OpId(what.op);
    span.iteration = iteration;
    span.end = Seconds(network_->now());
    if (what.rank < trace_.recorded_ranks || op.role != UpdateRole::none) trace_.spans.push_back(span);
  }
  if (--rank.left[iteration] == 0) {
    trace_.iteration_end[what.rank][iteration] = Seconds(network_->now());
    --iterations_left_;
    if (options_.progress && what.rank == 0) options_.progress((iteration + 1.0) / schedule_.iterations);
  }
  if (op.lane) {
    LaneState& lane = rank.lanes[op.lane->index()];
    lane.busy = false;
    if (++lane.position == rank.index->lane_ops[op.lane->index()].size()) lane.position = 0, ++lane.iteration;
  }
  for (const EventId id : op.signals) {
    EventState& event = events_[id.index()];
    if (++event.signals[iteration] != schedule_.events[id.index()].needs) continue;
    const std::vector<RankOp> waiting = std::move(event.waiting);
    event.waiting.clear();
    for (const RankOp waiter : waiting) {
      const auto lane = op_of(waiter).lane;
      if (lane) ranks_[waiter.rank].lanes[lane->index()].awaits = false;
      else ranks_[waiter.rank].free_ops[waiter.op].awaits = false;
      advance(waiter);
    }
  }
  if (op.lane) advance_lane(what.rank, static_cast<std::uint32_t>(op.lane->index()));
  else advance_free_op(what.rank, what.op);
  for (const std::uint32_t next : rank.index->successors[what.op]) advance({what.rank, next});
  if (op.queue) {
    queues_[op.queue->index()].busy = false;
    serve(static_cast<std::uint32_t>(op.queue->index()));
  }
}

void Simulation::mark(RankOp what, Seconds Span::* when) {
  RankState& rank = ranks_[what.rank];
  if (!rank.current.empty()) rank.current[what.op].*when = Seconds(network_->now());
}

std::string Simulation::wait_of(RankOp what, std::uint32_t iteration, bool begun) const {
  const RankState& rank = ranks_[what.rank];
  const Program& program = *rank.index->program;
  const Op& op = op_of(what);
  std::string text = "  rank " + std::to_string(what.rank);
  if (op.lane) text += ", lane " + program.lanes[op.lane->index()].name;
  text += ", iteration " + std::to_string(iteration) + ": " + op.label;
  for (const After& after : op.after)
    if (rank.done[after.op.index()] + after.distance <= iteration && iteration >= after.distance)
      text += "; waits for " + program.ops[after.op.index()].label;
  for (const Await& await : op.awaits) {
    const Event& event = schedule_.events[await.event.index()];
    if (iteration >= await.distance && events_[await.event.index()].signals[iteration - await.distance] < event.needs)
      text += "; waits for event " + event.name;
  }
  if (begun && std::holds_alternative<Collective>(op.work)) text += "; waits for the other members of its group";
  return text + "\n";
}

// Heads of lanes and operations without a lane; what merely stands behind another is left out.
std::string Simulation::waiting_list() const {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> waits;
  for (std::uint32_t r = 0; r < ranks_.size() && waits.size() < kShown; ++r) {
    const RankState& rank = ranks_[r];
    for (std::size_t lane = 0; lane < rank.lanes.size(); ++lane) {
      const LaneState& state = rank.lanes[lane];
      if (rank.index->lane_ops[lane].empty() || state.iteration >= schedule_.iterations) continue;
      waits.push_back(wait_of({r, rank.index->lane_ops[lane][state.position]}, state.iteration, state.busy));
    }
    for (const std::uint32_t op : rank.index->free_ops)
      if (rank.done[op] < schedule_.iterations)
        waits.push_back(wait_of({r, op}, rank.done[op], rank.free_ops[op].issued > rank.done[op]));
  }
  waits.resize(std::min(waits.size(), kShown));
  return std::accumulate(waits.begin(), waits.end(), std::string());
}

}  // namespace rehearse
