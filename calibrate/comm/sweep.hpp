#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/process_group.hpp"
#include "comm/sweep_result.hpp"

namespace rehearse {

struct SweepOptions {
  std::vector<CollectiveKind> kinds = {kCollectiveKinds.begin(), kCollectiveKinds.end()};
  std::vector<Bytes> sizes;
  int repetitions = 15;
  Seconds sample{5e-3};           ///< small collectives are repeated for so long in each repetition
  std::vector<Bytes> overlapped;  ///< sizes measured beside compute; empty: none
  int overlap_repetitions = 5;
  bool copies = true;  ///< host-device copies, where there is a device
};

/// Told how many of how many samples are done.
using SweepProgress = std::function<void(std::size_t done, std::size_t all)>;

/// 1 KiB, 2 KiB ... 64 MiB.
std::vector<Bytes> default_sweep_sizes();

/// Measures collectives over `group`; every rank calls it with the same options. Repetitions of all
/// collectives and sizes take turns, so that drift falls on all alike; each sample starts at a
/// barrier and counts as long as its slowest rank. Only the numbers of rank 0 are complete.
SweepResult sweep_collectives(const ProcessGroup& group, torch::Device device,
                              const SweepOptions& options, const SweepProgress& progress);

}  // namespace rehearse
