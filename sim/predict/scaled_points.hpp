#pragma once

#include "cluster/cluster.hpp"
#include "profile/comm_points.hpp"

namespace rehearse::inline prediction {

/// Measurements of too few sizes for a curve, completed by what is predicted of the machine that
/// they were made on: its start-up, and what grows with the bytes scaled to meet the time at the
/// largest size. A note says by how much. Collectives of enough sizes stay as they are.
///
/// InputError where the machine has other ranks or nodes, or the time is below its start-up.
CommPoints completed(CommPoints measured, const Cluster& machine);

}  // namespace rehearse::inline prediction
