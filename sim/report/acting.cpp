#include "report/acting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/transformer.hpp"

namespace rehearse::inline report {
namespace {

/// A scenario and what was found of it, which each mechanism asks.
struct Case {
  const Scenario& scenario;
  Bytes communicators;

  const Layout* layout() const {
    return scenario.strategy.layout ? &*scenario.strategy.layout : nullptr;
  }
  bool has_experts() const { return scenario.transformer && scenario.transformer->experts; }
  bool tensor_ranks() const { return layout() != nullptr && layout()->mesh.tensor > 1; }
  bool expert_ranks() const {
    return layout() != nullptr && layout()->mesh.expert > 1 && !layout()->shares_tables;
  }
};

/// The key that says so; empty: it does not act.
using Says = std::string (*)(const Case&);

std::string gathers_logits(const Case& of) {
  return of.tensor_ranks() && of.layout()->gather_logits ? "strategy.gather_logits = true" : "";
}

std::string reduces_late(const Case& of) { return late_reduction(of.scenario.strategy); }

std::string graphs(const Case& of) {
  std::vector<std::string> scopes;
  for (const GraphScope scope : of.scenario.run.efficiency.graphs)
    scopes.push_back(graph_scope_name(scope));
  if (scopes.empty()) return "";
  return fmt::format("run.efficiency.cuda_graph_scope = [{}]", fmt::join(scopes, ", "));
}

std::string experts(const Case& of) {
  if (!of.has_experts()) return "";
  const ModelShape& shape = of.scenario.shape;
  const char* kernels = shape.eager_experts     ? "eager"
                        : shape.grouped_experts ? "grouped_mm"
                                                : "sequential";
  return fmt::format("model.experts_implementation = {}", kernels);
}

std::string routing(const Case& of) {
  if (!of.has_experts() || !of.expert_ranks()) return "";
  const Layout& layout = *of.layout();
  const std::string key = "strategy.experts.imbalance = ";
  if (layout.natural_routing) return key + "natural";
  if (layout.histogram) return key + "a histogram";
  if (layout.imbalance) return key + fmt::format("{:g}", *layout.imbalance);
  return key + "1 (even, as nobody says)";
}

std::string dispatcher(const Case& of) {
  if (!of.expert_ranks() || of.layout()->dispatch_sms == 0) return "";
  return fmt::format("strategy.experts.num_sms = {}", of.layout()->dispatch_sms);
}

std::string mixers(const Case& of) {
  if (!of.scenario.transformer || of.scenario.transformer->mixers().empty()) return "";
  const bool mamba = std::ranges::any_of(of.scenario.transformer->mixers(),
                                         [](const MixerPtr& mixer) { return mixer->is_mamba(); });
  return mamba ? "model.transformer.mamba" : "model.transformer";
}

std::string megatron_fsdp(const Case& of) {
  return is_megatron_fsdp(of.scenario.strategy) ? "strategy.megatron_fsdp" : "";
}

std::string buffers(const Case& of) {
  std::vector<std::string> keys;
  if (of.tensor_ranks() && !of.layout()->avoid_record_streams)
    keys.emplace_back("strategy.avoid_record_streams = false");
  if (of.communicators > Bytes(0))
    keys.push_back(fmt::format("cluster.nccl.version: {}", format(of.communicators)));
  return fmt::format("{}", fmt::join(keys, ", "));
}

std::string chunks(const Case& of) {
  const LossParts& parts = of.scenario.shape.loss_parts;
  if (!parts.any()) return "";
  if (parts.chunks == 0) return "model.loss: fused";
  return fmt::format("model.loss.chunked = {}{}", parts.chunks,
                     parts.at_once ? ", keeps none" : "");
}

/// Fast kernels load rows of 16 bytes, eight elements, and heads are such rows.
std::string off_tiles(const Case& of) {
  std::vector<std::string> keys;
  if (of.scenario.run.efficiency.launch_blocking)
    keys.emplace_back("run.efficiency.cuda_launch_blocking = true");
  const auto& network = of.scenario.transformer;
  constexpr std::int64_t kRow = 8;
  if (network && !of.scenario.shape.flash_attention && network->head_width % kRow != 0)
    keys.push_back(fmt::format("model.attention: eager, heads of {}", network->head_width));
  return fmt::format("{}", fmt::join(keys, ", "));
}

std::string narrow(const Case& of) {
  std::vector<std::string> keys;
  if (gathers_fp8(of.scenario.strategy)) keys.emplace_back("strategy.zero.fp8_param_gather = true");
  if (gathers_fp4(of.scenario.strategy)) keys.emplace_back("strategy.zero.fp4_param_gather = true");
  if (of.scenario.shape.attention_kernel == AttentionKernel::cudnn_fp8)
    keys.emplace_back("model.attention = cudnn_fp8");
  if (of.scenario.adaptation && of.scenario.adaptation->lora) keys.emplace_back("model.lora");
  return fmt::format("{}", fmt::join(keys, ", "));
}

std::string on_host(const Case& of) {
  const Optimizer& optimizer = of.scenario.optimizer;
  if (!optimizer.offloads()) return "";
  const std::string name = "optimizer." + to_string(optimizer.kind);
  if (optimizer.offload == Offload::nvme) return name + ".offload = nvme";
  if (optimizer.overlaps_backward()) return name + ".offload_overlap = backward";
  if (optimizer.offload_overlap == OffloadOverlap::copies)
    return name + ".offload_overlap = copies";
  return name + ".offload = cpu";
}

struct Known {
  const char* name;
  Says says;
};
constexpr std::array<Known, 13> kKnown = {
    {{"logits gathered over tensor ranks", gathers_logits},
     {"gradients reduced behind backward", reduces_late},
     {"CUDA graphs by scope", graphs},
     {"experts' kernels", experts},
     {"routing of tokens to experts", routing},
     {"dispatcher on multiprocessors", dispatcher},
     {"state spaces and linear attention", mixers},
     {"Megatron-LM's FSDP", megatron_fsdp},
     {"buffers of communicators", buffers},
     {"loss in chunks", chunks},
     {"products off their tiles, launches that block", off_tiles},
     {"weights kept narrow, adapters, FP8 attention", narrow},
     {"optimizer on the host", on_host}}};

}  // namespace

std::vector<ActingMechanism> acting(const Scenario& scenario, Bytes communicators) {
  std::vector<ActingMechanism> all;
  for (const Known& one : kKnown)
    if (std::string key = one.says({scenario, communicators}); !key.empty())
      all.push_back({one.name, std::move(key)});
  return all;
}

}  // namespace rehearse::inline report
