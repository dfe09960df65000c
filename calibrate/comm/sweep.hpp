#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/process_group.hpp"
#include "comm/sweep_samples.hpp"

namespace rehearse::inline calibrate {

struct SweepOptions {
  std::vector<CollectiveKind> kinds = {kCalibratedKinds.begin(), kCalibratedKinds.end()};
  std::vector<Bytes> sizes;
  int repetitions = 15;
  Seconds sample{5e-3};           ///< small collectives are repeated for so long in each repetition
  std::vector<Bytes> overlapped;  ///< sizes measured beside compute; empty: none
  int overlap_repetitions = 5;
  bool copies = true;  ///< host-device copies, where there is a device
  /// No repetition begins later than this, but for the first kLeastSweepRepetitions; 0: no limit.
  Seconds limit;
};

/// Fewer have no spread.
constexpr int kLeastSweepRepetitions = 3;

/// How a sweep is watched and stopped, between its repetitions and on every rank.
struct SweepWatch {
  /// Share of the work that is done, and what runs now.
  std::function<void(double share, const std::string& now)> progress;
  /// There are new samples: keep them.
  std::function<void(const SweepSamples&)> keep;
  /// True on any rank: all end here; what was kept stands.
  std::function<bool()> stop;
};

/// 1 KiB, 2 KiB ... 64 MiB.
std::vector<Bytes> default_sweep_sizes();

/// Measures into `samples` what they lack of `options`, over `group`; every rank calls it with the
/// same options and samples. Repetitions of all collectives and sizes take turns, so that drift
/// falls on all alike; each sample starts at a barrier and counts as long as its slowest rank. All
/// ranks hold the same samples afterwards, finished unless it was stopped.
void sweep_collectives(const ProcessGroup& group, torch::Device device, const SweepOptions& options,
                       SweepSamples& samples, const SweepWatch& watch);

/// How long that would take, from one call of each collective and size; the same on all ranks.
Seconds estimated_time(const ProcessGroup& group, torch::Device device, const SweepOptions& options,
                       const SweepSamples& samples);

/// Copies between host memory, pinned and pageable, and the current CUDA device.
std::vector<SweepCopy> measure_copies(const std::vector<Bytes>& sizes, int repetitions);

}  // namespace rehearse::inline calibrate
