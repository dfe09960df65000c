#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/algorithm/string/case_conv.hpp>
#include <map>
#include <string_view>

#include "cluster/cluster.hpp"
#include "config/document.hpp"
#include "config/draft.hpp"
#include "validation/run_columns.hpp"

namespace rehearse::inline validation {
namespace {

std::string lower(const std::string& text) { return boost::algorithm::to_lower_copy(text); }

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

class Settings {
 public:
  explicit Settings(const RunRow& row) : row_(row) {}

  std::vector<std::string> all() {
    add_model();
    add_numbers();
    add_cluster();
    add_framework();
    add_precision();
    add_strategy();
    add_recomputation();
    if (row_.choice("compile", {"yes", "no"}) == "yes") set("model.compile", "true");
    return std::move(settings_);
  }

 private:
  void set(const std::string& key, const std::string& value) {
    settings_.push_back(fmt::format("{}={}", key, value));
  }

  bool has_scenario() const { return !row_.text("scenario").empty(); }

  void add_model() {
    constexpr std::array<std::pair<const char*, const char*>, 6> kDimensions = {
        {{"layers", "layers"},
         {"hidden", "hidden_size"},
         {"heads", "heads"},
         {"kv_heads", "kv_heads"},
         {"ffn", "intermediate_size"},
         {"vocab", "vocab_size"}}};
    if (!row_.whole("layers")) {
      if (!has_scenario())
        row_.fail("layers", "the model's dimensions are not stated",
                  "fill in layers, hidden, heads, ffn and vocab, or name a scenario");
      return;
    }
    for (const auto& [column, key] : kDimensions) {
      const auto value = row_.whole(column);
      if (value) set(fmt::format("model.transformer.{}", key), std::to_string(*value));
    }
    const std::string experts = lower(row_.text("moe"));
    if (!has_scenario() && !experts.empty() && experts != "no")
      row_.fail("moe", "experts have no columns of their own", "name a scenario that has them");
  }

  void add_numbers() {
    constexpr std::array<std::pair<const char*, const char*>, 3> kNumbers = {
        {{"seq_len", "model.sequence"},
         {"micro_batch", "model.batch_per_gpu"},
         {"global_batch", "train.global_batch.sequences"}}};
    for (const auto& [column, key] : kNumbers)
      if (const auto value = row_.whole(column)) set(key, std::to_string(*value));
  }

  /// The cluster of a GPU is its maker's reference, where one is known by the GPU's name.
  std::string cluster_of_gpu() {
    const std::string gpu = row_.text("gpu"), kind = gpu.substr(0, gpu.find('-'));
    const std::string cluster = nearest(kind, cluster_names());
    if (kind.empty() || !has(cluster, lower(kind)))
      row_.fail("gpu", fmt::format("no cluster is known for \"{}\"", gpu),
                "add a column cluster; `rehearse list clusters` has them");
    return cluster;
  }

  void add_cluster() {
    const auto gpus = row_.whole("gpus");
    std::string cluster = row_.text("cluster");
    if (cluster.empty() && !has_scenario()) cluster = cluster_of_gpu();
    if (!cluster.empty()) set("cluster.use", cluster);
    if (!gpus) return;
    const std::int64_t node = std::min(row_.whole("gpus_per_node").value_or(8), *gpus);
    if (*gpus % node != 0)
      row_.fail("gpus", fmt::format("{} are no whole nodes of {}", *gpus, node),
                "correct gpus_per_node");
    set("cluster.nodes", std::to_string(*gpus / node));
    if (node < 8) set("cluster.gpus_per_node", std::to_string(node));
  }

  void add_framework() {
    // The first that a name has: Megatron-DeepSpeed trains by Megatron's code.
    constexpr std::array<std::pair<std::string_view, const char*>, 9> kNames = {
        {{"megatron", "megatron"},
         {"nemo automodel", "torch"},
         {"nemo", "megatron"},
         {"primus", "megatron"},
         {"torchtitan", "torchtitan"},
         {"deepspeed", "deepspeed"},
         {"fsdp", "torch"},
         {"ddp", "torch"},
         {"torch", "torch"}}};
    const std::string name = lower(row_.text("framework"));
    if (name.empty()) return;
    for (const auto& [part, framework] : kNames)
      if (has(name, part)) return set("framework", framework);
    row_.fail("framework", fmt::format("\"{}\" is not known", row_.text("framework")),
              "known: torch, torchtitan, megatron, deepspeed; or leave it empty");
  }

  bool is_sharded() const { return has(lower(row_.text("shard")), "fsdp"); }

  void add_precision() {
    const std::string name = lower(row_.text("precision"));
    if (name.empty()) return;
    if (name.starts_with("fp8") || name == "mxfp8") return set("model.precision", "fp8");
    if (name == "fp32" || name == "tf32") return set("model.precision", name);
    if (name != "bf16" && name != "fp16")
      row_.fail("precision", fmt::format("\"{}\" is not known", row_.text("precision")),
                "known: FP32, TF32, FP16, BF16, FP8; others stand in a scenario");
    // FSDP keeps fp32 parameters and gathers them in 16 bits.
    set("model.precision", is_sharded() ? "fp32" : name + "_master");
  }

  /// A strategy by how replicas are kept equal alone.
  Draft replicas() {
    const std::string name = lower(row_.text("shard"));
    const auto zero = [](int stage) {
      return Draft::map({{"zero", Draft::map({{"stage", stage}})}});
    };
    if (name.empty() || has(name, "zero-0") || name == "none")
      return Draft::map({{"ddp", Draft::map()}});
    if (has(name, "zero-1") || has(name, "distributed optimizer")) return zero(1);
    if (has(name, "zero-2")) return zero(2);
    if (has(name, "zero-3")) return zero(3);
    if (name.starts_with("fsdp")) {
      const char* type = lower(row_.text("precision")) == "fp16" ? "fp16" : "bf16";
      return Draft::map({{name.starts_with("fsdp2") ? "fsdp2" : "fsdp",
                          Draft::map({{"param_dtype", type}, {"reduce_dtype", "fp32"}})}});
    }
    row_.fail("shard", fmt::format("\"{}\" is not known", row_.text("shard")),
              "known: ZeRO-1, ZeRO-2, ZeRO-3, FSDP, FSDP2; others stand in a scenario");
  }

  void add_strategy() {
    const auto degree = [&](const char* column) { return row_.whole(column).value_or(1); };
    const auto tp = degree("tp"), pp = degree("pp"), vp = degree("vp"), cp = degree("cp"),
               ep = degree("ep");
    const bool split = std::max({tp, pp, vp, cp, ep}) > 1;
    if (has_scenario() && !split && row_.text("shard").empty()) return;
    Draft strategy = replicas();
    if (tp > 1) strategy.set("tensor_parallel", tp);
    if (row_.choice("sequence_parallel", {"yes", "no"}) == "yes")
      strategy.set("sequence_parallel", true);
    if (cp > 1) strategy.set("context_parallel", cp);
    if (ep > 1) strategy.set("expert_parallel", ep);
    if (pp > 1) strategy.set("pipeline_parallel", pp);
    if (vp > 1)
      strategy.set("pipeline",
                   Draft::map({{"schedule", "interleaved_1f1b"}, {"virtual_stages", vp}}));
    set("strategy", strategy.flow());
  }

  void add_recomputation() {
    const std::string name = lower(row_.text("recompute"));
    if (name.empty() || name == "none" || name == "no") return;
    if (name != "yes" && !name.starts_with("full"))
      row_.fail("recompute", fmt::format("\"{}\" is not known", row_.text("recompute")),
                "known: none, full; others stand in a scenario");
    set("model.activation_checkpointing", "{units: [layers.*]}");
  }

  const RunRow& row_;
  std::vector<std::string> settings_;
};

}  // namespace

std::vector<std::string> overrides_of(const RunRow& row) { return Settings(row).all(); }

std::string memory_metric(const RunRow& row) {
  const std::string kind = lower(row.text("peak_mem_kind"));
  if (has(kind, "allocated") || has(kind, "active")) return "memory.allocated_peak_bytes";
  if (has(kind, "reserved")) return "memory.reserved_peak_bytes";
  if (has(kind, "used") || has(kind, "smi")) return "memory.used_bytes";
  row.fail("peak_mem_kind", "it does not say which peak this is",
           "say allocated, reserved, or used (of nvidia-smi)");
}

double memory_unit(const RunRow& row) {
  static const std::map<std::string, double> units = {
      {"GiB", 1073741824.0}, {"GB", 1e9}, {"MiB", 1048576.0}, {"MB", 1e6}, {"B", 1}};
  const auto found = units.find(row.text("peak_mem_unit"));
  if (found == units.end())
    row.fail("peak_mem_unit", "no unit of memory", "say GiB, GB, MiB or MB");
  return found->second;
}

}  // namespace rehearse::inline validation
