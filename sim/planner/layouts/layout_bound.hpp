#pragma once

#include <optional>

#include "scenario/scenario.hpp"

namespace rehearse::inline planner {

/// A bound that no layout beats, from its units' costs alone: no schedule is built.
struct LayoutBound {
  /// With compute at its nominal time but for how GPUs differ for good. A pipeline's rank computes
  /// all its micro-batches one after the other, each with the exchanges that its layers wait for.
  /// Before the first of them the stages before it go through one micro-batch, and behind the last
  /// one they go back through it; the first rank's next step waits for that.
  Seconds step;
  /// Need of the fullest rank: parameters, gradients and states (1), or parameters and what as many
  /// micro-batches as are in flight keep for backward (2), whichever is more.
  Bytes memory;
};

/// Nothing unless the strategy is a layout and all nodes are alike. Messages between stages, what
/// replicas exchange and fragmentation are left out of it.
std::optional<LayoutBound> layout_bound(const Scenario& scenario);

}  // namespace rehearse::inline planner
