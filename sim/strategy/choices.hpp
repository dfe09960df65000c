#pragma once

#include "config/choices.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

inline constexpr Choices<CollectiveAlgorithm> kAlgorithms = {
    {"automatic", CollectiveAlgorithm::automatic},
    {"ring", CollectiveAlgorithm::ring},
    {"tree", CollectiveAlgorithm::tree},
    {"hierarchical", CollectiveAlgorithm::hierarchical},
    {"direct", CollectiveAlgorithm::direct}};
inline constexpr Choices<Fsdp::Sharding> kShardings = {
    {"full_shard", Fsdp::Sharding::full_shard},
    {"shard_grad_op", Fsdp::Sharding::shard_grad_op},
    {"hybrid_shard", Fsdp::Sharding::hybrid_shard}};

}  // namespace rehearse::inline strategy
