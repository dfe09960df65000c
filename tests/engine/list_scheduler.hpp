#pragma once

#include <vector>

#include "cluster/cluster.hpp"
#include "schedule/schedule.hpp"

namespace rehearse {

/// When one operation was ready, started and ended, in seconds.
struct When {
  double ready, start, end;
};

/// By rank, operation and iteration.
using Timetable = std::vector<std::vector<std::vector<When>>>;

/// The timetable of a schedule whose flows never share a port, worked out without events and
/// without SimGrid: as the fixed point of "an operation is ready when the last of what it comes
/// after has ended". Collectives are rings at flow fidelity. Knows no overlap slowdown.
/// std::runtime_error if something never ends.
Timetable list_schedule(const Schedule& schedule, const Cluster& cluster);

}  // namespace rehearse
