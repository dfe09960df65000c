#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "profile/comm_points.hpp"

namespace rehearse::inline calibrate {

/// One collective of one size; times are of the slowest rank. Median, 5th and 95th percentile over
/// repetitions.
struct SweepPoint {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes size;  ///< as nccl-tests counts it
  Seconds median, p5, p95;
  Seconds host{};  ///< processor time of the busiest rank's process; median
};

/// A collective and a computation, each alone and beside the other; medians over repetitions of the
/// slowest rank.
struct SweepOverlap {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes size;
  Seconds comm_alone, comm_beside;        ///< of one collective
  Seconds compute_alone, compute_beside;  ///< of the same computation

  double comm_slowdown() const { return comm_beside / comm_alone; }
  double compute_slowdown() const { return compute_beside / compute_alone; }
};

/// A copy between host and device memory.
struct SweepCopy {
  bool to_device = true;
  bool pinned = false;
  Bytes size;
  Seconds median;
};

/// Results of a sweep over one process group.
struct SweepResult {
  int ranks = 2;
  int nodes = 1;
  std::string backend;   ///< "gloo" or "nccl"
  std::string hardware;  ///< "Intel(R) ...", or the GPU
  std::vector<SweepPoint> points;
  std::vector<SweepOverlap> overlaps;
  std::vector<SweepCopy> copies;
};

/// How a profile that comes from a sweep names itself.
struct SweepProfileOptions {
  std::string name;
  std::string command;  ///< how to make it again; stands in the head
  std::string date;
  /// Rate of each node's link; 0 if it is not known, or there are no links between the ranks.
  BytesPerSecond link_rate{0};
  Seconds slice{0};                  ///< of the nodes' scheduler, where the link's rate is known
  std::optional<Bytes> window = {};  ///< of the nodes' TCP, at most
};

/// The profile file that `rehearse` reads: curves fitted to the medians, with their residuals and
/// held-out errors, and the slowdowns by overlap; the transport where the link's rate is known and
/// each rank has a node of its own; copies and what could not be fitted as comments in its head.
/// InputError if no curve could.
std::string comm_profile_file(const SweepResult& result, const SweepProfileOptions& options);

/// The points as the table that `rehearse import points` reads.
std::string comm_points_table(const SweepResult& result, const SweepProfileOptions& options);

}  // namespace rehearse::inline calibrate
