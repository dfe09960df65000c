#include "strategy/sharding_groups.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "strategy/build_schedule.hpp"
#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {

std::size_t shard_group_size(const ShardedParameters& options, const Job& job) {
  const std::size_t world = job.cluster.gpu_count();
  if (!options.hybrid()) return world;
  const auto size = static_cast<std::size_t>(
      options.shard_group > 0 ? options.shard_group : job.cluster.groups.front().node.gpus);
  if (size == 0 || world % size != 0)
    throw InputError("error: strategy.fsdp.shard_group: " + std::to_string(size) +
                     " ranks do not divide the " + std::to_string(world) +
                     " ranks of the cluster\nremedy: choose a divisor of " + std::to_string(world));
  return size;
}

std::size_t shards_of_layout(const ShardedParameters& options,
                             const std::vector<std::size_t>& replicas,
                             const std::vector<Place>& places) {
  const auto on_node = [&](std::size_t rank) {
    return places[rank].node == places[replicas.front()].node;
  };
  const auto size = options.shard_group > 0
                        ? static_cast<std::size_t>(options.shard_group)
                        : static_cast<std::size_t>(std::ranges::count_if(replicas, on_node));
  const std::size_t all = replicas.size();
  if (all % size != 0)
    throw InputError(fmt::format(
        "error: strategy.fsdp.shard_group: {} ranks do not divide the {} that have a stage's "
        "layers\nremedy: choose a divisor of {}",
        size, all, all));
  return size;
}

std::vector<std::vector<std::size_t>> parts_of(const std::vector<std::vector<std::size_t>>& groups,
                                               std::size_t size, bool across) {
  std::vector<std::vector<std::size_t>> parts;
  for (const auto& group : groups) {
    const std::size_t count = across ? size : group.size() / size;
    const std::size_t first = parts.size();
    parts.resize(first + count);
    for (std::size_t i = 0; i < group.size(); ++i)
      parts[first + (across ? i % size : i / size)].push_back(group[i]);
  }
  return parts;
}

std::size_t expert_shards(std::size_t group, std::size_t ranks, std::size_t with_experts) {
  const std::size_t groups = ranks / group;
  if (with_experts % groups == 0) return with_experts / groups;
  throw InputError(fmt::format(
      "error: strategy.fsdp.shard_group: groups of {} cut through the ranks that share experts: {} "
      "ranks have the same ones, in {} groups\nremedy: a group that holds whole expert_parallel "
      "groups, as torchtitan asks",
      group, with_experts, groups));
}

void check_post_forward_group(const ShardedParameters& options, std::size_t ranks) {
  const auto group = static_cast<std::size_t>(options.post_forward_group);
  if (group == 0 || (group < ranks && ranks % group == 0)) return;
  throw InputError("error: strategy.fsdp2.reshard_after_forward: " + std::to_string(group) +
                   " ranks are no factor of the " + std::to_string(ranks) +
                   " that shard, and less\nremedy: choose a divisor, or true for all of them");
}

void add_post_forward_groups(Schedule& schedule, std::size_t ranks) {
  for (std::size_t first = 0; ranks > 0 && first < schedule.ranks.size(); first += ranks) {
    std::vector<RankId> members;
    for (std::size_t i = 0; i < ranks; ++i) members.emplace_back(first + i);
    for (const RankId member : members)
      schedule.ranks[member.index()].groups.emplace_back(schedule.groups.size());
    schedule.groups.push_back(make_group("after forward", std::move(members), schedule));
  }
}

void add_sharding_groups(Schedule& schedule, std::size_t shards, bool hybrid) {
  const std::size_t world = schedule.ranks.size();
  for (std::size_t first = 0; first < world; first += shards) {
    std::vector<RankId> members;
    for (std::size_t i = 0; i < shards; ++i) members.emplace_back(first + i);
    for (const RankId member : members)
      schedule.ranks[member.index()].groups = {GroupId(schedule.groups.size())};
    schedule.groups.push_back(
        make_group(hybrid ? "shards" : "world", std::move(members), schedule));
  }
  for (std::size_t position = 0; hybrid && position < shards; ++position) {
    std::vector<RankId> members;
    for (std::size_t rank = position; rank < world; rank += shards) members.emplace_back(rank);
    for (const RankId member : members)
      schedule.ranks[member.index()].groups.emplace_back(schedule.groups.size());
    schedule.groups.push_back(make_group("replicas", std::move(members), schedule));
  }
}

}  // namespace rehearse::inline strategy
