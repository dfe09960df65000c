#include "predict/blocking.hpp"

#include <fmt/format.h>

#include "cost/cost.hpp"

namespace rehearse::inline prediction {

void say_blocking(const Scenario& scenario, Report& report) {
  const std::string compute = "compute";
  if (!scenario.run.efficiency.launch_blocking || !report.bottleneck.starts_with(compute)) return;
  const std::vector<StepCosts> costs = group_costs(scenario);
  Seconds launched, computed;
  for (const UnitCost& unit : costs.front().units) {
    launched += unit.forward_launch + unit.backward_launch;
    computed += unit.forward + unit.backward;
  }
  const double waits = launched / (launched + computed);
  report.bottleneck.insert(compute.size(),
                           fmt::format(" and the host that waits for each kernel ({:.0f} % of it; "
                                       "cuda_launch_blocking)",
                                       100 * waits));
}

}  // namespace rehearse::inline prediction
