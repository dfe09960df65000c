// A scenario's facts, in the names that an import gives them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/document.hpp"
#include "foreign/assemble.hpp"
#include "foreign/export_facts.hpp"
#include "foreign/export_recipes.hpp"

namespace rehearse::inline foreign {
namespace {

const std::string kShape = "model.transformer.";

std::string flow_of(const Value& value) {
  if (value.is_list()) {
    std::string text = "[";
    for (const Value& one : value.as_list()) text += (text.size() > 1 ? ", " : "") + one.shown();
    return text + "]";
  }
  if (!value.is_map()) return value.is_null() ? "null" : value.shown();
  std::string text = "{";
  Map map = value.as_map();
  for (const std::string& key : map.keys())
    text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "", key, flow_of(map.require(key)));
  return text + "}";
}

/// Every scalar under its path, and maps as they are written.
void flatten(const Value& value, const std::string& path, Facts& facts) {
  if (!path.empty()) say(facts, path, flow_of(value));
  if (!value.is_map()) return;
  Map map = value.as_map();
  for (const std::string& key : map.keys())
    flatten(map.require(key), path.empty() ? key : path + "." + key, facts);
}

/// The one key of a section that names its kind, and the options below it.
void rename_kind(Facts& facts, const std::string& section, const std::vector<std::string>& kinds,
                 const std::string& name) {
  Facts renamed;
  for (const std::string& kind : kinds) {
    const std::string path = section + "." + kind;
    if (!facts.contains(path)) continue;
    say(renamed, name, kind);
    for (const auto& [key, fact] : facts)
      if (key.starts_with(path + "."))
        say(renamed, name + "." + key.substr(path.size() + 1), fact.value);
    std::erase_if(facts, [&](const auto& fact) {
      return fact.first == path || fact.first.starts_with(path + ".");
    });
  }
  facts.merge(renamed);
}

void say_count(Facts& facts, const std::string& name, std::int64_t count) {
  if (count > 0 && !facts.contains(name)) say(facts, name, std::to_string(count));
}

std::string activation_of(const TransformerShape& shape) {
  if (shape.gated) return shape.activation == ActivationKind::silu ? "swiglu" : "geglu";
  switch (shape.activation) {
    case ActivationKind::gelu:
      return "gelu";
    case ActivationKind::gelu_new:
      return "gelu_new";
    case ActivationKind::gelu_written:
    case ActivationKind::gelu_fast:
      return "gelu_fast";
    case ActivationKind::relu:
      return "relu";
    case ActivationKind::relu_squared:
    case ActivationKind::relu_then_square:
      return "relu2";
    case ActivationKind::silu:
      return "silu";
  }
  return "gelu";
}

std::string position_of(PositionKind position) {
  switch (position) {
    case PositionKind::rope:
      return "rope";
    case PositionKind::learned:
      return "learned";
    case PositionKind::alibi:
      return "alibi";
    case PositionKind::relative:
      return "relative";
    case PositionKind::none:
      return "none";
  }
  return "none";
}

/// The dimensions of a network that a scenario names.
void say_shape(const TransformerShape& shape, Facts& facts) {
  const auto set = [&](const std::string& name, std::int64_t count) {
    say_count(facts, kShape + name, count);
  };
  const auto word = [&](const std::string& name, const std::string& text) {
    if (!facts.contains(kShape + name)) say(facts, kShape + name, text);
  };
  set("layers", shape.layers);
  set("hidden_size", shape.hidden);
  set("heads", shape.heads);
  if (shape.kv_heads != shape.heads) set("kv_heads", shape.kv_heads);
  if (shape.head_width != 0 && shape.head_width * shape.heads != shape.hidden)
    set("head_dim", shape.head_width);
  set("intermediate_size", shape.feed_forward);
  set("vocab_size", shape.vocabulary);
  word("activation", activation_of(shape));
  word("norm", shape.norm == NormKind::rms_norm ? "rmsnorm" : "layernorm");
  word("position", position_of(shape.position));
  word("tie_embeddings", shape.tied ? "true" : "false");
  word("bias", shape.feed_forward_bias ? "true" : "false");
  if (shape.qkv_bias && !shape.feed_forward_bias) word("qkv_bias", "true");
  word("dropout", fmt::format("{}", shape.dropout));
  if (shape.head_norm == HeadNorm::each_head) word("qk_norm", "true");
  set("multi_token_prediction", shape.predicted_tokens);
  if (shape.experts) {
    const Experts& experts = *shape.experts;
    set("experts.count", experts.count);
    set("experts.active", experts.active);
    if (experts.width != shape.feed_forward) set("experts.intermediate_size", experts.width);
    if (experts.width > 0) set("experts.shared", experts.shared_width / experts.width);
    set("experts.first_dense", experts.first_dense);
    if (experts.interval > 1) set("experts.interval", experts.interval);
  }
  if (shape.latent) {
    set("attention.mla.q_lora_rank", shape.latent->query_rank);
    set("attention.mla.kv_lora_rank", shape.latent->key_rank);
    set("attention.mla.qk_nope_head_dim", shape.latent->plain_width);
    set("attention.mla.qk_rope_head_dim", shape.latent->rotated_width);
    set("attention.mla.v_head_dim", shape.latent->value_width);
  }
}

/// True where say_shape() says all of it: a decoder of alike blocks without further mechanisms.
bool is_said_in_full(const TransformerShape& shape) {
  const bool plain_attention =
      shape.window == 0 && !shape.sinks && shape.softcap == 0 && !shape.attention_gate;
  const bool plain_blocks = shape.parts.empty() && shape.norm_place == NormPlace::before &&
                            shape.parallel_norms == 0 && shape.encoder_layers == 0;
  const bool plain_ends = shape.causal() && shape.embedding_width == 0 && !shape.embedding_norm &&
                          shape.logits_softcap == 0;
  return plain_attention && plain_blocks && plain_ends;
}

/// TransformerEngine's loss is an option of Megatron-LM, which is off where nobody names it.
void say_loss(const Scenario& scenario, Facts& facts) {
  if (facts.contains("model.loss")) return;
  for (const Unit& unit : scenario.model.units)
    for (const Layer& layer : unit.layers)
      if (layer.loss == Loss::fused_logits) say(facts, "model.loss", "fused_logits");
}

/// Megatron-LM has other words for these.
void fill_megatron(const Scenario& scenario, Facts& facts) {
  if (scenario.transformer) {
    say_shape(*scenario.transformer, facts);
    if (is_said_in_full(*scenario.transformer))
      for (const char* name : {"model.use", "model.hf"}) facts.erase(name);
  }
  say_loss(scenario, facts);
  if (facts.contains(kShape + "kv_heads")) say(facts, "group_query", "true");
  say_count(facts, "longest", count_of(facts, "model.sequence"));
  if (facts.contains(kShape + "dropout"))
    say(facts, "attention_dropout", value_of(facts, kShape + "dropout"));
  if (facts.contains(kShape + "attention.mla.kv_lora_rank")) say(facts, "mla", "true");
  const std::string experts = kShape + "experts.";
  const std::int64_t shared = count_of(facts, experts + "shared");
  std::int64_t width = count_of(facts, experts + "intermediate_size");
  if (width == 0) width = count_of(facts, kShape + "intermediate_size");
  say_count(facts, "shared_width", shared * width);
  const std::int64_t dense = count_of(facts, experts + "first_dense");
  const std::int64_t layers = count_of(facts, kShape + "layers");
  if (dense > 0) say(facts, "layer_freq", fmt::format("([0]*{}+[1]*{})", dense, layers - dense));
  if (count_of(facts, experts + "interval") > 1)
    say(facts, "layer_freq", value_of(facts, experts + "interval"));
  for (const char* said : {"shared", "first_dense", "interval"}) facts.erase(experts + said);
  if (facts.contains("model.activation_checkpointing.modules"))
    say(facts, "recompute_by_modules", "true");
  if (facts.contains("model.activation_checkpointing.layers"))
    say(facts, "recompute_method", "block");
  if (count_of(facts, "strategy.pipeline.virtual_stages") > 1 &&
      value_of(facts, "strategy.pipeline.schedule") == "interleaved_1f1b")
    facts.erase("strategy.pipeline.schedule");
  if (value_of(facts, "strategy.pipeline.split").starts_with('[')) {
    say(facts, "layout", layout_of(value_of(facts, "strategy.pipeline.split")));
    for (const char* said : {"split", "virtual_stages"})
      facts.erase(std::string("strategy.pipeline.") + said);
  }
  // Without virtual stages it is Megatron-LM's only order.
  if (value_of(facts, "strategy.pipeline.schedule") == "1f1b")
    facts.erase("strategy.pipeline.schedule");
  if (value_of(facts, "model.compile") == "true") facts.erase("model.compile");
}

/// AMP's word for a precision.
void fill_amp(Facts& facts) {
  const std::string precision = value_of(facts, "model.precision");
  for (const char* type : {"bf16", "fp16"})
    if (precision == type || precision == std::string(type) + "_master") say(facts, "amp", type);
  if (precision == "fp8") say(facts, "amp", "fp8");
  if (value_of(facts, "sync.param_dtype") == value_of(facts, "amp"))
    facts.erase("sync.param_dtype");
}

/// accelerate wraps nothing, and shards over one GPU, where nobody says more.
void fill_accelerate(Facts& facts) {
  const std::string sync = value_of(facts, "sync");
  if (sync.starts_with("fsdp") && !facts.contains("sync.wrap")) say(facts, "sync.wrap", "blocks");
  if (facts.contains("sync.wrap.min_num_params")) say(facts, "wraps_by_size", "true");
  if (sync != "fsdp2") return;
  const bool in_parts = count_of(facts, "strategy.tensor_parallel") > 1 ||
                        count_of(facts, "strategy.context_parallel.degree") > 1;
  if (in_parts) say(facts, "shards", value_of(facts, "data"));
  fill_shards(facts);
}

/// Says the framework's own policy where a scenario leaves it to the framework.
void fill_checkpoints(const Scenario& scenario, Facts& facts) {
  const std::string key = "model.activation_checkpointing";
  const bool said =
      std::ranges::any_of(facts, [&](const auto& fact) { return fact.first.starts_with(key); });
  const auto& set = scenario.framework.set;
  const auto own = std::ranges::find(set, key, &FrameworkSetting::key);
  if (!said && own == set.end()) say(facts, key, "none");
  if (!said && own != set.end()) flatten(Document::parse(own->value, key)->root(), key, facts);
  const bool by_layers = facts.contains(key + ".every_layer");
  say(facts, "every_layer", by_layers ? "true" : "false");
  if (!by_layers) return;
  say(facts, "every", value_of(facts, key + ".every_layer"));
  facts.erase(key + ".every_layer");
  facts.erase(key);
}

void fill_torchtitan(const Scenario& scenario, Facts& facts) {
  const std::string network = value_of(facts, "model.use");
  for (const char* family : {"llama3", "qwen3", "deepseek_v3", "gpt_oss"}) {
    std::string plain = network;
    std::erase(plain, '_');
    std::string start = family;
    std::erase(start, '_');
    if (plain.starts_with(start)) say(facts, "network", family);
  }
  // Where nothing else is said, torchtitan compiles the loss beside the blocks.
  if (facts.contains("model.compile") && !facts.contains("model.loss"))
    for (const FrameworkSetting& one : scenario.framework.set)
      if (one.key == "model.loss") say(facts, "model.loss", one.value);
  fill_checkpoints(scenario, facts);
  fill_shards(facts);
  if (value_of(facts, "sync") == "ddp") {
    say(facts, "replicas", value_of(facts, "data"));
    say(facts, "shards", "1");
    say(facts, "sync", "fsdp2");
  }
}

}  // namespace

namespace {

/// The training's length: steps, or the samples that tokens and epochs are.
void say_length(const Scenario& scenario, const std::string& format, std::int64_t batch,
                Facts& facts) {
  const Train& train = scenario.train;
  if (train.steps || !train.samples_per_epoch || !train.epochs) return;
  const double samples = std::ceil(static_cast<double>(*train.samples_per_epoch) * *train.epochs);
  if (format == "megatron" || format == "nemo")
    say(facts, "train.samples", fmt::format("{:.0f}", samples));
  if (format == "torchtitan" && batch > 0)
    say(facts, "train.steps",
        fmt::format("{:.0f}", std::ceil(samples / static_cast<double>(batch))));
}

}  // namespace

void fill_shards(Facts& facts) {
  if (!facts.contains("sync.shard_group")) return;
  const std::int64_t group = count_of(facts, "sync.shard_group");
  say(facts, "shards", std::to_string(group));
  say(facts, "replicas",
      std::to_string(std::max<std::int64_t>(1, count_of(facts, "data") / group)));
}

std::set<std::string> said_in(const Document& document) {
  Facts facts;
  flatten(document.root(), "", facts);
  std::set<std::string> names;
  for (const auto& [name, fact] : facts) names.insert(name);
  return names;
}

Facts facts_of(const Scenario& scenario, const Document& document, const Format& written,
               std::vector<std::string>& notes) {
  const std::string& format = written.name;
  Facts facts;
  flatten(document.root(), "", facts);
  rename_kind(facts, "strategy",
              {"ddp", "fsdp", "fsdp2", "megatron_fsdp", "zero", "ps", "local_sgd"}, "sync");
  std::vector<std::string> optimizers;
  if (facts.contains("optimizer"))
    for (const std::string& key : document.root().as_map().require("optimizer").as_map().keys())
      optimizers.push_back(key);
  rename_kind(facts, "optimizer", optimizers, "opt");
  const auto gpus = static_cast<std::int64_t>(scenario.cluster.gpu_count());
  const auto nodes = static_cast<std::int64_t>(scenario.cluster.node_count());
  say(facts, "gpus", std::to_string(gpus));
  say(facts, "nodes", std::to_string(nodes));
  if (nodes > 0 && gpus % nodes == 0) say(facts, "gpus_per_node", std::to_string(gpus / nodes));
  say_count(facts, "micro_batch", count_of(facts, "model.batch_per_gpu"));
  const std::int64_t micro = count_of(facts, "micro_batch");
  std::int64_t parts = 1;
  for (const char* degree : {"tensor_parallel", "pipeline_parallel", "context_parallel"}) {
    const std::string name = std::string("strategy.") + degree;
    if (facts.contains(name) && !facts.contains(name + ".degree") &&
        degree == std::string("context_parallel"))
      say(facts, name + ".degree", value_of(facts, name));
    const std::int64_t of = std::max(count_of(facts, name), count_of(facts, name + ".degree"));
    parts *= std::max<std::int64_t>(1, of);
  }
  const std::int64_t data = std::max<std::int64_t>(1, gpus / parts);
  say(facts, "data", std::to_string(data));
  std::int64_t steps = std::max<std::int64_t>({1, count_of(facts, "sync.gradient_accumulation"),
                                               count_of(facts, "strategy.micro_batches")});
  const std::int64_t batch = count_of(facts, "train.global_batch.sequences");
  const bool in_megatron = format == "megatron" || format == "nemo";
  const bool in_samples = in_megatron || format == "torchtitan";
  if (batch > 0) {
    say(facts, "global_batch", std::to_string(batch));
    steps = std::max<std::int64_t>(1, batch / (data * micro));
  } else if (steps > 1 && in_samples) {
    say(facts, "global_batch", std::to_string(data * micro * steps));
  }
  say(facts, "accumulation", std::to_string(steps));
  for (const char* said :
       {"model.batch_per_gpu", "sync.gradient_accumulation", "strategy.micro_batches"})
    facts.erase(said);
  if (in_samples) say_count(facts, "model.sequence", scenario.model.tokens_per_sample);
  say_length(scenario, format, data * micro * steps, facts);
  if (in_megatron) fill_megatron(scenario, facts);
  if (format == "deepspeed" || format == "accelerate") fill_amp(facts);
  if (format == "accelerate") fill_accelerate(facts);
  if (format == "torchtitan") fill_torchtitan(scenario, facts);
  if (is_recipe(format)) notes = fill_recipe(scenario, written, facts);
  return facts;
}

}  // namespace rehearse::inline foreign
