#pragma once

#include <optional>
#include <vector>

#include "cost/cost.hpp"
#include "report/report.hpp"
#include "scenario/scenario.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline prediction {

/// Measured steps correct the width that the sources of error give together, in
/// platforms/intervals.yaml, by the scenario's kind of work (one GPU, replicas in a node or on
/// nodes, layouts, experts, servers) and what is known of its GPU's kernels. The factor is a
/// conformal correction (Romano et al. 2019, Conformalized Quantile Regression): the share 0.9 (1 +
/// 1/n) of n rows lies inside. Nothing where costs were measured, given, or stated by the scenario;
/// 1 for a group without rows. `costs` as group_costs() has them.
std::optional<IntervalBasis> time_basis(const Scenario& scenario, const Schedule& schedule,
                                        const std::vector<StepCosts>& costs);

/// The same of measured peaks: by what is trained (all, adapters) and whether on one GPU.
std::optional<IntervalBasis> memory_basis(const Scenario& scenario,
                                          const std::vector<StepCosts>& costs);
/// The same of all that a GPU's memory was seen to hold: too few sources for more groups.
std::optional<IntervalBasis> used_memory_basis(const std::vector<StepCosts>& costs);

/// The sources with both ends so many times as far away, in ln; a mean staleness stays.
std::vector<ErrorSource> scaled(std::vector<ErrorSource> sources, double factor);

}  // namespace rehearse::inline prediction
