#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/id.hpp"
#include "base/quantity.hpp"

namespace rehearse::inline trace {

/// One operation of one rank in one iteration, as it ran.
struct Span {
  RankId rank;
  OpId op;
  std::uint32_t iteration = 0;
  Seconds ready;  ///< at the head of its lane with all it waits for done (a collective then waits
                  ///< for its peers)
  Seconds start;
  Seconds end;
};

/// Bytes that crossed each kind of port (out direction), and flows that were played, each for one
/// or more that are alike.
struct Traffic {
  std::array<double, 4> bytes{};  ///< by PortKind
  std::uint64_t flows = 0;
};

/// Record of a simulation.
struct Trace {
  /// Spans in order of (rank, start); only of ranks below `recorded_ranks`, except that operations
  /// with an UpdateRole are kept for all.
  std::vector<Span> spans;
  std::size_t recorded_ranks = 0;
  /// When each rank had ended all operations of each iteration: [rank][iteration]. Ranks of an
  /// open-ended run have ended unlike numbers of them, the schedule's at least.
  std::vector<std::vector<Seconds>> iteration_end;
  bool open_ended = false;  ///< ranks went on after their iterations (EngineOptions::enough)
  bool cut_short = false;   ///< and stopped at EngineOptions::most_operations, before it was enough
  /// The same of the ranks of other jobs, one job after the other, as far as they got.
  std::vector<std::vector<Seconds>> others_iteration_end;
  /// By rank, where cores are shared: of its computing the share in which it stood ready and others
  /// had the cores.
  std::vector<double> ready_share{};
  Seconds end;
  Traffic traffic;
};

}  // namespace rehearse::inline trace
