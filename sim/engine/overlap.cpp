// Compute beside communication: either may take longer for the other.
//
// Compute goes on at the pace of what slows it down most, and of its share of the cores. A
// collective's flows know nothing of compute: what it falls behind them while one of its ranks
// computes is made up for after they have arrived, at the same pace as it would have gone.
#include <algorithm>

#include "base/error.hpp"
#include "engine/simulation.hpp"

namespace rehearse {

bool Simulation::overlaps(RankOp what) const {
  const auto lane = op_of(what).lane;
  return overlap_costs_ && lane &&
         ranks_[what.rank].index->program->lanes[lane->index()].kind == LaneKind::compute;
}

void Simulation::begin_computing(RankOp what, double duration) {
  double slowdown = 1;
  if (overlaps(what)) {
    RankState& rank = ranks_[what.rank];
    check(!rank.computing, "a rank has two compute lanes");
    rank.computing = what.op;
    count_computing(what.rank, +1);
    slowdown = slowdown_of(what.rank);
  }
  const std::uint32_t cores = cores_of(what.rank);
  cores_[cores].begin({what.rank, what.op}, duration, slowdown, network_->now());
  schedule_computed(cores);
}

/// Of the computations on these cores the next one is over.
void Simulation::end_computing(std::uint32_t cores) {
  const Cores::Task task = cores_[cores].end_next(network_->now());
  if (task.kind == Cores::Task::Kind::handling) {
    if (!cores_[cores].idle()) schedule_computed(cores);
    return end_flow(task.of, task.what);
  }
  const RankOp what{task.of, task.what};
  if (overlaps(what)) {
    ranks_[what.rank].computing.reset();
    count_computing(what.rank, -1);
  }
  over_.push_back(what);
  if (!waiting_starts_.empty()) network_->call_at(network_->now(), {kCoreFree, 0, 0});
  if (!cores_[cores].idle()) schedule_computed(cores);
}

void Simulation::schedule_computed(std::uint32_t cores) {
  network_->call_at(cores_[cores].next_end(), {kPacedComputed, cores, cores_[cores].version()});
}

/// That of the communication in flight that slows compute down most.
double Simulation::slowdown_of(std::uint32_t rank) const {
  const std::vector<double>& slowdowns = ranks_[rank].slowdowns;
  return slowdowns.empty() ? 1 : *std::max_element(slowdowns.begin(), slowdowns.end());
}

void Simulation::begin_communicating(std::uint32_t rank, double slowdown) {
  if (slowdown == 1) return;
  const double before = slowdown_of(rank);
  ranks_[rank].slowdowns.push_back(slowdown);
  change_slowdown(rank, before);
}

void Simulation::end_communicating(std::uint32_t rank, double slowdown) {
  if (slowdown == 1) return;
  const double before = slowdown_of(rank);
  std::vector<double>& slowdowns = ranks_[rank].slowdowns;
  slowdowns.erase(std::find(slowdowns.begin(), slowdowns.end(), slowdown));
  change_slowdown(rank, before);
}

/// What is left of the rank's compute goes on at another pace.
void Simulation::change_slowdown(std::uint32_t rank, double before) {
  const double slowdown = slowdown_of(rank);
  const auto& computing = ranks_[rank].computing;
  if (before == slowdown || !computing) return;
  const std::uint32_t cores = cores_of(rank);
  cores_[cores].slow({rank, *computing}, slowdown, network_->now());
  schedule_computed(cores);
}

void Simulation::begin_lag(std::uint32_t collective) {
  if (planned(collective).comm_slowdown == 1) return;
  Lag& lag = states_[collective].lag;
  lag = {.since = network_->now(), .version = lag.version};
  for (const RankOp member : states_[collective].members) {
    ranks_[member.rank].slowed.push_back(collective);
    if (ranks_[member.rank].computing) ++lag.computing;
  }
}

void Simulation::end_lag(std::uint32_t collective) {
  if (planned(collective).comm_slowdown == 1) return;
  for (const RankOp member : states_[collective].members) {
    std::vector<std::uint32_t>& slowed = ranks_[member.rank].slowed;
    slowed.erase(std::find(slowed.begin(), slowed.end(), collective));
  }
}

/// A rank has begun or ended to compute.
void Simulation::count_computing(std::uint32_t rank, int change) {
  for (const std::uint32_t collective : ranks_[rank].slowed) {
    account(collective);
    Lag& lag = states_[collective].lag;
    lag.computing += static_cast<std::uint32_t>(change);
    if (lag.flows_over) schedule_catching_up(collective);
  }
}

/// Brings what a collective is behind up to now.
void Simulation::account(std::uint32_t collective) {
  Lag& lag = states_[collective].lag;
  const double pace = lag.computing > 0 ? 1 / planned(collective).comm_slowdown : 1;
  const double elapsed = network_->now() - lag.since;
  lag.behind += elapsed * (lag.flows_over ? -pace : 1 - pace);
  lag.behind = std::max(lag.behind, 0.0);
  lag.since = network_->now();
}

void Simulation::schedule_catching_up(std::uint32_t collective) {
  Lag& lag = states_[collective].lag;
  const double slowdown = lag.computing > 0 ? planned(collective).comm_slowdown : 1;
  network_->call_at(network_->now() + lag.behind * slowdown,
                    {kCaughtUp, collective, ++lag.version});
}

/// All its flows have arrived.
void Simulation::end_flows(std::uint32_t collective) {
  if (planned(collective).comm_slowdown == 1) return end_collective(collective);
  account(collective);
  Lag& lag = states_[collective].lag;
  if (lag.behind <= 0) return end_collective(collective);
  lag.flows_over = true;
  schedule_catching_up(collective);
}

}  // namespace rehearse
