#pragma once

#include <cstdint>
#include <map>

namespace rehearse::inline convergence {

/// How many updates were how stale: staleness -> updates.
using StalenessHistogram = std::map<std::uint32_t, std::uint64_t>;

/// Number of updates.
std::uint64_t updates(const StalenessHistogram& histogram);
/// Mean staleness, of at least one update.
double mean(const StalenessHistogram& histogram);
/// Nearest rank: the smallest staleness that `share` (0 to 1) of at least one update do not exceed.
std::uint32_t percentile(const StalenessHistogram& histogram, double share);

}  // namespace rehearse::inline convergence
