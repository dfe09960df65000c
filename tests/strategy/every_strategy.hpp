#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse {

struct NamedStrategy {
  std::string name;
  Strategy strategy;
};

inline constexpr CollectiveAlgorithm kEveryAlgorithm[] = {
    CollectiveAlgorithm::automatic, CollectiveAlgorithm::ring, CollectiveAlgorithm::tree,
    CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::direct};

/// DDP and ZeRO-1 with every combination of options that changes the schedule.
inline std::vector<NamedStrategy> every_replicated() {
  std::vector<NamedStrategy> all;
  for (const auto algorithm : kEveryAlgorithm)
    for (const auto compression :
         {TorchDdp::Compression::none, TorchDdp::Compression::fp16, TorchDdp::Compression::bf16})
      for (const bool view : {false, true})
        for (const int micro : {1, 3}) {
          const TorchDdp ddp{.bucket_cap_mb = 2,
                             .gradient_as_bucket_view = view,
                             .compression = compression,
                             .gradient_accumulation = micro,
                             .algorithm = algorithm};
          const std::string name = to_string(algorithm) + " compression " +
                                   std::to_string(static_cast<int>(compression)) +
                                   (view ? " view" : "") + " x" + std::to_string(micro);
          all.push_back({"ddp " + name, ddp});
          all.push_back({"zero 1 " + name, zero_1(ddp)});
        }
  for (int flags = 0; flags < 8; ++flags) {
    Horovod horovod{.overlap_grad_reduce = (flags & 1) == 0,
                    .cycle_time = Seconds((flags & 2) != 0 ? 1e-3 : 0)};
    if ((flags & 4) != 0) horovod.partition = Bytes(1 << 20);
    all.push_back({"horovod flags " + std::to_string(flags), horovod});
  }
  all.push_back({"deepspeed without zero", DeepspeedAllreduce{}});
  for (int flags = 0; flags < 16; ++flags) {
    const DeepspeedBuckets zero{.partitions_gradients = (flags & 1) != 0,
                                .reduce_bucket_size = 200'000,
                                .overlap_comm = (flags & 2) != 0,
                                .contiguous_gradients = (flags & 4) == 0,
                                .gradient_accumulation = (flags & 8) != 0 ? 3 : 1};
    if (!zero.partitions_gradients && !zero.contiguous_gradients) continue;
    all.push_back({strategy_name(zero) + " of DeepSpeed, flags " + std::to_string(flags), zero});
  }
  return all;
}

inline std::vector<NamedStrategy> every_fsdp() {
  std::vector<NamedStrategy> all;
  for (const auto sharding : {TorchFsdp1::Sharding::full_shard, TorchFsdp1::Sharding::shard_grad_op,
                              TorchFsdp1::Sharding::hybrid_shard})
    for (const auto prefetch : {TorchFsdp1::Prefetch::none, TorchFsdp1::Prefetch::backward_pre,
                                TorchFsdp1::Prefetch::backward_post})
      for (const auto wrap :
           {TorchFsdp1::Wrap::unit, TorchFsdp1::Wrap::model, TorchFsdp1::Wrap::size})
        for (int flags = 0; flags < 8; ++flags) {
          TorchFsdp1 fsdp{.sharding = sharding,
                          .backward_prefetch = prefetch,
                          .wrap = wrap,
                          .min_num_params = 400'000};
          fsdp.limit_all_gathers = (flags & 1) != 0;
          fsdp.cpu_offload = (flags & 2) != 0;
          fsdp.gradient_accumulation = (flags & 4) != 0 ? 2 : 1;
          if (flags == 5) fsdp.param_dtype = Precision::bf16_pure;
          all.push_back({strategy_name(fsdp) + " prefetch " +
                             std::to_string(static_cast<int>(prefetch)) + " wrap " +
                             std::to_string(static_cast<int>(wrap)) + " flags " +
                             std::to_string(flags),
                         fsdp});
        }
  for (int flags = 0; flags < 8; ++flags) {
    TorchFsdp2 fsdp{.reshard_after_forward = (flags & 1) != 0};
    fsdp.cpu_offload = (flags & 2) != 0;
    fsdp.gradient_accumulation = (flags & 4) != 0 ? 2 : 1;
    all.push_back({strategy_name(fsdp) + " flags " + std::to_string(flags), fsdp});
    DeepspeedZero3 zero;
    if ((flags & 2) != 0)
      zero = {.prefetch_bucket_size = 100'000,
              .max_reuse_distance = 0,
              .param_persistence_threshold = 1'000,
              .reduce_bucket_size = 200'000};
    zero.overlap_comm = (flags & 1) != 0;
    zero.gradient_accumulation = (flags & 4) != 0 ? 2 : 1;
    all.push_back({"zero 3 flags " + std::to_string(flags), zero});
  }
  return all;
}

/// On clusters of four workers or more.
inline std::vector<NamedStrategy> every_parameter_server() {
  std::vector<NamedStrategy> all;
  for (const int servers : {1, 3})
    for (const auto& staleness : {std::optional<std::uint32_t>(0), std::optional<std::uint32_t>(2),
                                  std::optional<std::uint32_t>()})
      for (const auto partition :
           {ParameterServer::Partition::size, ParameterServer::Partition::unit})
        for (const bool layerwise : {false, true})
          for (const auto& [backup, warmup, local] :
               {std::tuple(0, 0, 1), std::tuple(1, 0, 1), std::tuple(0, 1, 1), std::tuple(0, 0, 4),
                std::tuple(0, 1, 2)}) {
            if (staleness == 0U ? warmup > 0 : backup > 0) continue;
            const ParameterServer ps{.servers = servers,
                                     .staleness = staleness,
                                     .backup_workers = backup,
                                     .partition = partition,
                                     .layerwise = layerwise,
                                     .warmup_rounds = warmup,
                                     .local_steps = local};
            all.push_back({strategy_name(ps) + ", " + std::to_string(servers) + " servers" +
                               (partition == ParameterServer::Partition::unit ? " by unit" : "") +
                               (layerwise ? " layerwise" : ""),
                           ps});
          }
  for (const auto& staleness : {std::optional<std::uint32_t>(0), std::optional<std::uint32_t>(2),
                                std::optional<std::uint32_t>()})
    for (const bool layerwise : {false, true}) {
      ParameterServer ps{.servers = 2,
                         .staleness = staleness,
                         .aggregate = ParameterServer::Aggregate::node,
                         .layerwise = layerwise};
      all.push_back({strategy_name(ps) + (layerwise ? " layerwise" : ""), ps});
      ps.aggregate = ParameterServer::Aggregate::none;
      ps.worker_cpu_rate = BytesPerSecond(3e9);
      ps.server_cpu_rate = BytesPerSecond(2e9);
      all.push_back({strategy_name(ps) + (layerwise ? " layerwise" : "") + " with CPUs", ps});
      ps.local_steps = 3;
      ps.outer = OuterSgd{};
      ps.compression = OuterCompression::int8;
      all.push_back({strategy_name(ps) + (layerwise ? " layerwise" : ""), ps});
    }
  return all;
}

inline std::vector<NamedStrategy> every_local_sgd() {
  std::vector<NamedStrategy> all;
  for (const auto algorithm : kEveryAlgorithm)
    for (const int period : {1, 5})
      all.push_back({"local_sgd " + to_string(algorithm) + " " + std::to_string(period),
                     LocalSgd{.period = period, .algorithm = algorithm}});
  const TorchDdp ddp{.bucket_cap_mb = 2};
  using Kind = Strategy::Kind;
  for (const Kind& sync : {Kind{Alone{}}, Kind{ddp}, Kind{zero_1(ddp)}, Kind{TorchFsdp1{}},
                           Kind{TorchFsdp1{.sharding = TorchFsdp1::Sharding::hybrid_shard}}})
    for (const int overlap : {0, 1}) {
      const LocalSgd local{.period = 5,
                           .algorithm = CollectiveAlgorithm::ring,
                           .outer = OuterSgd{},
                           .compression = OuterCompression::int8,
                           .fragments = 1 + overlap,
                           .overlap_steps = overlap};
      const Strategy strategy{sync, {}, local};
      all.push_back({strategy_name(strategy) + ", overlap " + std::to_string(overlap), strategy});
    }
  return all;
}

inline std::vector<NamedStrategy> every_strategy() {
  std::vector<NamedStrategy> all = every_replicated();
  for (const auto& more : {every_fsdp(), every_parameter_server(), every_local_sgd()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace rehearse
