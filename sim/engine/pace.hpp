#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/cores.hpp"
#include "engine/shared.hpp"

namespace rehearse::inline engine {

/// Compute at a changing pace: on shared cores, or beside communication, where either may take
/// longer for the other.
///
/// Compute goes on at the pace of what slows it down most, and of its share of the cores. A
/// collective's flows know nothing of compute: what it falls behind them while one of its ranks
/// computes is made up for after they have arrived, at the same pace as it would have gone.
class Pace {
 public:
  explicit Pace(Shared& shared);

  /// Whether an operation's pace may change on its way. Otherwise it needs a timer alone.
  bool changes(RankOp what) const { return shared_.cluster.shared_cores || overlaps(what); }
  /// Begins a computation of `duration` seconds on a core of its own. Its end is kPacedComputed.
  void begin(RankOp what, double duration);
  /// Begins what the host does for a flow on the shared cores; likewise.
  void handle(std::uint32_t collective, std::uint32_t flow, double duration);
  /// Whether what a token said of these cores still holds.
  bool holds(std::uint32_t cores, std::uint32_t version) const {
    return cores_[cores].version() == version;
  }
  /// Ends the task that is over next, of those that run on these cores; go_on() is to follow.
  Cores::Task end(std::uint32_t cores);
  void go_on(std::uint32_t cores) {
    if (!cores_[cores].idle()) schedule_end(cores);
  }
  /// The share of a rank's computing on shared cores in which it stood ready without one.
  double ready_share(std::uint32_t rank) const { return cores_[0].ready_share(rank); }
  /// Operations of ranks that run on the shared cores.
  std::size_t on_shared_cores() const { return cores_[0].operations(); }

  /// From now on, until it ends, communication slows a rank's compute down by so much.
  void begin_communicating(std::uint32_t rank, double slowdown);
  void end_communicating(std::uint32_t rank, double slowdown);

  /// A collective's members have come.
  void begin_lag(std::uint32_t collective, const std::vector<RankOp>& members);
  /// All its flows have arrived. True: it still has to catch up, and kCaughtUp is its end.
  bool lags(std::uint32_t collective);
  bool caught_up(std::uint32_t collective, std::uint32_t version) const {
    return lags_[collective].version == version;
  }
  void end_lag(std::uint32_t collective, const std::vector<RankOp>& members);

 private:
  struct Rank {
    std::vector<double> slowdowns;           // of compute, by the communication in flight
    std::vector<std::uint32_t> slowed;       // collectives in flight that compute slows down
    std::optional<std::uint32_t> computing;  // what the compute lane is at, where they overlap
  };
  /// Lag of a collective that compute slows down, behind its flows.
  struct Lag {
    std::uint32_t computing = 0;  // members that compute now
    bool flows_over = false;      // it now catches up
    double behind = 0, since = 0;
    std::uint32_t version = 0;
  };

  bool overlaps(RankOp what) const;
  bool is_slowed(std::uint32_t collective) const {
    return shared_.planned(collective).comm_slowdown != 1;
  }
  std::uint32_t cores_of(std::uint32_t rank) const {
    return shared_.cluster.shared_cores ? 0 : rank;
  }
  void schedule_end(std::uint32_t cores);
  double slowdown_of(std::uint32_t rank) const;
  void change_slowdown(std::uint32_t rank, double before);
  void count_computing(std::uint32_t rank, int change);
  void account(std::uint32_t collective);
  void schedule_catching_up(std::uint32_t collective);

  Shared& shared_;
  bool overlap_costs_ = false;  // some communication and compute slow each other down
  std::vector<Rank> ranks_;
  std::vector<Cores> cores_;  // shared by all; or where overlap costs, each rank's own
  std::vector<Lag> lags_;     // by collective in flight
};

}  // namespace rehearse::inline engine
