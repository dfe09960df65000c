#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "schedule/rounds.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline schedule {

/// Factors on computations with jitter, slowdown included: what engine and explanations ask.
///
/// A rank of a folded schedule plays, round by round (rounds.hpp), the same rank of the slowest
/// node that its own stands for: the node whose last rank would end the round last. All ranks have
/// drawn for themselves by then, as they do without folding, so that a round ends when it would end
/// without folding. Exact, for a seed and not in distribution alone, where ranks wait for all as
/// rounds_of() finds them to and compute nothing between the wait and its end; what lies between is
/// at most 5 % of an iteration, and only its jitter is off.
///
/// A rank of a layout plays, in each iteration, the same rank of that replica whose slowest rank is
/// slowest: every rank of a pipeline waits for its slowest one.
class ComputeFactors {
 public:
  explicit ComputeFactors(const Schedule& schedule);
  /// On the operation, a computation with jitter, of a rank in an iteration.
  double of(RankId rank, OpId op, std::uint32_t iteration) const;

 private:
  struct Drawn {
    std::uint32_t step = ~0U;
    double factor = 1;
  };
  struct Term {
    double duration = 0;
    const double* draws = nullptr;  ///< by rank's position
  };
  double in_replicas(RankId rank, std::uint32_t iteration, std::uint32_t step) const;
  double slowest_at(std::size_t position, std::size_t i, std::uint32_t step) const;
  double in_crowd(RankId rank, OpId op, std::uint32_t iteration, std::uint32_t step) const;
  std::size_t player(std::size_t kept, std::uint32_t iteration, std::uint32_t round) const;
  std::size_t slowest(std::size_t kept, std::uint32_t iteration, const Round& round) const;
  double node_time(std::size_t position, const std::vector<std::vector<Term>>& parts) const;
  double slowdown(std::size_t rank) const;
  const std::vector<double>& draws(std::uint32_t step) const;

  const Schedule& schedule_;
  mutable std::vector<Drawn> last_;  ///< by rank, where nothing is folded
  std::optional<Rounds> rounds_;
  std::size_t kept_nodes_ = 0;
  /// By iteration, round and kept node: the position that it plays, and 1; 0: not looked for yet.
  mutable std::vector<std::uint32_t> players_;
  mutable std::map<std::uint32_t, std::vector<double>> draws_;  ///< by step: of all ranks
};

}  // namespace rehearse::inline schedule
