#pragma once

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// Ranks that share one copy of the parameters. InputError where they do not divide the cluster's.
std::size_t shard_group_size(const Fsdp& options, const Job& job);
/// InputError where Fsdp::post_forward_group is no factor of the ranks that shard, below them.
void check_post_forward_group(const Fsdp& options, const Job& job);
/// Gives every rank one more group, of so many consecutive ranks; 0: none.
void add_post_forward_groups(Schedule& schedule, std::size_t ranks);
/// Gives every rank its groups. Consecutive ranks shard; of a `hybrid`, ranks at the same position
/// of their sharding group replicate each other.
void add_sharding_groups(Schedule& schedule, std::size_t shards, bool hybrid);

}  // namespace rehearse::inline strategy
