#include "predict/blocking.hpp"

#include <fmt/format.h>

#include "cost/cost.hpp"

namespace rehearse::inline prediction {

void say_blocking(const Scenario& scenario, Report& report) {
  const std::string compute = "compute";
  if (!scenario.run.efficiency.launch_blocking || !report.bottleneck.starts_with(compute)) return;
  Scenario free = scenario;
  free.run.efficiency.launch_blocking = false;
  const auto computed = [](const Scenario& one) {
    const std::vector<StepCosts> costs = group_costs(one);
    Seconds sum;
    for (const UnitCost& unit : costs.front().units) sum += unit.forward + unit.backward;
    return sum;
  };
  const double waits = 1 - computed(free) / computed(scenario);
  report.bottleneck.insert(compute.size(),
                           fmt::format(" and the host that waits for each kernel ({:.0f} % of it; "
                                       "cuda_launch_blocking)",
                                       100 * waits));
}

}  // namespace rehearse::inline prediction
