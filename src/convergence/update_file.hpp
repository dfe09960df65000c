#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "convergence/mitigation.hpp"
#include "convergence/update_log.hpp"

namespace rehearse::inline convergence {

/// A parameter-server run as its updates: what the simulator and real runs write, and a replay
/// reads.
struct RunUpdates {
  std::uint32_t workers = 1;
  std::uint64_t warmup = 0;  ///< iterations of each worker that its measurements leave out
  /// Mitigation whose effect the log shows: bound, backup workers, synchronous warm-up; and the
  /// local steps between two exchanges, and what an outer optimizer makes of them.
  Mitigation mitigation;
  UpdateLog updates;
};

/// `rehearse.updates/1`: a line `# rehearse.updates/1 workers=3 warmup=0 ...`, with the keys
/// staleness_bound, backup_workers, warmup_rounds, local_steps, and outer_learning_rate,
/// outer_momentum and outer_nesterov (0 or 1) together, where they apply; then CSV with the columns
/// worker, iteration, version_read, version_applied, staleness, applied_s, in order of application.
/// Rows of one version_applied are gradients that were averaged into one update.
std::string to_csv(const RunUpdates& run);

/// Reads one. MissingError where the file cannot be read; InputError `file:line:column: error: ...`
/// where it is not as to_csv() writes it, or cannot be what a server did: versions that are not
/// consecutive, a gradient computed from the future, a worker's iterations out of order.
RunUpdates read_updates(const std::filesystem::path& file);

}  // namespace rehearse::inline convergence
