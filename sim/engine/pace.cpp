#include "engine/pace.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline engine {

Pace::Pace(Shared& shared)
    : shared_(shared),
      overlap_costs_(shared.schedule.overlap_slowdown.value_or(1) != 1),
      ranks_(shared.schedule.ranks.size()),
      lags_(2 * shared.collectives.size()) {
  for (std::uint32_t id = 0; id < shared.collectives.size(); ++id) {
    const PlannedCollective& planned = shared.collectives.planned(id);
    overlap_costs_ = overlap_costs_ || planned.compute_slowdown != 1 || planned.comm_slowdown != 1;
  }
  const Cluster& cluster = shared.cluster;
  if (cluster.shared_cores)
    cores_.emplace_back(*cluster.shared_cores,
                        cluster.busy_cores ? cluster.busy_cores->slowdown : 1);
  else if (overlap_costs_)
    cores_.resize(ranks_.size());
}

bool Pace::overlaps(RankOp what) const {
  const auto lane = shared_.op_of(what).lane;
  return overlap_costs_ && lane &&
         shared_.schedule.program_of(RankId(what.rank)).lanes[lane->index()].kind ==
             LaneKind::compute;
}

void Pace::begin(RankOp what, double duration) {
  double slowdown = 1;
  if (overlaps(what)) {
    Rank& rank = ranks_[what.rank];
    check(!rank.computing, "a rank has two compute lanes");
    rank.computing = what.op;
    count_computing(what.rank, +1);
    slowdown = slowdown_of(what.rank);
  }
  const std::uint32_t cores = cores_of(what.rank);
  cores_[cores].begin({what.rank, what.op}, duration, slowdown, shared_.network.now());
  schedule_end(cores);
}

void Pace::handle(std::uint32_t collective, std::uint32_t flow, double duration) {
  cores_[0].begin({collective, flow, Cores::Task::Kind::handling}, duration, 1,
                  shared_.network.now());
  schedule_end(0);
}

Cores::Task Pace::end(std::uint32_t cores) {
  const Cores::Task task = cores_[cores].end_next(shared_.network.now());
  if (task.kind == Cores::Task::Kind::operation && overlaps({task.of, task.what})) {
    ranks_[task.of].computing.reset();
    count_computing(task.of, -1);
  }
  return task;
}

void Pace::schedule_end(std::uint32_t cores) {
  shared_.network.call_at(cores_[cores].next_end(),
                          {kPacedComputed, cores, cores_[cores].version()});
}

/// That of the communication in flight that slows compute down most.
double Pace::slowdown_of(std::uint32_t rank) const {
  const std::vector<double>& slowdowns = ranks_[rank].slowdowns;
  return slowdowns.empty() ? 1 : *std::max_element(slowdowns.begin(), slowdowns.end());
}

void Pace::begin_communicating(std::uint32_t rank, double slowdown) {
  if (slowdown == 1) return;
  const double before = slowdown_of(rank);
  ranks_[rank].slowdowns.push_back(slowdown);
  change_slowdown(rank, before);
}

void Pace::end_communicating(std::uint32_t rank, double slowdown) {
  if (slowdown == 1) return;
  const double before = slowdown_of(rank);
  std::vector<double>& slowdowns = ranks_[rank].slowdowns;
  slowdowns.erase(std::find(slowdowns.begin(), slowdowns.end(), slowdown));
  change_slowdown(rank, before);
}

/// What is left of the rank's compute goes on at another pace.
void Pace::change_slowdown(std::uint32_t rank, double before) {
  const double slowdown = slowdown_of(rank);
  const auto& computing = ranks_[rank].computing;
  if (before == slowdown || !computing) return;
  const std::uint32_t cores = cores_of(rank);
  cores_[cores].slow({rank, *computing}, slowdown, shared_.network.now());
  schedule_end(cores);
}

void Pace::begin_lag(std::uint32_t collective, const std::vector<RankOp>& members) {
  if (!is_slowed(collective)) return;
  Lag& lag = lags_[collective];
  lag = {.since = shared_.network.now(), .version = lag.version};
  for (const RankOp member : members) {
    ranks_[member.rank].slowed.push_back(collective);
    if (ranks_[member.rank].computing) ++lag.computing;
  }
}

void Pace::end_lag(std::uint32_t collective, const std::vector<RankOp>& members) {
  if (!is_slowed(collective)) return;
  for (const RankOp member : members) {
    std::vector<std::uint32_t>& slowed = ranks_[member.rank].slowed;
    slowed.erase(std::find(slowed.begin(), slowed.end(), collective));
  }
}

bool Pace::lags(std::uint32_t collective) {
  if (!is_slowed(collective)) return false;
  account(collective);
  Lag& lag = lags_[collective];
  if (lag.behind <= 0) return false;
  lag.flows_over = true;
  schedule_catching_up(collective);
  return true;
}

/// A rank has begun or ended to compute.
void Pace::count_computing(std::uint32_t rank, int change) {
  for (const std::uint32_t collective : ranks_[rank].slowed) {
    account(collective);
    Lag& lag = lags_[collective];
    lag.computing += static_cast<std::uint32_t>(change);
    if (lag.flows_over) schedule_catching_up(collective);
  }
}

/// Brings what a collective is behind up to now.
void Pace::account(std::uint32_t collective) {
  Lag& lag = lags_[collective];
  const double pace = lag.computing > 0 ? 1 / shared_.planned(collective).comm_slowdown : 1;
  const double elapsed = shared_.network.now() - lag.since;
  lag.behind += elapsed * (lag.flows_over ? -pace : 1 - pace);
  lag.behind = std::max(lag.behind, 0.0);
  lag.since = shared_.network.now();
}

void Pace::schedule_catching_up(std::uint32_t collective) {
  Lag& lag = lags_[collective];
  const double slowdown = lag.computing > 0 ? shared_.planned(collective).comm_slowdown : 1;
  shared_.call_in(lag.behind * slowdown, {kCaughtUp, collective, ++lag.version});
}

}  // namespace rehearse::inline engine
