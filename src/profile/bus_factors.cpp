#include "profile/bus_factors.hpp"

#include <cmath>

namespace rehearse::inline profile {

bool is_factor_of(double factor, CollectiveKind kind, double ranks) {
  return std::abs(factor / bus_factor(kind, ranks) - 1) < 0.025;
}

std::string collectives_like(const UnnamedRow& row, int ranks) {
  std::string names;
  if (row.algbw < 1) return names;
  for (const CollectiveKind kind : kCollectiveKinds) {
    const bool reduces = kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce ||
                         kind == CollectiveKind::reduce_scatter;
    const bool has_root = kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
    if (!is_factor_of(row.busbw / row.algbw, kind, ranks)) continue;
    if (reduces != (row.operation != "none") || has_root != row.rooted) continue;
    names += (names.empty() ? "" : " or ") + to_string(kind);
  }
  return names;
}

int ranks_of_factor(CollectiveKind kind, double factor) {
  const double shared = factor / bus_factor(kind, 2) / 2;  // (n - 1) / n of the collectives
  if (!(shared > 0.5) || !(shared < 0.999)) return 0;
  return static_cast<int>(std::lround(1 / (1 - shared)));
}

}  // namespace rehearse::inline profile
