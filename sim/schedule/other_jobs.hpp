#pragma once

#include <vector>

#include "cluster/cluster.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline schedule {

/// Jobs that run at the same time as one, each on nodes of its own of the same cluster.
struct OtherJobs {
  /// All nodes, with what the jobs share: the fabric, the cores of one machine.
  Cluster cluster;
  std::vector<NodeId> nodes;  ///< by the one job's nodes: which of the cluster's they are
  struct Job {
    Schedule schedule;
    std::vector<NodeId> nodes;
  };
  std::vector<Job> jobs;
};

/// Some nodes of a cluster as a cluster of their own, in their order, on one switch.
Cluster part_of(const Cluster& cluster, const std::vector<NodeId>& nodes);

/// Whether some operation of a step takes a microsecond or more, or sends something; collectives
/// follow computation. A job that goes on for as long as another must not have endless steps in no
/// time.
bool takes_time(const Schedule& schedule);

/// One schedule of all jobs, on the nodes of the whole cluster. The one job's ranks come first, and
/// draw by chance what they draw without others. Options of the whole schedule (iterations, jitter,
/// seed, overlap) are the one job's.
Schedule together(const Schedule& job, const OtherJobs& others);

}  // namespace rehearse::inline schedule
