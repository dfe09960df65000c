#pragma once

#include "report/report.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline prediction {

/// Says in what bounds a step how much of its compute is the host that waits for each kernel
/// (run.efficiency.cuda_launch_blocking): launches stand in the time of what they launch.
void say_blocking(const Scenario& scenario, Report& report);

}  // namespace rehearse::inline prediction
