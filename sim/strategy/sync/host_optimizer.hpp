#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategy/walk.hpp"

namespace rehearse::inline strategy {

/// An optimizer on the node's CPUs that works beside backward (OffloadOverlap::backward): each
/// part's gradients go to the host as they come, its step begins there at once, and its parameters
/// come back. Where gradients are clipped steps wait for the norm of all, behind backward
/// (deepspeed/runtime/superoffload/superoffload_stage3.py: _step_with_clipping).
class HostOptimizer {
 public:
  /// Parts have numbers below `parts`. Those that come one after the other step together until they
  /// have `group` elements (DeepSpeed's sub_group_size); 0: each by itself. All references outlive
  /// it.
  HostOptimizer(ProgramBuilder& builder, const Node& node, std::size_t parts, double group);

  /// Sends a part's gradients of a micro-batch once `after` is over; returns the copy, behind which
  /// the GPU needs them no more. `elements` are those that this rank updates.
  OpId send(std::size_t part, const std::string& of, double elements, std::vector<After> after,
            const Pass& pass);
  /// Adds the steps that have not begun, behind the last pass. Each of `uses` reads a part in the
  /// next step, once that is back. Returns the last copy. `how` are passes over all gradients
  /// before.
  OpId finish(const GradientPasses& how, const std::vector<std::optional<OpId>>& uses);

 private:
  /// Parts that step together.
  struct Group {
    std::string of{};  ///< its first one
    double elements = 0;
    std::vector<std::size_t> parts{};
    std::vector<After> sent{};
  };

  OpId add(Verb verb, const std::string& of, LaneId lane, Seconds time, std::vector<After> after);
  Seconds copy_time(double elements) const;
  void update(const Group& group, std::vector<After> after);

  ProgramBuilder& builder_;
  const Node& node_;
  double least_;
  LaneId out_, cpus_, back_;
  std::vector<std::optional<OpId>> returned_;
  std::vector<Group> waiting_;  ///< that have not begun to step; the last one fills
  std::vector<After> sent_;
  OpId last_{};
};

}  // namespace rehearse::inline strategy
