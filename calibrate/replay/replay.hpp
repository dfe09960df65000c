#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "replay/training.hpp"

namespace rehearse::inline calibrate {

struct ReplayOptions {
  TrainingOptions training{};
  double epochs = 0;              ///< over the training samples; 0: as far as the log goes
  std::uint64_t eval_every = 0;   ///< updates; 0: so that there are twenty points
  int threads = 1;                ///< which change the time that it takes, and nothing else
  std::filesystem::path state{};  ///< kept here, and gone on from; empty: nowhere
  /// Told after each update.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress = [](auto, auto) {};
  /// Asked before each: true to keep the state and return.
  std::function<bool()> stop = [] { return false; };
};

/// Trains with exactly the updates of a run: each worker's gradient is computed from the version
/// that it read, and the server applies them in the log's order, with the arithmetic of
/// UpdateRule's own server. What a real run's log gives is what that run had, bit by bit, where it
/// computed in one thread per worker on the same kind of machine. Of the versions only those are in
/// memory that a worker still computes from, and of gradients those not yet applied.
///
/// Nothing where it was stopped. InputError where the log is too short for the epochs, or the
/// options do not fit together.
std::optional<Curve> replay(const RunUpdates& run, const Dataset& data,
                            const ReplayOptions& options);

/// The curve of a real run: `losses` by worker and iteration, and the server's snapshots, in a file
/// (snapshot_file.hpp).
Curve curve_of_run(const RunUpdates& run,
                   const std::vector<std::map<std::uint64_t, double>>& losses,
                   const std::filesystem::path& snapshots, const Dataset& data,
                   const TrainingOptions& training, int threads);

/// Samples whose gradients are applied by one row of a log.
std::uint64_t samples_of_row(const TrainingOptions& training);

}  // namespace rehearse::inline calibrate
