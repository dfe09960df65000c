#pragma once

#include <cstdint>
#include <optional>

#include "base/child_process.hpp"
#include "predict/predict.hpp"

namespace rehearse::inline prediction {

/// The search for the largest batch that fits, in a child process beside the simulation, where the
/// memory of the scenario's own batch is known before it. To be started before this process
/// simulates.
class LargestBatch {
 public:
  LargestBatch(const Scenario& scenario, const Options& options);

  /// False: it is not asked for, or is left to memory_report().
  bool sought() const { return child_.has_value(); }
  /// Waits for it; once. Nothing: not even a batch of 1 fits.
  std::optional<std::int64_t> found();

 private:
  std::optional<ChildProcess> child_;
};

}  // namespace rehearse::inline prediction
