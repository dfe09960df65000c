#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/report.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline report {

/// Where the time of a step goes, and why: means per step over the recorded ranks that compute.
struct Anatomy {
  Breakdown breakdown;
  Seconds step;  ///< compute + exposed communication + idle
  /// Exposed communication by what it is: "all_reduce", "pull", "push"; what overlaps counts for
  /// each.
  std::map<std::string, Seconds> exposed_by;
  Seconds waiting_for_host;   ///< idle while the host launches what comes next
  Seconds waiting_for_peers;  ///< idle before a collective that others have not reached
  /// Idle while a server has the rank's gradient in its queue, or is at work for anybody.
  Seconds waiting_for_server;
  Seconds loading;           ///< that the slowest rank's batches take to be made ready
  RankId slowest;            ///< computes longest
  double slowest_ratio = 1;  ///< its compute time over the median rank's
};

/// Iterations [first, last) of one rank.
struct Iterations {
  std::uint32_t first = 0, last = 0;
};
/// By rank of the schedule; those that do not compute do not matter.
using IterationsByRank = std::vector<Iterations>;

/// One rank over a whole window of iterations (not a mean, and without `slowest`).
struct RankAnatomy {
  RankId rank;
  Anatomy anatomy;
};
/// Dissects the recorded ranks that compute, each over its own iterations.
std::vector<RankAnatomy> dissect_ranks(const Schedule& schedule, const Trace& trace,
                                       const IterationsByRank& iterations);
/// Their mean over all iterations, of every rank. Who computes longest is so per iteration.
Anatomy dissect(const Schedule& schedule, const Trace& trace, const IterationsByRank& iterations);
/// The same iterations of every rank.
Anatomy dissect(const Schedule& schedule, const Trace& trace, std::uint32_t first,
                std::uint32_t last);

/// Of the steps that a run's figures are of.
Anatomy anatomy_of(const RunFacts& facts);

/// Reports on the stages of pipelines over iterations [first, last): empty where there are none.
std::vector<StageReport> stages_of(const Schedule& schedule, const Trace& trace,
                                   std::uint32_t first, std::uint32_t last);

/// Says in one sentence what bounds the step.
std::string bottleneck_sentence(const Anatomy& anatomy, bool parameter_server);

}  // namespace rehearse::inline report
