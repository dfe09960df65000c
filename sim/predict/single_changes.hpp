#pragma once

#include <string>
#include <vector>

#include "config/document.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline prediction {

/// One thing that a scenario could do otherwise to take less memory.
struct SingleChange {
  std::string change;  ///< for people; of the batch: without its size
  /// `--set` assignments, which belong together. Several of them: the first that fits counts; none:
  /// the largest batch that fits.
  std::vector<std::vector<std::string>> assignments;
  bool changes_training = false;
};

/// Changes that apply to a scenario and are not made already: sharding, activation checkpointing,
/// precision, batch, optimizer, buckets, prefetch, offload, allocator. `document` is the one that
/// the scenario was read from, overrides applied. A scenario may still refuse a change when it is
/// read.
std::vector<SingleChange> single_changes(const Document& document, const Scenario& scenario);

/// Options for a shell: "--set 'strategy={fsdp: {}}' --set model.batch_per_gpu=4".
std::string set_options(const std::vector<std::string>& assignments);

}  // namespace rehearse::inline prediction
