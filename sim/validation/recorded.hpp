#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "config/document.hpp"
#include "convergence/staleness_histogram.hpp"

namespace rehearse::inline validation {

/// Measurements of a real training run: a report `rehearse.step/1` of `rehearse-calibrate step`.
struct RecordedRun {
  std::string strategy;  ///< ddp, fsdp, ps-sync, ps-ssp or ps-async
  std::string model, precision;
  std::string hardware, date;  ///< "AMD EPYC", "2026-11-20T20:36:56Z"
  std::int64_t batch = 0;      ///< of each rank
  std::size_t ranks = 0;       ///< those that trained
  /// The statistic that a prediction is compared with: the mean of the medians of the ranks
  /// that trained.
  Seconds step_time;
  Bytes allocated_peak;          ///< the largest of the ranks'
  Bytes reserved_peak;           ///< likewise, by a caching allocator; 0 where there is none
  StalenessHistogram staleness;  ///< of the updates while all workers trained; empty: no server

  bool has_server() const { return strategy.starts_with("ps-"); }
};

/// Reads the report that `name` names, from the folder of its file on. MissingError if there is
/// none, InputError if it is no whole report of that schema or a parameter server's without
/// staleness; both at `name`.
RecordedRun read_recorded(const Value& name);

/// The Kolmogorov-Smirnov distance: the largest difference between the shares of updates that are
/// at most so stale; 0 for the same distribution, 1 where no two overlap.
double distance(const StalenessHistogram& a, const StalenessHistogram& b);

/// A report's object {"0": 12, "3": 4}. std::exception if it is none.
StalenessHistogram read_histogram(const std::map<std::string, std::uint64_t>& object);

}  // namespace rehearse::inline validation
