#include "cost/whole_step.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "profile/compute_error.hpp"

namespace rehearse {
Seconds step_time(const StepCosts& costs, std::int64_t micro_batches) {
  Seconds micro_batch;
  for (const UnitCost& unit : costs.units) micro_batch += unit.forward + unit.backward;
  return static_cast<double>(micro_batches) * micro_batch + costs.optimizer;
}

StepCosts scaled_to(StepCosts costs, const StepCosts& at_measured, const WholeStep& measured) {
  const Seconds simulated = step_time(at_measured, measured.micro_batches);
  check(simulated > Seconds(0) && measured.samples_per_s > 0, "a measured step takes time");
  const double samples = static_cast<double>(measured.batch * measured.micro_batches);
  const double factor = Seconds(samples / measured.samples_per_s) / simulated;
  // Another batch is still the roofline's guess.
  if (step_time(costs, 1) == step_time(at_measured, 1)) costs.uncertainty = kGpuDrift;
  for (UnitCost& unit : costs.units) {
    unit.forward = unit.forward * factor;
    unit.backward = unit.backward * factor;
  }
  costs.optimizer = costs.optimizer * factor;
  costs.provenance = Provenance::measured;
  costs.origin = "measured (whole step)";
  costs.assumptions.push_back(fmt::format(
      "compute: all times, the optimizer's too, times {:.4g}, so that one GPU alone trains the "
      "measured {:.6g} samples/s (batch {}, {} to a step); the shares of the units stay",
      factor, measured.samples_per_s, measured.batch, measured.micro_batches));
  return costs;
}

}  // namespace rehearse
