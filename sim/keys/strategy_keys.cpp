#include "config/fields.hpp"
#include "keys/keys.hpp"
#include "scenario/section_keys.hpp"
#include "strategy/strategy.hpp"
#include "strategy/strategy_keys.hpp"

namespace rehearse::inline keys {
namespace {

constexpr const char* kReplicas = "sim/strategy/read_replicas.cpp";
constexpr const char* kShards = "sim/strategy/read_shards.cpp";

/// The ways to distribute a training, each a map.
std::vector<Key> kinds() {
  std::vector<Key> lines;
  for (const std::string& name : strategy_names())
    lines.emplace_back(name.c_str(), type::map(), "-", describe_strategy(name).c_str());
  return lines;
}

/// A section's lines and one more.
std::vector<Key> with(std::vector<Key> lines, Key last) {
  lines.push_back(std::move(last));
  return lines;
}

}  // namespace

std::vector<KeySection> strategy_keys() {
  return {
      {"strategy.",
       "Strategy",
       "Rehearse",
       "sim/strategy/strategy.cpp",
       kinds()},

      {"strategy.",
       "Layout",
       "Megatron-LM; torchtitan",
       "sim/strategy/layout/layout_keys.hpp sim/strategy/layout/read_experts.cpp",
       layout_key_lines()},

      {"strategy.pipeline.",
       "Pipeline",
       "Megatron-LM; torch.distributed.pipelining",
       "sim/strategy/layout/layout_keys.hpp",
       pipeline_keys()},

      {"strategy.ddp.",
       "DDP",
       "PyTorch DistributedDataParallel",
       kReplicas,
       ddp_keys()},

      {"strategy.fsdp.",
       "FSDP",
       "PyTorch FullyShardedDataParallel",
       kShards,
       fsdp_keys()},

      {"strategy.fsdp2.",
       "FSDP2",
       "PyTorch fully_shard",
       kShards,
       fsdp2_keys()},

      {"strategy.megatron_fsdp.",
       "Megatron-FSDP",
       "Megatron-LM",
       kShards,
       megatron_fsdp_keys()},

      {"strategy.zero.",
       "ZeRO",
       "DeepSpeed; PyTorch ZeroRedundancyOptimizer",
       "sim/strategy/zero_keys.hpp",
       with(zero_keys(), {"KEY", type::like("strategy.ddp") | type::like("strategy.fsdp"), "-",
                           "Options of the stage, as far as its framework has them."})},

      {"strategy.ps.",
       "Parameter server",
       "Rehearse",
       "sim/strategy/server/read_server.cpp sim/strategy/outer/outer_step.cpp",
       parameter_server_keys()},

      {"strategy.local_sgd.",
       "Local SGD",
       "PyTorch PeriodicModelAverager; DiLoCo: Douillard et al. 2023",
       "sim/strategy/read_local_sgd.cpp sim/strategy/outer/outer_step.cpp",
       local_sgd_keys()},

      {"optimizer.",
       "Optimizer",
       "PyTorch torch.optim; LAMB: You et al. 2020",
       "sim/scenario/optimizer_section.cpp",
       lines_of({"NAME", type::map(), "sgd", "One of `rehearse list optimizers`."},
                optimizer_keys())}};
}

}  // namespace rehearse::inline keys
