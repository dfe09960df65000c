#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comm/sweep_result.hpp"

namespace rehearse::inline calibrate {

/// Times of one collective of one size, each of the slowest rank.
struct SweepSeries {
  CollectiveKind kind = CollectiveKind::all_reduce;
  Bytes size;     ///< as it is measured: whole floats on every rank
  int calls = 0;  ///< in a row in each sample; 0: not chosen yet
  std::vector<Seconds> times;
  std::vector<Seconds> host_times;  ///< processor time of the busiest rank's process, per call
};

/// Samples that a sweep has measured so far, finished or not. It goes on from these, and profiles
/// are made of them.
struct SweepSamples {
  int ranks = 2;
  int nodes = 1;
  std::string backend;   ///< "gloo" or "nccl"
  std::string hardware;  ///< "Intel(R) ...", or the GPU
  std::string libtorch;
  int host_threads = 1;  ///< of each rank
  bool finished = false;
  std::vector<SweepSeries> series;
  std::vector<SweepOverlap> overlaps;
  std::vector<SweepCopy> copies;

  /// The series of that kind and size, new where there is none yet.
  SweepSeries& at(CollectiveKind kind, Bytes size);
  bool has_overlap(CollectiveKind kind, Bytes size) const;
};

/// The file's text (schema rehearse.sweep/1), and back. InputError that names `file` where it is
/// something else.
std::string to_json(const SweepSamples& samples);
SweepSamples sweep_samples_from_json(const std::string& text, const std::filesystem::path& file);

/// InputError unless what `file` holds was measured on what is to be measured `now`.
void check_same_subject(const SweepSamples& old, const SweepSamples& now,
                        const std::filesystem::path& file);

/// Medians and percentiles of the series that have samples, in the order of kinds and sizes.
SweepResult summarize(const SweepSamples& samples);

}  // namespace rehearse::inline calibrate
