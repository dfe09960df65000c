#pragma once

#include "cost/cost.hpp"
#include "cost/roofline.hpp"

namespace rehearse::inline cost {

/// Writes down what launching each unit takes the host, where the GPU waits for it.
void add_launches(StepCosts& costs, const Model& model, const Roofline& roofline,
                  Precision precision, double batch, const AnalyticEfficiency& efficiency);

/// Writes down what an optimizer's step takes the host: where the GPU waits for it anyway, or a
/// loop over tensors takes longer than its kernels do (`costs.optimizer`).
void add_optimizer_launch(StepCosts& costs, const Model& model, const Optimizer& optimizer,
                          const AnalyticEfficiency& efficiency);

}  // namespace rehearse::inline cost
