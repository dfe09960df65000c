#include "server/update_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace rehearse {

std::string to_csv(const UpdateLog& log) {
  std::string text = "worker,iteration,version_read,version_applied,staleness,applied_s\n";
  for (const AppliedUpdate& update : log) {
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{:.9f}\n", update.worker,
                   update.iteration, update.version_read, update.version_applied,
                   update.staleness(), update.applied.value());
  }
  return text;
}

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
    ++summary.histogram[update.staleness()];
    summary.max = std::max(summary.max, update.staleness());
    summary.mean += static_cast<double>(update.staleness()) / static_cast<double>(log.size());
  }
  return summary;
}

}  // namespace rehearse
