#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "convergence/staleness_histogram.hpp"

namespace rehearse::inline convergence {

/// How stale the gradients of a run are: the share of its updates by staleness (the number of
/// updates that the server applied between the read that a gradient was computed from and its own).
struct Staleness {
  std::vector<double> share = {1};  ///< by staleness from 0; sums to 1

  double mean() const;
  double deviation() const;  ///< standard deviation
  /// Nearest rank: the smallest staleness that `part` (in (0, 1]) of the updates do not exceed.
  std::size_t percentile(double part) const;
  std::size_t max() const { return share.size() - 1; }
};

/// Every update equally stale: homogeneous workers without jitter, `workers` - 1 updates.
Staleness constant_staleness(std::size_t updates);

/// The mixture of the two neighbouring constants with this mean, which need not be whole.
Staleness nearly_constant_staleness(double mean);

/// Workers whose iterations take exponentially distributed (memoryless) times: whoever comes next
/// is any of the N with equal chance, so that P(k) = (1 - q) q^k with q = mean / (1 + mean), mean =
/// N - 1 (Mitliagkas, Zhang, Hadjis, Re, "Asynchrony begets momentum", Allerton 2016, section
/// 4). Cut off where 1e-12 of the updates are left.
Staleness geometric_staleness(double mean);

/// From counts of updates by staleness, which must not be empty.
Staleness counted_staleness(const StalenessHistogram& histogram);

/// "3.5", a mean, or "0:10,1:20,7:3", counts of updates by staleness; nothing for another text.
std::optional<Staleness> parse_staleness(const std::string& text);

}  // namespace rehearse::inline convergence
