#include "scenario/silent_defaults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenario/sections.hpp"

namespace rehearse::inline scenario {
namespace {

std::optional<Map> map_at(const Map& map, const std::string& key) {
  if (!map.has(key)) return std::nullopt;
  const std::optional<Value> value = Map(map).optional(key);
  return value->is_map() ? std::optional(value->as_map()) : std::nullopt;
}

/// One section of the file: says what it lacks.
class Section {
 public:
  Section(std::optional<Map> map, std::string path, Scenario& scenario)
      : map_(std::move(map)), path_(std::move(path)), scenario_(scenario) {}

  void say(const std::string& key, const std::string& value) {
    if (map_ && map_->has(key)) return;
    const std::string start = fmt::format("{}{} = ", path_, key);
    if (noted(path_ + key) || std::ranges::any_of(scenario_.assumptions, [&](const auto& line) {
          return line.starts_with(start);
        }))
      return;
    scenario_.assumptions.push_back(start + value);
  }
  void say_whether(const std::string& key, bool value) { say(key, value ? "true" : "false"); }
  bool has(const std::string& key) const { return map_ && map_->has(key); }
  Section inner(const std::string& key) const {
    return {map_ ? map_at(*map_, key) : std::nullopt, path_ + key + ".", scenario_};
  }

 private:
  bool noted(const std::string& key) const {
    return std::ranges::any_of(scenario_.framework.set,
                               [&](const FrameworkSetting& one) { return one.key == key; });
  }

  std::optional<Map> map_;
  std::string path_;
  Scenario& scenario_;
};

/// Says what functions stand between the products of a transformer that is given by dimensions.
void say_shape(Section shape, const TransformerShape& t) {
  if (!shape.has("head_dim")) {
    if (!shape.has("kv_channels")) shape.say("head_dim", std::to_string(t.head_width));
  }
  shape.say("activation", "swiglu");
  shape.say("norm", "rmsnorm");
  shape.say("position", "rope");
  shape.say_whether("bias", t.output_bias);
  shape.say_whether("qkv_bias", t.qkv_bias);
  shape.say_whether("fused_qkv", t.fused_qkv);
  shape.say("parallel", "none");
  shape.say("dropout", fmt::format("{:g}", t.dropout));
  if (!shape.has("tie_word_embeddings")) shape.say_whether("tie_embeddings", t.tied);
  if (!shape.has("qk_layernorm")) shape.say_whether("qk_norm", t.head_norm != HeadNorm::none);
  if (!shape.has("num_key_value_heads") && !shape.has("num_query_groups"))
    shape.say("kv_heads", std::to_string(t.kv_heads));
  if (!shape.has("experts") || !t.experts) return;
  Section experts = shape.inner("experts");
  experts.say("intermediate_size", std::to_string(t.experts->width));
  experts.say("shared", "0");
}

void say_model(Section model, const Scenario& scenario) {
  model.say("train_metrics", "0");
  if (!has_given_times(scenario.model) && !model.has("captured") && !model.has("measured"))
    model.say_whether("compile", scenario.model.compile != Compile::none);
  if (scenario.transformer && !scenario.shape.flash_attention)
    model.say_whether("fused_softmax", scenario.shape.fused_softmax);
  if (model.has("lora")) model.inner("lora").say("targets", "[q, v]");
  if (scenario.transformer && model.has("transformer"))
    say_shape(model.inner("transformer"), *scenario.transformer);
}

void say_strategy(Section strategy, const Scenario& scenario) {
  if (scenario.cluster.gpu_count() > 1) {
    strategy.say("context_parallel", "1");
    strategy.say("expert_parallel", "1");
  }
  for (const char* name : {"fsdp", "fsdp2", "zero"}) {
    if (!strategy.has(name) || !shards_parameters(scenario.strategy)) continue;
    Section shards = strategy.inner(name);
    shards.say("param_dtype", "as model.precision says");
    shards.say("reduce_dtype", "as param_dtype");
  }
}

void say_optimizer(Section optimizer, const Optimizer& is) {
  optimizer.say("offload", "none");
  if (is.offloads()) optimizer.say("offload_overlap", "none");
  optimizer.say_whether("in_backward", is.in_backward);
  optimizer.say_whether("grad_scaler", is.scales());
  if (optimizer_memory(is).states == 0) return;
  optimizer.say("state_dtype", "as wide as what it updates");
  optimizer.say("master_dtype", "as model.precision says");
}

void say_sockets(Section tcp, const NicTransport& transport) {
  tcp.say("efficiency", fmt::format("{:g}", transport.efficiency));
  tcp.say("sockets", std::to_string(transport.sockets));
  if (std::isfinite(transport.socket_rate.value()))
    tcp.say("socket_rate", format(transport.socket_rate));
  if (std::isfinite(transport.host_rate.value())) tcp.say("host_rate", format(transport.host_rate));
  tcp.say("rate", format(transport.most()));
  tcp.say("per_message", format(transport.per_message));
  tcp.say("per_chunk", format(transport.per_chunk));
  tcp.say_whether("low_latency", transport.low_latency);
}

void say_network(Section cluster, const Cluster& is) {
  if (is.gpu_count() > 1) {
    Section nccl = cluster.inner("nccl");
    nccl.say("version", "a recent one");
    nccl.say("algorithms", "all that NCCL has");
    nccl.say("protocols", "all that NCCL has");
  }
  if (cluster.has("use") || !cluster.has("node")) return;
  const NicTransport& transport = is.groups.front().node.transport;
  if (is.node_count() > 1 && transport.kind == NicTransport::Kind::tcp)
    say_sockets(cluster.inner("node").inner("transport").inner("tcp"), transport);
}

}  // namespace

void say_silent_defaults(const Map& root, Scenario& scenario) {
  const Section file(root, "", scenario);
  say_model(file.inner("model"), scenario);
  say_network(file.inner("cluster"), scenario.cluster);
  say_strategy(file.inner("strategy"), scenario);
  say_optimizer(file.inner("optimizer").inner(to_string(scenario.optimizer.kind)),
                scenario.optimizer);
  file.inner("run").say("data_loading", "batches are there");
}

}  // namespace rehearse::inline scenario
