#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline strategy {

ShardedParameters::ShardedParameters(const TorchFsdp1& options)
    : held(options.flat_gradients ? Held::flat : Held::flat_trained),
      sharding(options.sharding),
      shard_group(options.shard_group),
      backward_prefetch(options.backward_prefetch),
      forward_prefetch(options.forward_prefetch),
      limit_all_gathers(options.limit_all_gathers),
      wrap(options.wrap),
      min_num_params(options.min_num_params),
      param_dtype(options.param_dtype),
      reduce_dtype(options.reduce_dtype),
      buffer_dtype(options.buffer_dtype),
      cpu_offload(options.cpu_offload),
      gradient_accumulation(options.gradient_accumulation),
      no_sync(options.no_sync),
      reentrant_checkpoints(options.reentrant_checkpoints),
      algorithm(options.algorithm),
      host_overhead(options.host_overhead) {}

ShardedParameters::ShardedParameters(const TorchFsdp2& options)
    : held(Held::each),
      sharding(options.shard_group > 0         ? TorchFsdp1::Sharding::hybrid_shard
               : options.reshard_after_forward ? TorchFsdp1::Sharding::full_shard
                                               : TorchFsdp1::Sharding::shard_grad_op),
      shard_group(options.shard_group),
      post_forward_group(options.post_forward_group),
      wrap(options.wrap == TorchFsdp2::Wrap::blocks ? TorchFsdp1::Wrap::blocks
                                                    : TorchFsdp1::Wrap::unit),
      param_dtype(options.param_dtype),
      reduce_dtype(options.reduce_dtype),
      cpu_offload(options.cpu_offload),
      gradient_accumulation(options.gradient_accumulation),
      algorithm(options.algorithm),
      host_overhead(options.host_overhead) {}

ShardedParameters::ShardedParameters(const MegatronFsdp& options)
    : held(Held::views),
      forward_prefetch(true),
      wrap(TorchFsdp1::Wrap::blocks),
      gathers_once(options.sharding == MegatronFsdp::Sharding::optim_grads),
      algorithm(options.algorithm),
      host_overhead(options.host_overhead) {
  if (options.grad_reduce_in_fp32.value_or(true)) reduce_dtype = Precision::fp32;
}

ShardedParameters::ShardedParameters(const DeepspeedZero3& options)
    : held(Held::flat_trained),
      param_dtype(options.param_dtype),
      reduce_dtype(options.reduce_dtype),
      buffer_dtype(options.buffer_dtype),
      cpu_offload(options.cpu_offload),
      gradients_follow_optimizer(true),
      sub_group_size(options.sub_group_size),
      gradient_accumulation(options.gradient_accumulation),
      algorithm(options.algorithm) {}

std::optional<ShardedParameters> sharded_in(const Strategy& strategy) {
  return std::visit(
      [](const auto& options) -> std::optional<ShardedParameters> {
        if constexpr (std::is_constructible_v<ShardedParameters, decltype(options)>)
          return ShardedParameters(options);
        return std::nullopt;
      },
      strategy.sync);
}

Precision computes_in(const ShardedParameters& options, Precision precision) {
  if (!options.param_dtype) return computed_in(precision);
  const bool autocast = is_autocast(precision);
  switch (*options.param_dtype) {
    case Precision::bf16_pure:
      return autocast ? Precision::bf16_pure_autocast : Precision::bf16_pure;
    case Precision::fp16_pure:
      return autocast ? Precision::fp16_pure_autocast : Precision::fp16_pure;
    default:
      if (parameter_element(precision) == Bytes(4)) return precision;
      return autocast ? Precision::bf16 : Precision::fp32;
  }
}

Precision computes_in(const Strategy& strategy, Precision precision) {
  const auto sharded = sharded_in(strategy);
  return sharded ? computes_in(*sharded, precision) : computed_in(precision);
}

}  // namespace rehearse::inline strategy
