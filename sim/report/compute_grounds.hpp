#pragma once

#include <vector>

#include "report/report.hpp"

namespace rehearse::inline report {

/// Reports the costs by node group (group_costs) once for each kind of GPU. The optimizer's
/// time is that of the schedule, where ranks may share it.
std::vector<ComputeReport> compute_reports(const Scenario& scenario, const Schedule& schedule,
                                           const std::vector<StepCosts>& costs);

/// Sums up what the families take, but for the optimizer.
Seconds total(const std::vector<FamilyReport>& families);

}  // namespace rehearse::inline report
