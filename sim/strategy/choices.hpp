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
inline constexpr Choices<TorchFsdp1::Sharding> kShardings = {
    {"full_shard", TorchFsdp1::Sharding::full_shard},
    {"shard_grad_op", TorchFsdp1::Sharding::shard_grad_op},
    {"hybrid_shard", TorchFsdp1::Sharding::hybrid_shard}};
inline constexpr Choices<MegatronFsdp::Sharding> kMegatronShardings = {
    {"optim_grads", MegatronFsdp::Sharding::optim_grads},
    {"optim_grads_params", MegatronFsdp::Sharding::optim_grads_params}};

}  // namespace rehearse::inline strategy
