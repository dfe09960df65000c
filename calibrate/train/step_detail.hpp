#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/step_record.hpp"

namespace rehearse::inline calibrate {

/// Where the time of one rank's steps goes: medians over its measured steps.
struct StepDetail {
  /// "forward", "backward", "optimizer"; of a parameter server's worker "pull", "compute", "push".
  std::map<std::string, Seconds> phases;
  /// Collectives in the order of their launch; times count from the step's begin.
  std::vector<CollectiveTimes> collectives;
  /// DDP: when each parameter's gradient was ready, from the begin of backward, in the order of
  /// parameters.
  std::vector<Seconds> gradient_ready;
};

/// Detail of the steps that launch the same collectives as the last one does: DDP's first has
/// buckets of its own. Needs at least one step.
StepDetail detail_of(const std::vector<StepRecord>& steps);

}  // namespace rehearse::inline calibrate
