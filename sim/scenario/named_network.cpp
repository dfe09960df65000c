#include "scenario/named_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "base/error.hpp"
#include "config/mistakes.hpp"
#include "model/adaptation.hpp"
#include "model/hugging_face/hugging_face.hpp"
#include "model/packing.hpp"
#include "scenario/adaptation_keys.hpp"
#include "scenario/captured_model.hpp"
#include "scenario/hub.hpp"
#include "scenario/sections.hpp"
#include "scenario/transformer_keys.hpp"

namespace rehearse::inline scenario {
namespace {

std::optional<std::int64_t> read_shape_key(Map& map, const std::string& key, std::int64_t high,
                                           std::optional<Value>& culprit) {
  const std::optional<Value> value = map.optional(key);
  if (!value) return std::nullopt;
  culprit = value;
  return value->as_integer(1, high);
}

[[noreturn]] void fail_as_unknown(const std::string& name) {
  const std::string near = nearest(name, architecture_names());
  throw InputError(
      fmt::format("rehearse: error: no built-in network and no file \"{}\"\nremedy: {}", name,
                  near.empty() ? "`rehearse list models` names those that are built in"
                               : fmt::format("did you mean \"{}\"?", near)));
}

/// What a scenario names: a built-in network, or a transformer of any dimensions.
struct NamedModel {
  std::string name{};
  std::optional<TransformerShape> transformer{};
  std::string published{};  ///< ServedNetwork's
};

/// `culprit` is where the user asked for what the architecture refuses.
Model build(const NamedModel& named, const ModelShape& shape, const Value& culprit) {
  try {
    return named.transformer ? build_transformer(*named.transformer, shape)
                             : build_architecture(named.name, shape);
  } catch (const std::invalid_argument& wrong) {
    culprit.fail(wrong.what());
  }
}

NamedModel built_in(const std::string& name) {
  NamedModel named{.name = name};
  if (const TransformerShape* shape = built_in_shape(name)) named.transformer = *shape;
  return named;
}

/// `family`: a map, or a file of one beside the scenario.
std::optional<Value> read_own_family(Map& map) {
  const std::optional<Value> family = map.optional("family");
  if (!family || family->is_map()) return family;
  return Document::load(family->folder() / family->as_string())->root();
}

/// A hub's id as transformers runs it: GPT-2 has gelu_new (configuration_gpt2.py).
NamedModel shipped_as_transformers_has_it(const std::string& id, const HubNetwork& known) {
  if (known.config)
    return {.transformer = read_hugging_face(*known.config, id).shape,
            .published = published_as(*known.config)};
  NamedModel named = built_in(known.built_in);
  if (named.transformer && (id.starts_with("openai-community/gpt2") || id.starts_with("gpt2")))
    named.transformer->activation = ActivationKind::gelu_new;
  return named;
}

/// The transformer of a config.json beside the scenario, or of a folder that holds one; or of the
/// hub's cache, by its id, and where that has none the built-in of that id.
NamedModel read_config(const Value& value, const std::optional<Value>& family,
                       std::vector<std::string>& assumptions) {
  const std::string text = value.as_string();
  std::filesystem::path file = value.folder() / text;
  if (!std::filesystem::exists(file)) {
    const std::optional<HubNetwork> known = hub_network(text);
    if (!is_hub_id(text) && !known) {
      const std::string near = nearest(text, architecture_names());
      value.fail(fmt::format("no file \"{}\"", file.string()),
                 near.empty() ? "name a Hugging Face config.json, or a folder that holds one"
                              : fmt::format("{0} is built in: `use: {0}`, or --model {0}", near));
    }
    const auto cached = cached_config(text);
    if (!cached && !known)
      value.fail(fmt::format("no file \"{}\", and the hub's cache has no {}", file.string(), text),
                 download_remedy(text));
    assumptions.push_back(fmt::format("model.hf: {} is {}", text,
                                      cached ? cached->string()
                                      : known->built_in.empty()
                                          ? "known by its dimensions (platforms/hub.yaml)"
                                          : "the built-in " + known->built_in));
    if (!cached) return shipped_as_transformers_has_it(text, *known);
    file = *cached;
  }
  HuggingFaceModel read = read_hugging_face(file, family);
  for (const std::string& one : read.assumptions) assumptions.push_back("model.hf: " + one);
  return {.transformer = read.shape};
}

/// Exactly one of `use`, `hf` and `transformer` is there.
NamedModel read_named(Map& map, std::vector<std::string>& assumptions) {
  NamedModel named;
  if (const std::optional<Value> use = map.optional("use"))
    named = built_in(use->as_choice(architecture_names()));
  if (const std::optional<Value> config = map.optional("hf"))
    named = read_config(*config, read_own_family(map), assumptions);
  else if (map.has("family"))
    map.at_key("family").fail("says how a config.json of Hugging Face is read, and there is none",
                              "name one: hf: FILE");
  if (const std::optional<Value> dimensions = map.optional("transformer")) {
    named.transformer = read_transformer(*dimensions);
  } else if (named.transformer) {
    vary_transformer(map, *named.transformer);
  }
  return named;
}

/// Megatron-LM makes queries, keys and values in one product, and what gates and what is gated in
/// another (megatron/core/transformer/mlp.py: linear_fc1), whatever the network's own code does.
/// Adapters of a part of such a product alone have layers of their own.
void fuse_as_the_framework(Map& map, Framework& framework, NamedModel& named) {
  const char* const key = "model.transformer.fused_qkv";
  const bool fuses = framework.find(key) == "true";
  if (!fuses || !named.transformer || named.transformer->latent) return;
  if (map.has("lora") && !adapts_whole_products(map.require("lora"))) return;
  named.transformer->fused_gate = named.transformer->gated;
  const bool in_dimensions = map.has("transformer");
  const bool said = map.has("fused_qkv") ||
                    (in_dimensions && map.require("transformer").as_map().has("fused_qkv"));
  if (said) return;
  named.transformer->fused_qkv = true;
  if (in_dimensions) framework.note(key);
}

Loss loss_of(const std::string& name) {
  const auto found = std::ranges::find(loss_names(), name);
  return static_cast<Loss>(found - loss_names().begin());
}

/// `loss: NAME | fused | {chunked: 8, of: cross_entropy_fp32, keeps: none}`. What was measured is a
/// plain one.
void read_loss(Map& map, Framework& framework, ModelShape& shape) {
  constexpr std::int64_t kMostChunks = 1'000'000;
  std::vector<std::string> names = loss_names();
  names.emplace_back("fused");
  if (!map.has("loss") || !map.require("loss").is_map()) {
    const std::string name = map.has("transfer_from") && !map.has("loss")
                                 ? names.front()
                                 : framework.choice_or(map, "model.", "loss", names);
    shape.loss_parts.fused = name == "fused";
    if (!shape.loss_parts.fused) shape.loss = loss_of(name);
    return;
  }
  Map parts = map.require("loss").as_map();
  shape.loss_parts.chunks = parts.require("chunked").as_integer(1, kMostChunks);
  shape.loss = loss_of(parts.choice_or("of", "cross_entropy", loss_names()));
  shape.loss_parts.at_once = parts.choice_or("keeps", "logits", {"logits", "none"}) == "none";
  parts.finish();
}

/// As Hugging Face's attn_implementation; one of FlashAttention's own computes sinks, too.
void read_attention(const Value& value, ModelShape& shape) {
  const std::string name = value.as_choice(
      {"sdpa", "eager", "flash1", "flash2", "flash3", "triton", "cudnn", "cudnn_fp8"});
  shape.flash_attention = name != "eager";
  if (name == "sdpa" || name == "eager") return;
  shape.library_attention = name != "flash1";
  for (const auto kernel :
       {AttentionKernel::flash1, AttentionKernel::flash2, AttentionKernel::flash3,
        AttentionKernel::triton, AttentionKernel::cudnn, AttentionKernel::cudnn_fp8})
    if (name == to_string(kernel)) shape.attention_kernel = kernel;
}

void read_wide_blocks(Map& map, ModelShape& shape) {
  constexpr std::int64_t kMost = 100'000;
  for (const auto& [key, blocks] : {std::pair("num_layers_at_start_in_bf16", &shape.wide_at_start),
                                    std::pair("num_layers_at_end_in_bf16", &shape.wide_at_end)})
    if (const auto value = map.optional(key)) *blocks = value->as_integer(0, kMost);
}

/// Embeddings in 16 bits suit what the precision keeps in 32, and trains.
void read_embedding_type(Map& map, ModelShape& shape) {
  const auto value = map.optional("embedding_dtype");
  if (!value) return;
  shape.narrow_embeddings = value->as_choice({"bf16", "fp32"}) == "bf16";
  if (!shape.narrow_embeddings) return;
  const std::string name =
      map.has("precision") ? map.require("precision").as_choice(precision_names()) : "fp32";
  const Precision precision = parse_precision(name);
  if (parameter_element(precision) == Bytes(2))
    value->fail(fmt::format("under {} all parameters have 16 bits", name), "leave it out");
  for (const char* key : {"lora", "frozen"})
    if (map.has(key))
      value->fail(fmt::format("beside {} embeddings are frozen", key), "leave it out");
}

}  // namespace

std::optional<Value> naming_key(Map& map) {
  std::optional<Value> found;
  for (const char* key : {"use", "hf", "transformer"}) {
    if (!map.has(key)) continue;
    if (found)
      map.at_key(key).fail("use, hf and transformer each name a network", "keep one of them");
    found = map.optional(key);
  }
  return found;
}

namespace {

/// What a command line names: a built-in network, a file, or an id of the hub.
NamedModel named_by(const std::string& name_or_file, std::vector<std::string>& assumptions) {
  const auto& names = architecture_names();
  if (std::ranges::find(names, name_or_file) != names.end()) return built_in(name_or_file);
  std::error_code ignored;
  std::filesystem::path file = name_or_file;
  if (!std::filesystem::exists(file, ignored)) {
    const std::optional<HubNetwork> known = hub_network(name_or_file);
    if (!is_hub_id(name_or_file) && !known) fail_as_unknown(name_or_file);
    const auto cached = cached_config(name_or_file);
    if (!cached && !known)
      throw InputError(fmt::format(
          "rehearse: error: no file \"{0}\", and the hub's cache has no {0}\nremedy: {1}",
          name_or_file, download_remedy(name_or_file)));
    if (!cached) return shipped_as_transformers_has_it(name_or_file, *known);
    file = *cached;
  }
  HuggingFaceModel read = read_hugging_face(file);
  assumptions = std::move(read.assumptions);
  if (std::filesystem::is_directory(file, ignored)) file /= "config.json";
  return {.transformer = std::move(read.shape),
          .published = published_as(Document::load_foreign(file)->root())};
}

}  // namespace

NamedNetwork read_network(const std::string& name_or_file, const ModelShape& shape) {
  if (name_or_file.ends_with(".model.json"))
    return {read_captured_network(name_or_file, shape), {}};
  std::vector<std::string> assumptions;
  const NamedModel named = named_by(name_or_file, assumptions);
  try {
    Model model = named.transformer ? build_transformer(*named.transformer, shape)
                                    : build_architecture(named.name, shape);
    if (named.name.empty() && shape.sequence == 0 && shape.image == 0)
      assumptions.push_back("a sample is a " + model.sample);
    return {std::move(model), std::move(assumptions)};
  } catch (const std::invalid_argument& wrong) {
    throw InputError(fmt::format("{}: error: {}", name_or_file, wrong.what()));
  }
}

ServedNetwork read_served_network(const std::string& name_or_file) {
  std::vector<std::string> ignored;
  NamedModel named = named_by(name_or_file, ignored);
  if (!named.transformer)
    throw InputError(
        fmt::format("{}: error: it generates no text\n"
                    "remedy: name a language model that does, such as llama_3_8b",
                    name_or_file));
  if (!named.name.empty()) named.published = published_built_in(named.name);
  return {std::move(*named.transformer), std::move(named.published)};
}

std::optional<KnownTransformer> known_transformer(const std::string& name_or_file) {
  try {
    std::vector<std::string> ignored;
    const NamedModel named = named_by(name_or_file, ignored);
    if (!named.transformer) return std::nullopt;
    return KnownTransformer{named.transformer->layers,
                            linear_names(build_transformer(*named.transformer, {}))};
  } catch (const InputError&) {
    return std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

namespace {

/// That scores are materialised where a kernel is asked for that does not compute them; one that is
/// named and is no default is refused.
void note_eager(Map& map, Scenario& scenario) {
  if (!scenario.transformer) return;
  const std::string why = eager_because(*scenario.transformer, scenario.shape);
  if (why.empty()) return;
  const bool named = scenario.shape.attention_kernel != AttentionKernel::sdpa;
  std::string fused;
  for (const auto kernel :
       {AttentionKernel::flash3, AttentionKernel::triton, AttentionKernel::flash2}) {
    ModelShape other = scenario.shape;
    other.attention_kernel = kernel;
    other.library_attention = true;
    if (fuses_attention(*scenario.transformer, other)) fused = to_string(kernel);
  }
  if (named)
    map.at_key("attention")
        .fail(fmt::format("{}'s scores are materialised, {}", scenario.transformer->name, why),
              fused.empty() ? "attention: eager" : "attention: " + fused);
  scenario.assumptions.push_back(fmt::format(
      "model.attention: eager, {}{}", why,
      fused.empty() ? "" : fmt::format("; attention: {} computes them in one kernel", fused)));
}

/// What contiguous convolutions of 1 x 1 read and write is converted as that of others is, where
/// cuDNN before 9 takes what its heuristics say.
void convert_planes(Map& map, Framework& framework, Model& model) {
  const char* const key = "cudnn_benchmark";
  if (framework.find("convolution.converts_1x1") != "true") {
    if (const auto searches = map.optional(key)) searches->as_bool();
    return;
  }
  if (framework.bool_or(map, "model.", key)) return;
  for (Unit& unit : model.units)
    for (Operator& op : unit.operators) op.plane = 0;
}

}  // namespace

Model read_architecture(const Value& use, Map& map, Framework& framework, Scenario& scenario) {
  std::vector<std::string>& assumptions = scenario.assumptions;
  const SoundPart part;
  NamedModel name = read_named(map, assumptions);
  fuse_as_the_framework(map, framework, name);
  std::optional<Value> culprit;
  scenario.transformer = name.transformer;
  ModelShape& shape = scenario.shape;
  shape.library_attention = framework.flag("attention.fuses_sinks");
  shape.classes = read_shape_key(map, "classes", 10'000'000, culprit).value_or(0);
  const auto image = read_shape_key(map, "image", 65'536, culprit);
  constexpr std::int64_t kLongest = 10'000'000;
  const bool packs = map.has("sequence") && map.require("sequence").is_map();
  std::optional<std::int64_t> sequence;
  if (packs) {
    Map lengths = map.require("sequence").as_map();
    sequence = read_shape_key(lengths, "packed", kLongest, culprit);
  } else {
    sequence = read_shape_key(map, "sequence", kLongest, culprit);
  }
  shape.image = image.value_or(0);
  shape.sequence = sequence.value_or(0);
  if (const auto attention = map.has("attention") ? map.optional("attention") : std::nullopt)
    read_attention(*attention, shape);
  if (const auto fused = map.optional("fused_softmax")) {
    shape.fused_softmax = fused->as_bool();
    if (shape.fused_softmax && shape.flash_attention)
      fused->fail("flash attention has no softmax of its own", "add attention: eager");
  }
  read_wide_blocks(map, shape);
  if (scenario.transformer) read_embedding_type(map, shape);
  part.check();
  Model model = build(name, shape, culprit.value_or(use));
  if (!image && !sequence) assumptions.push_back("model.sample = " + model.sample);
  const bool takes_images = model.tokens_per_sample == 0;
  if (!takes_images && !map.has("attention")) map.choice_or("attention", "sdpa", {"sdpa"});
  if (takes_images || map.has("channels_last")) {
    shape.channels_last = map.bool_or("channels_last", false);
  }
  if (shape.channels_last) return build(name, shape, map.require("channels_last"));
  note_eager(map, scenario);
  if (is_causal_language_model(model) || map.has("loss")) read_loss(map, framework, shape);
  const bool plain = shape.loss == Loss::cross_entropy && !shape.loss_parts.any();
  if (!plain) model = build(name, shape, map.has("loss") ? map.require("loss") : use);
  if (takes_images) convert_planes(map, framework, model);
  return model;
}

/// FlashAttention-3 is written for Hopper (Shah et al., arXiv:2407.08608).
void check_attention(const Value& model, const Scenario& scenario) {
  const AttentionKernel kernel = scenario.shape.attention_kernel;
  const auto fail = [&](const std::string& why, const char* remedy) {
    model.as_map().at_key("attention").fail(why, remedy);
  };
  for (const NodeGroup& group : scenario.cluster.groups) {
    const Gpu& gpu = group.node.gpu;
    if (group.node.gpus == 0) continue;
    if (kernel == AttentionKernel::flash3 && !gpu.architecture->flash_attention_3)
      fail(gpu.name + " is no Hopper GPU, which FlashAttention-3 is written for",
           "attention: sdpa");
    if (kernel == AttentionKernel::cudnn_fp8 && gpu.fp8.value() == 0)
      fail(gpu.name + " has no FP8 units", "attention: cudnn");
  }
  if (kernel == AttentionKernel::cudnn_fp8 && !is_narrow(scenario.precision))
    fail("attention in FP8 is a part of recipes whose products are in 8 or 4 bits",
         "attention: cudnn, or model.precision: fp8");
}

}  // namespace rehearse::inline scenario
