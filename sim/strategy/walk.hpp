#pragma once

#include <cstddef>
#include <vector>

#include "strategy/layout/stage_plan.hpp"
#include "strategy/optimizer_step.hpp"

namespace rehearse::inline strategy {

/// One action of a rank's order: a pass over the units of one of its parts.
struct Pass {
  PipelineAction::What what = PipelineAction::forward;
  std::size_t part = 0;
  int micro = 0;
  /// No backward that makes gradients of the part's parameters comes before it in the step, or
  /// behind it.
  bool first = false, last = false;
};

/// How replicas of a part of the model stay equal: the hooks of a framework around the passes of
/// units. Each writes its operations where the host would issue them.
class Sync {
 public:
  virtual ~Sync() = default;
  Sync() = default;
  Sync(const Sync&) = delete;
  Sync& operator=(const Sync&) = delete;

  /// Before the first step: what the rank holds.
  virtual void setup() = 0;
  /// Before a unit computes; its first operation comes after what this returns.
  virtual std::vector<After> before_forward(std::size_t /*unit*/, const Pass& /*pass*/) {
    return {};
  }
  virtual void after_forward(std::size_t /*unit*/, OpId /*forward*/, const Pass& /*pass*/) {}
  /// Of a backward in two parts, before each.
  virtual std::vector<After> before_backward(std::size_t /*unit*/, const Pass& /*pass*/) {
    return {};
  }
  /// What becomes of the gradients that a backward makes.
  virtual Gradients gradients(const Pass& pass) const = 0;
  /// Behind what made the gradients of a unit's parameters.
  virtual void after_backward(std::size_t unit, OpId backward, const Pass& pass) = 0;
  virtual void after_pass(const Pass& /*pass*/) {}
  /// Behind the last pass of a training step.
  virtual void step() = 0;
};

/// Writes a rank's program: its steps, their actions in order, and the units of each. Two actions
/// that run beside each other fork and join here, and here alone.
Program walk(const StagePlan& plan, ProgramBuilder& builder, Sync& sync);

}  // namespace rehearse::inline strategy
