#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearse::inline schedule {

/// Computations of a rank between two moments at which it waits for all ranks of the job.
struct Round {
  /// Computations in one training step of an iteration, before slowdown and jitter.
  struct Share {
    std::uint32_t iterations_ago = 0;  ///< 1: of the iteration before the round's
    std::uint32_t step = 0;            ///< Compute::step
    Seconds duration;
  };
  /// Ranks of a node wait for each other between two parts.
  using Part = std::vector<Share>;
  std::vector<Part> parts;
};

/// A program's computations with jitter, cut into rounds. Round 0 of an iteration begins in the
/// iteration before it, behind that one's last wait.
struct Rounds {
  std::vector<Round> rounds;
  /// Round of each operation that is a computation with jitter, by operation; rounds.size(): round
  /// 0 of the next iteration.
  std::vector<std::uint32_t> of_op;
};

/// Rounds of a rank's program. A computation waits for all where it comes after a collective that
/// no rank joins before it has computed all that came before; up to 5 % of an iteration may lie
/// between (DDP empties its first buckets before the last one is reduced).
Rounds rounds_of(const Schedule& schedule, RankId rank);

}  // namespace rehearse::inline schedule
