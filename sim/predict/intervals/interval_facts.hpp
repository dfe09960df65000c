#pragma once

#include <vector>

#include "cost/cost.hpp"
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

}  // namespace rehearse::inline prediction
