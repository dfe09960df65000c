#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// A schedule with one program per group of nodes that has GPUs and one rank per GPU, its slowdown
/// from the node's speed; `make` writes each group's program.
template <class Make>
Schedule schedule_by_node_group(const Job& job, Make make) {
  Schedule schedule;
  std::vector<std::optional<ProgramId>> programs(job.cluster.groups.size());
  for (std::size_t g = 0; g < job.cluster.groups.size(); ++g) {
    if (job.cluster.groups[g].node.gpus == 0) continue;
    programs[g] = ProgramId(schedule.programs.size());
    schedule.programs.push_back(make(job.cluster.groups[g], job.costs[g]));
  }
  std::size_t node = 0;
  for (std::size_t g = 0; g < job.cluster.groups.size(); ++g) {
    const NodeGroup& group = job.cluster.groups[g];
    for (int i = 0; i < group.nodes; ++i, ++node)
      for (int gpu = 0; gpu < group.node.gpus; ++gpu)
        schedule.ranks.push_back({.program = *programs[g],
                                  .place = {NodeId(node), gpu},
                                  .slowdown = 1 / group.node.speed,
                                  .groups = {}});
  }
  return schedule;
}

/// A group of given ranks, its node count taken from their places.
Group make_group(std::string name, std::vector<RankId> members, const Schedule& schedule);
/// Puts all ranks into one group, as slot 0 of every rank.
void add_world(Schedule& schedule);

/// Each replica is one GPU.
Schedule data_parallel_schedule(const Strategy& strategy, const Job& job);
/// Ranks of a layout share each replica, which servers may keep equal, too.
Schedule layout_schedule(const Strategy& strategy, const Job& job);
/// Workers exchange with servers, with a layout or without.
Schedule served_schedule(const Strategy& strategy, const Job& job);
/// The one of these that plays `sync` and `layout`, whatever local SGD makes of its steps.
Schedule synchronized_schedule(const Strategy& strategy, const Job& job);
/// Periods of local SGD, each replica's steps as synchronized_schedule() has them.
Schedule local_schedule(const Strategy& strategy, const Job& job);

}  // namespace rehearse::inline strategy
