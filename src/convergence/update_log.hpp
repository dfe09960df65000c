#pragma once

#include <cstdint>
#include <vector>

#include "base/quantity.hpp"
#include "convergence/staleness_histogram.hpp"

namespace rehearse::inline convergence {

/// One gradient that a server applied. Gradients that were averaged share their `version_applied`.
struct AppliedUpdate {
  std::uint32_t worker = 0;
  std::uint64_t iteration = 0;
  std::uint64_t version_read = 0;     ///< updates applied before the pull it was computed from
  std::uint64_t version_applied = 0;  ///< updates applied before it: its place in the log
  Seconds applied;                    ///< since all workers were there

  std::uint64_t staleness() const { return version_applied - version_read; }
};
using UpdateLog = std::vector<AppliedUpdate>;

/// The log of a run whose parameters lie on several servers: in the first server's order, each
/// update as stale as its stalest part.
UpdateLog stalest_of(const std::vector<UpdateLog>& servers);

/// The log up to the first worker's last update: afterwards the others have less to be stale by.
UpdateLog while_all_train(const UpdateLog& log);

/// Updates that a run measured: those of its workers' iterations from `warmup` on, while all train.
UpdateLog measured_updates(const UpdateLog& log, std::uint64_t warmup);

/// Staleness of the updates of one log; percentiles by nearest rank.
struct StalenessSummary {
  double mean = 0;
  std::uint64_t p50 = 0, p99 = 0, max = 0;
  StalenessHistogram histogram;
};
StalenessSummary summarize_staleness(const UpdateLog& log);

}  // namespace rehearse::inline convergence
