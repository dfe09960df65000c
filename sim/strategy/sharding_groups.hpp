#pragma once

#include <cstddef>
#include <vector>

#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline strategy {

/// Of a hybrid sharding, the slot of the ranks with the same shard; before it are those that share.
inline constexpr std::size_t kSameShardGroup = 1;
/// And of those without replicas, of the ranks that share what is left after forward.
inline constexpr std::size_t kAfterForwardGroup = 1;

/// Ranks that share one copy of the parameters. InputError where they do not divide the cluster's.
std::size_t shard_group_size(const ShardedParameters& options, const Job& job);
/// The same of a layout's `replicas`, each at its place: by default those on the first one's node.
/// InputError where they do not divide these.
std::size_t shards_of_layout(const ShardedParameters& options,
                             const std::vector<std::size_t>& replicas,
                             const std::vector<Place>& places);
/// Consecutive members of each group, `size` together; or `across` these, members at one place.
std::vector<std::vector<std::size_t>> parts_of(const std::vector<std::vector<std::size_t>>& groups,
                                               std::size_t size, bool across);
/// Of so many ranks that share parameters, in groups of so many, and of those with the same
/// experts: who shards these together. InputError where experts lie across the groups.
std::size_t expert_shards(std::size_t group, std::size_t ranks, std::size_t with_experts);
/// InputError where TorchFsdp2::post_forward_group is no factor of the ranks that shard, below
/// them.
void check_post_forward_group(const ShardedParameters& options, std::size_t ranks);
/// Gives every rank one more group, of so many consecutive ranks; 0: none.
void add_post_forward_groups(Schedule& schedule, std::size_t ranks);
/// Gives every rank its groups. Consecutive ranks shard; of a `hybrid`, ranks at the same position
/// of their sharding group replicate each other.
void add_sharding_groups(Schedule& schedule, std::size_t shards, bool hybrid);

}  // namespace rehearse::inline strategy
