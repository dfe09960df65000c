#pragma once

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// What the hooks read that shard parameters, whoever's code they are. Members are as those of
/// TorchFsdp1 that have the same name.
struct ShardedParameters {
  /// What parameters that travel together are held by: one flat tensor, whose gradients hold what
  /// is frozen as well; one of what is trained; or a tensor each, into which what was gathered is
  /// copied before it is used, and of which gradients are copied into what is reduced
  /// (_fsdp_collectives.py: foreach_all_gather_copy_out, foreach_reduce).
  /// `views`: one buffer, which products of weights add their gradients to in the type that is
  /// reduced; a rank adds what it receives to its share of all (Megatron-LM's main_grad).
  enum class Held { flat, flat_trained, each, views };
  Held held = Held::flat;
  TorchFsdp1::Sharding sharding = TorchFsdp1::Sharding::full_shard;
  int shard_group = 0;
  int post_forward_group = 0;  ///< TorchFsdp2's
  TorchFsdp1::Prefetch backward_prefetch = TorchFsdp1::Prefetch::backward_pre;
  bool forward_prefetch = false;
  bool limit_all_gathers = true;
  TorchFsdp1::Wrap wrap = TorchFsdp1::Wrap::unit;
  std::int64_t min_num_params = 0;
  std::optional<Precision> param_dtype{}, reduce_dtype{}, buffer_dtype{};
  bool cpu_offload = false;
  /// An optimizer on the host has the reduced gradients there: DeepspeedZero3's (stage3.py:
  /// grad_partitions_flat_buffer, which is made on self.device).
  bool gradients_follow_optimizer = false;
  /// DeepspeedZero3's; of others: elements whose gradients are converted together.
  std::int64_t sub_group_size = 1'000'000'000;
  int gradient_accumulation = 1;
  bool no_sync = false;
  bool gathers_once = false;  ///< ranks keep whole parameters, and gather updated ones once a step
  bool reentrant_checkpoints = false;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  std::optional<Seconds> host_overhead{};

  ShardedParameters(const TorchFsdp1& options);
  ShardedParameters(const TorchFsdp2& options);
  ShardedParameters(const MegatronFsdp& options);
  ShardedParameters(const DeepspeedZero3& options);

  bool keeps_tensors() const { return held == Held::each; }
  bool adds_to_views() const { return held == Held::views; }
  bool hybrid() const { return sharding == TorchFsdp1::Sharding::hybrid_shard; }
};

/// Nothing where each rank has all parameters.
std::optional<ShardedParameters> sharded_in(const Strategy& strategy);
/// How `param_dtype` and its like call a type: "bf16".
std::string mixed_type_name(Precision type);

/// What the units of a model of that precision compute in: MixedPrecision's param_dtype takes the
/// place of the parameters' own type, and autocast stays as it is.
Precision computes_in(const ShardedParameters& options, Precision precision);

}  // namespace rehearse::inline strategy
