// Which combination of axes is played by whom, and what schedules are made of.
#include "strategy/build_schedule.hpp"

#include <cmath>

#include "base/error.hpp"
#include "strategy/server/server_host.hpp"

namespace rehearse::inline strategy {

Group make_group(std::string name, std::vector<RankId> members, const Schedule& schedule) {
  Group group{.name = std::move(name), .members = std::move(members)};
  group.ranks = group.members.size();
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    const NodeId node = schedule.ranks[group.members[i].index()].place.node;
    if (i == 0 || node != schedule.ranks[group.members[i - 1].index()].place.node) ++group.nodes;
  }
  return group;
}

void add_world(Schedule& schedule) {
  std::vector<RankId> all;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) all.emplace_back(r);
  schedule.groups.push_back(make_group("world", std::move(all), schedule));
  for (RankSpec& rank : schedule.ranks) rank.groups = {GroupId(schedule.groups.size() - 1)};
}

namespace {

/// Ranks whose gradients count in an iteration: backup workers' are dropped, not all workers need
/// take part, and some GPUs may serve.
double contributing_ranks(const Strategy& strategy, const Job& job, const Schedule& schedule) {
  const auto* server = server_in(strategy);
  if (server == nullptr) {
    Mesh replica = mesh_of(strategy);
    replica.data = 1;
    return static_cast<double>(job.cluster.gpu_count() / replica.ranks());
  }
  if (server->sampled_workers > 0) return server->sampled_workers;
  const auto workers = static_cast<double>(worker_count(strategy, job.cluster));
  const auto ranks = static_cast<double>(computing_ranks(schedule).size());
  return ranks * (workers - server->backup_workers) / workers;
}

}  // namespace

Schedule synchronized_schedule(const Strategy& strategy, const Job& job) {
  if (server_in(strategy) != nullptr) return served_schedule(strategy, job);
  return strategy.layout ? layout_schedule(strategy, job) : data_parallel_schedule(strategy, job);
}

Schedule build_schedule(const Strategy& strategy, const Job& job) {
  if (job.cluster.gpu_count() == 0)
    throw InputError(
        "error: cluster: no node has a GPU, so nothing can train\nremedy: set `gpus` of a node to "
        "1 or more");
  Schedule schedule =
      strategy.local_sgd ? local_schedule(strategy, job) : synchronized_schedule(strategy, job);
  if (!schedule.mesh) {
    schedule.samples_per_iteration =
        std::floor(contributing_ranks(strategy, job, schedule)) *
        static_cast<double>(job.batch_per_gpu * batches_per_iteration(strategy));
  }
  return schedule;
}

}  // namespace rehearse::inline strategy
