#pragma once

#include <vector>

#include "cost/cost.hpp"
#include "report/report.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline prediction {

/// Where the errors of a GPU's memory come from: what its peak holds, by kind, what lies beside it,
/// and what nobody said of the software. A share is d ln(bytes) / d ln(bytes of the mechanism): its
/// part of the peak, or of all that is taken. Half-widths are those of platforms/intervals.yaml,
/// where measured rows told them. Where times are measured or given, so are sizes; there one
/// mechanism stands for all. `costs` as group_costs() has them.
MemoryMechanisms memory_mechanisms(const Scenario& scenario, const std::vector<StepCosts>& costs,
                                   const MemoryReport& memory);

}  // namespace rehearse::inline prediction
