#pragma once

#include <cstdint>

#include "cost/cost.hpp"

namespace rehearse {

/// A training step that was timed as a whole on one GPU: all that many people know of a model. Of
/// one GPU alone: with several, part of the step is communication and waiting, which no factor on
/// the compute may take over. From a step of several GPUs the rate of one is found by trying.
struct WholeStep {
  double samples_per_s = 0;        ///< of one GPU, in steps that include the optimizer's
  std::int64_t batch = 1;          ///< samples of one micro-batch
  std::int64_t micro_batches = 1;  ///< per step: its gradient accumulation
};

/// What one GPU alone takes for the step at these costs: every micro-batch forward and backward,
/// then the optimizer.
Seconds step_time(const StepCosts& costs, std::int64_t micro_batches);

/// `costs` with every time multiplied by one factor: the one that makes the step at the costs
/// `at_measured` (those of the same model at `measured.batch`) take as long as was measured. What
/// each unit, and the optimizer, takes of the step stays as it was. Their origin is then
/// "measured (whole step)", and an assumption tells the factor.
StepCosts scaled_to(StepCosts costs, const StepCosts& at_measured, const WholeStep& measured);

}  // namespace rehearse
