#include "explain/pace.hpp"

#include <algorithm>

namespace rehearse::inline explanation {

bool trains(const Op& op) {
  return std::holds_alternative<Compute>(op.work) &&
         (op.phase == Phase::forward || op.phase == Phase::backward ||
          op.phase == Phase::optimizer);
}

bool is_copy(const Op& op) {
  return std::holds_alternative<Compute>(op.work) && op.phase == Phase::communication;
}

bool travels(const Op& op) {
  return is_copy(op) || std::holds_alternative<Collective>(op.work) ||
         std::holds_alternative<Transfer>(op.work);
}

Seconds nominal_compute(const Schedule& schedule, RankId rank) {
  Seconds sum;
  for (const Op& op : schedule.program_of(rank).ops)
    if (trains(op)) sum += std::get<Compute>(op.work).duration;
  return sum * schedule.ranks[rank.index()].slowdown;
}

std::vector<double> relative_compute(const Schedule& schedule) {
  std::vector<Seconds> all, sorted;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    all.push_back(nominal_compute(schedule, RankId(r)));
    if (all.back() > Seconds(0)) sorted.push_back(all.back());
  }
  std::vector<double> relative(all.size(), 1.0);
  if (sorted.empty()) return relative;
  std::ranges::sort(sorted);
  const Seconds median = sorted[(sorted.size() - 1) / 2];
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] > Seconds(0)) relative[r] = all[r] / median;
  return relative;
}

}  // namespace rehearse::inline explanation
