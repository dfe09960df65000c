#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "report/report.hpp"

namespace rehearse::inline report {

/// The update log: one row per applied update, in order of application. With several servers (or
/// unit by unit) an update is read when its first part is read, applied when its last part is, and
/// as stale as its stalest part.
struct Update {
  RankId worker;  ///< synchronous form (the servers apply, one update of the whole group): the
                  ///< first server
  std::uint32_t iteration = 0;
  Seconds read;  ///< when the parameters it was computed from were read
  Seconds applied;
  std::uint64_t version_read =
      0;  ///< updates applied before the read: its place in the log less its staleness
  std::uint32_t staleness = 0;
};
std::vector<Update> update_log(const Schedule& schedule, const Trace& trace);
/// Sums up so many updates by their staleness, one at least.
StalenessReport staleness_report(StalenessHistogram histogram);
/// Staleness of updates from iteration `first` on that were applied by `until`; nothing if there
/// are none.
std::optional<StalenessReport> staleness_of(
    const std::vector<Update>& updates, std::uint32_t first,
    Seconds until = Seconds(std::numeric_limits<double>::infinity()));

/// StalenessReport::between_push_and_pull over the updates that `counts` says, in the order in
/// which they were applied.
std::optional<double> between_push_and_pull(const std::vector<Update>& updates,
                                            const std::function<bool(const Update&)>& counts);

}  // namespace rehearse::inline report
