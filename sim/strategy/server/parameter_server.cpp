// Parameter server with bounded staleness (Li et al., OSDI 2014; Ho et al., "More Effective
// Distributed ML via a Stale Synchronous Parallel Parameter Server", NeurIPS 2013). Parts of the
// parameters live on servers, each behind its node's NIC; gradients wait in the server's queue and
// each costs its bytes over the apply rate, which is given or follows from the server's host.
#include "base/error.hpp"
#include "strategy/build_schedule.hpp"
#include "strategy/server/server_host.hpp"
#include "strategy/server/server_side.hpp"

namespace rehearse::inline strategy {

namespace {

// The GPUs of a node but its first follow it: they have no exchange of their own.
void make_nodes_workers(const ParameterServer& options, const Job& job, const ServerSide& side,
                        Schedule& schedule) {
  std::vector<std::optional<ProgramId>> followers(schedule.programs.size());
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    RankSpec& rank = schedule.ranks[r];
    const NodeGroup& group = job.cluster.group_of(rank.place.node);
    if (group.node.gpus < 2) continue;
    if (rank.place.gpu == 0) {
      std::vector<RankId> members;
      for (int gpu = 0; gpu < group.node.gpus; ++gpu)
        members.emplace_back(r + static_cast<std::size_t>(gpu));
      schedule.groups.push_back(make_group("node " + std::to_string(rank.place.node.index()),
                                           std::move(members), schedule));
    }
    rank.groups = {GroupId(schedule.groups.size() - 1)};
    if (rank.place.gpu == 0) continue;
    std::optional<ProgramId>& follower = followers[rank.program.index()];
    if (!follower) {
      const auto index = static_cast<std::size_t>(&group - job.cluster.groups.data());
      follower = ProgramId(schedule.programs.size());
      schedule.programs.push_back(server_worker(options, {job, group, group.name, job.costs[index]},
                                                side, {.exchanges = false, .shares = true}));
    }
    rank.program = *follower;
  }
}

}  // namespace

Schedule served_schedule(const Strategy& strategy, const Job& job) {
  const ParameterServer& options = *server_in(strategy);
  const std::size_t workers = worker_count(strategy, job.cluster);
  if (static_cast<std::size_t>(options.backup_workers) >= workers)
    throw InputError("error: strategy.ps.backup_workers: " +
                     std::to_string(options.backup_workers) + " of " + std::to_string(workers) +
                     " workers would leave none whose gradients count\nremedy: at most " +
                     std::to_string(workers - 1));
  if (static_cast<std::size_t>(options.sampled_workers) > workers)
    throw InputError(
        "error: strategy.ps.sampled_workers: " + std::to_string(options.sampled_workers) + " of " +
        std::to_string(workers) + " workers\nremedy: at most " + std::to_string(workers));
  if (strategy.layout) return layout_schedule(strategy, job);

  Schedule extra;  // events, before the ranks that refer to them
  const ServerSide side = server_side(options, job, workers, extra);

  const bool by_node = options.aggregate == ParameterServer::Aggregate::node;
  const bool by_priority = options.scheduling == ParameterServer::Scheduling::priority;
  Schedule schedule =
      schedule_by_node_group(job, [&](const NodeGroup& group, const StepCosts& costs) {
        WorkerPart part{.shares = by_node && group.node.gpus > 1};
        if (by_priority) part.queues = QueueId(side.servers.size());
        return server_worker(options, {job, group, group.name, costs}, side, part);
      });
  add_queues(options, side.servers, schedule);
  if (by_node) make_nodes_workers(options, job, side, schedule);
  schedule.events = std::move(extra.events);
  schedule.sampled_ranks = static_cast<std::uint32_t>(options.sampled_workers);
  schedule.warmup_rounds = static_cast<std::uint32_t>(options.warmup_rounds);
  add_servers(options, job, {side}, workers, schedule);
  return schedule;
}

}  // namespace rehearse::inline strategy
