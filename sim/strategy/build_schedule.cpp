#include "strategy/build_schedule.hpp"

#include "base/error.hpp"

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

void require_gpus(const Job& job) {
  if (job.cluster.gpu_count() == 0)
    throw InputError(
        "error: cluster: no node has a GPU, so nothing can train\nremedy: set `gpus` of a node to "
        "1 or more");
}

}  // namespace rehearse::inline strategy
