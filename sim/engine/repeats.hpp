#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/collective_table.hpp"
#include "engine/rank_op.hpp"
#include "engine/stretch.hpp"
#include "trace/trace.hpp"

namespace rehearse::inline engine {

/// Repeats of an iteration that are not played: each takes what the one before them takes.
struct Cut {
  std::uint32_t times = 0;                ///< repeats left out
  std::vector<std::uint32_t> begin, end;  ///< by program: operations left out
  double shift = 0;                       ///< what comes behind is so much later than it is played
  std::vector<double> gap;                ///< by rank: from a repeat to the next
};

/// Watches how the ranks go through what their programs repeat, and cuts the rest out as soon as
/// it is steady: each rank has ended its last repeats at even distances, and ranks that
/// communicate in them have the same distance. Where none do, they are kept apart by what the rest
/// would have brought between them; replicas that nearly keep pace go at the slowest one's.
///
/// What was cut out stands in the trace as if it had been played.
class Repeats {
 public:
  /// Both must stay. Not `wanted`, or where nothing repeats: everything is played.
  Repeats(const Schedule& schedule, const CollectiveTable& collectives, bool wanted);

  bool any() const { return !stretches_.empty(); }
  /// An operation has ended. True if all ranks have ended their last repeats evenly.
  bool end(RankOp what, std::uint32_t iteration, double now);
  /// Whether a lane with these operations has some that repeat.
  bool takes_part(std::uint32_t rank, const std::vector<std::uint32_t>& lane_ops) const;
  /// Which operation of its program such a lane of a rank begins next, in this iteration.
  struct Next {
    std::uint32_t rank = 0, op = 0;
  };
  /// Cuts out all that no lane has begun; null: that is too little, or one is past it.
  const Cut* cut(std::uint32_t iteration, const std::vector<Next>& next);
  /// Nothing is to be cut out of this iteration any more.
  void give_up(std::uint32_t iteration) { rounds_[iteration].closed = true; }

  /// Null: none of this iteration, as yet.
  const Cut* cut_of(std::uint32_t iteration) const;
  /// The operation that has been played for one that another one comes after.
  std::uint32_t played_for(std::uint32_t rank, std::uint32_t after, std::uint32_t op,
                           std::uint32_t iteration) const;
  /// How much later an operation was than it was played; and its iteration's end.
  double shift(RankOp what, std::uint32_t iteration) const;
  double shift(std::uint32_t iteration) const;
  /// Whether an operation stands for those that were cut out.
  bool stands_for_more(RankOp what, std::uint32_t iteration) const;
  std::uint32_t period(std::uint32_t rank) const { return stretch_of(rank).period; }
  /// Time that a rank waits for behind the cut, as it goes on later than others.
  double behind(std::uint32_t rank, const Cut& cut) const;
  /// Number of operations for which one stands, itself included.
  std::uint32_t stands_for(RankOp what, std::uint32_t iteration) const;

  /// The number of a collective in flight: members meet there though each has its own cut.
  std::uint32_t id(RankOp what, const Collective& collective, std::uint32_t iteration);
  /// The planned collective of such a number.
  std::uint32_t plan_of(std::uint32_t id) const {
    const auto size = static_cast<std::uint32_t>(collectives_.size());
    return plans_.empty() ? id % size : plans_[id];
  }

 private:
  /// How far an iteration is.
  struct Round {
    std::vector<std::vector<std::vector<double>>> ends;  ///< by rank, marker and repeat
    std::vector<std::size_t> markers;                    ///< by repeat: how many have ended it
    std::size_t last = 0;                                ///< repeat that all have ended
    std::optional<Cut> cut;
    double before = 0;    ///< shifts of earlier iterations
    bool closed = false;  ///< played as it is from here on
  };

  const Stretch& stretch_of(std::uint32_t rank) const {
    return stretches_[schedule_.ranks[rank].program.index()];
  }
  void find_markers();
  void join_ranks();
  Round& round_of(std::uint32_t iteration);
  bool steady(const Round& round, std::size_t last) const;
  std::optional<double> gap_of(const Round& round, std::uint32_t rank, std::size_t last) const;
  void renumber(std::uint32_t iteration, const Cut& cut);

  const Schedule& schedule_;
  const CollectiveTable& collectives_;
  std::vector<Stretch> stretches_;                 ///< by program; empty: all is played
  std::vector<std::vector<std::int32_t>> marks_;   ///< by program and place in the period; or -1
  std::vector<std::size_t> marker_count_;          ///< by program
  std::size_t markers_ = 0;                        ///< of all ranks
  std::vector<std::vector<std::uint32_t>> calls_;  ///< by program and slot, in a repeat
  std::vector<std::size_t> together_;  ///< by rank: the first of those that it goes with
  bool apart_ = false;                 ///< no two ranks communicate in a repeat
  std::map<std::uint32_t, Round> rounds_;
  std::vector<std::uint32_t> plans_;        ///< by number in flight; empty: their own
  std::uint32_t numbered_[2] = {~0U, ~0U};  ///< by parity: for which iteration
};

}  // namespace rehearse::inline engine
