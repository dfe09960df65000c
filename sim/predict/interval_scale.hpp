#pragma once

#include <optional>
#include <vector>

#include "cost/cost.hpp"
#include "report/report.hpp"
#include "scenario/scenario.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline prediction {

// These facts of a scenario decide what its interval is told by.

/// Whether all times are computed from kernels: none is measured or given.
bool is_computed(const std::vector<StepCosts>& costs);
/// Whether a parameter server's updates are in the schedule.
bool has_updates(const Schedule& schedule);
/// Whether GPUs exchange over NVLink and nodes over RDMA, as those of most measured rows do.
bool has_fast_links(const Cluster& cluster);
/// Whether less than half of the parameters are trained.
bool trains_adapters(const Model& model);

/// Measured peaks correct the width that the sources of error give together, in
/// platforms/intervals.yaml, by what is trained (all, adapters) and whether on one GPU. The factor
/// is a conformal correction (Romano et al. 2019, Conformalized Quantile Regression): the share 0.9
/// (1 + 1/n) of n rows lies inside. Nothing where costs were measured, given, or stated by the
/// scenario; 1 for a group without rows. `costs` as group_costs() has them.
std::optional<IntervalBasis> memory_basis(const Scenario& scenario,
                                          const std::vector<StepCosts>& costs);
/// The same of all that a GPU's memory was seen to hold: too few sources for more groups.
std::optional<IntervalBasis> used_memory_basis(const std::vector<StepCosts>& costs);

}  // namespace rehearse::inline prediction
