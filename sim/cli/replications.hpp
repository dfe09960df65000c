#pragma once

#include <cstdint>
#include <vector>

#include "cli/simulate.hpp"

namespace rehearse {

/// The seed of the run with the median step time (the lower of two in the middle; of equal ones the
/// first) among `times`, whose seeds count up from `first`.
std::uint64_t median_seed(std::uint64_t first, const std::vector<Seconds>& times);

/// Simulates run.replications of the plan, each in a process of its own beside this one, as many at
/// a time as there are cores, and says which seed's run has the median step time: where the order
/// of messages decides what follows, one run is a draw among unlike ones. Of one replication the
/// seed is known. To be asked before this process simulates.
std::uint64_t typical_seed(const Scenario& scenario, const RunPlan& plan);

}  // namespace rehearse
