#pragma once

#include "cost/cost.hpp"
#include "cost/roofline.hpp"

namespace rehearse::inline cost {

/// Writes down what launching each unit takes the host, where the GPU waits for it.
void add_launches(StepCosts& costs, const Model& model, const Roofline& roofline,
                  Precision precision, const AnalyticEfficiency& efficiency);

}  // namespace rehearse::inline cost
