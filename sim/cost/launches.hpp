#pragma once

#include "cost/cost.hpp"
#include "cost/roofline.hpp"

namespace rehearse::inline cost {

/// Writes down what launching each unit takes the host (StepCosts::units), which depends on no
/// batch. Whether the GPU waits for it the program says (schedule/host_ahead.hpp). Under
/// CUDA_LAUNCH_BLOCKING it waits for all of it, which then is part of the passes themselves.
void add_launches(StepCosts& costs, const Model& model, const Roofline& roofline,
                  Precision precision, const AnalyticEfficiency& efficiency);

/// Writes down what an optimizer's step over tensors takes the host.
void add_optimizer_launch(StepCosts& costs, const Model& model, const Optimizer& optimizer,
                          const AnalyticEfficiency& efficiency);

/// Costs under CUDA_LAUNCH_BLOCKING, hooks and all: the GPU has nothing to do while the host
/// launches what comes next, so that launches stand in the time of what they launch.
StepCosts waited_for(StepCosts costs);

}  // namespace rehearse::inline cost
