#include "convergence/update_log.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace rehearse::inline convergence {

UpdateLog stalest_of(const std::vector<UpdateLog>& servers) {
  using Key = std::pair<std::uint32_t, std::uint64_t>;
  std::map<Key, std::uint64_t> stalest;
  for (const UpdateLog& log : servers) {
    for (const AppliedUpdate& update : log) {
      std::uint64_t& staleness = stalest[{update.worker, update.iteration}];
      staleness = std::max(staleness, update.staleness());
    }
  }
  UpdateLog merged = servers.empty() ? UpdateLog{} : servers.front();
  for (AppliedUpdate& update : merged) {
    const std::uint64_t staleness = stalest[{update.worker, update.iteration}];
    update.version_read = update.version_applied - std::min(update.version_applied, staleness);
  }
  return merged;
}

UpdateLog while_all_train(const UpdateLog& log) {
  std::map<std::uint32_t, std::size_t> last;
  for (std::size_t i = 0; i < log.size(); ++i) last[log[i].worker] = i;
  std::size_t first_end = log.size();
  for (const auto& [worker, index] : last) first_end = std::min(first_end, index + 1);
  return UpdateLog(log.begin(), log.begin() + static_cast<std::ptrdiff_t>(first_end));
}

UpdateLog measured_updates(const UpdateLog& log, std::uint64_t warmup) {
  UpdateLog measured = while_all_train(log);
  std::erase_if(measured,
                [warmup](const AppliedUpdate& update) { return update.iteration < warmup; });
  return measured;
}

StalenessSummary summarize_staleness(const UpdateLog& log) {
  StalenessSummary summary;
  for (const AppliedUpdate& update : log) {
    ++summary.histogram[static_cast<std::uint32_t>(update.staleness())];
    summary.max = std::max(summary.max, update.staleness());
    summary.mean += static_cast<double>(update.staleness()) / static_cast<double>(log.size());
  }
  if (log.empty()) return summary;
  summary.p50 = percentile(summary.histogram, 0.5);
  summary.p99 = percentile(summary.histogram, 0.99);
  return summary;
}

}  // namespace rehearse::inline convergence
