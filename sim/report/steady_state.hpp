#pragma once

#include <cstdint>
#include <vector>

#include "report/report.hpp"
#include "report/update_log.hpp"

namespace rehearse::inline report {

/// An asynchronous run's long run, as far as it was simulated.
struct SteadyState {
  Seconds begin, end;            ///< the stretch of time that it is taken from
  std::vector<double> rates;     ///< by worker: iterations a second
  double staleness = 0;          ///< mean of all updates
  StalenessHistogram histogram;  ///< in whole updates
  double slowest = 0;            ///< iterations of the slowest worker
  /// Half-widths of 90 % intervals: of the updates a second, relative, and of the mean staleness.
  double rate_error = 0, staleness_error = 0;
  bool reached = false;  ///< both are small enough
};

/// Precision to which a steady state is known: updates a second, and the mean staleness (below 1 in
/// updates).
inline constexpr double kSteadyPrecision = 0.01;

/// Takes the trace from when every worker has ended its first `warmup` iterations, or the first
/// quarter of the time if that is later, to when the first of the workers has nothing more.
///
/// An iteration that the stretch cuts counts for the part in it, so that like iterations give exact
/// figures. The errors are those of batch means (Law, "Simulation Modeling and Analysis", 2015,
/// section 9.5.3): of 32, 16 and 8 batches the largest, so that batches which depend on one another
/// do not make them small (Flyvbjerg, Petersen, "Error estimates on averages of correlated data",
/// 1989), and at least half of what the two halves differ by. Workers that a bound on staleness
/// holds together must go at one pace in the long run: where they do not yet, the error is at least
/// what the slowest one's pace would cost.
SteadyState steady_state(const Schedule& schedule, const Trace& trace,
                         const std::vector<RankId>& workers, const std::vector<Update>& updates,
                         std::uint32_t warmup);

/// True if the trace, of an asynchronous run so far, says what the run does in the long run: its
/// figures are known to kSteadyPrecision, from eight iterations of every worker.
bool is_steady(const Schedule& schedule, const Trace& trace, std::uint32_t warmup);

}  // namespace rehearse::inline report
