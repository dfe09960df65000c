#pragma once

#include <optional>
#include <string>

#include "cost/cost.hpp"

namespace rehearse::inline cost {

/// Question that step_costs is asked.
struct CostQuestion {
  const Model& model;
  const Gpu& gpu;
  Precision precision;
  std::int64_t batch;
  const Optimizer& optimizer;
  const AnalyticEfficiency& efficiency;
};

/// The units' costs as the source measured them, or carried over; all but the optimizer's time.
StepCosts profiled_units(const CostQuestion& question, const CostSource& source);

/// One optimizer step over all parameters, with a line about where it comes from.
struct OptimizerCost {
  Seconds time;
  double uncertainty = 0;  ///< as StepCosts::uncertainty
  std::string assumption;
};
/// Nothing if the source did not measure this kind, or fused kernels or other formats than those of
/// its parameters are asked for.
std::optional<OptimizerCost> profiled_optimizer(const CostQuestion& question,
                                                const CostSource& source);

/// How a profile's units differ from the model's: `unit "fc2" has 1290 parameters; the model's has
/// 2580`. Empty where they agree by name and parameters.
std::string unit_difference(const Model& model, const ComputeProfile& profile);

}  // namespace rehearse::inline cost
