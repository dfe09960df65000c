#pragma once

#include "cluster/cluster.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline engine {

/// The cluster with each node's NICs as one NIC of their joint rate, where that changes no time:
/// every flow between nodes is striped evenly over all NICs of both. Otherwise the cluster as it
/// is. It saves flows, and with them wall time.
Cluster with_bonded_nics(const Schedule& schedule, const Cluster& cluster);

}  // namespace rehearse::inline engine
