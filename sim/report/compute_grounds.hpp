#pragma once

#include <vector>

#include "report/page.hpp"
#include "report/report.hpp"

namespace rehearse::inline report {

/// Reports the costs by node group (group_costs) once for each kind of GPU. The optimizer's
/// time is that of the schedule, where ranks may share it.
std::vector<ComputeReport> compute_reports(const Scenario& scenario, const Schedule& schedule,
                                           const std::vector<StepCosts>& costs);

/// Whether half of the time on some GPU, or more, rests on its datasheet alone.
bool rests_on_datasheet(const std::vector<ComputeReport>& compute);
/// Says what most of the time rests on, a line for each kind of GPU.
void add_compute(const std::vector<ComputeReport>& compute, Page& page);

}  // namespace rehearse::inline report
