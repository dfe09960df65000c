#include "model/hugging_face/hugging_face.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.hpp"
#include "config/mistakes.hpp"
#include "model/hugging_face/hugging_face_config.hpp"

namespace rehearse::inline model {
namespace {

constexpr std::int64_t kUsualTokens = 4096;

/// Fields of any config.json that change no shape and no cost that is modelled.
const std::vector<std::string>& harmless() {
  static const std::vector<std::string> kNames = {"model_type",
                                                  "architectures",
                                                  "_name_or_path",
                                                  "transformers_version",
                                                  "torch_dtype",
                                                  "dtype",
                                                  "auto_map",
                                                  "bos_token_id",
                                                  "eos_token_id",
                                                  "pad_token_id",
                                                  "sep_token_id",
                                                  "decoder_start_token_id",
                                                  "unk_token_id",
                                                  "initializer_range",
                                                  "initializer_factor",
                                                  "use_cache",
                                                  "rms_norm_eps",
                                                  "layer_norm_eps",
                                                  "layer_norm_epsilon",
                                                  "norm_eps",
                                                  "rope_theta",
                                                  "rope_scaling",
                                                  "rope_parameters",
                                                  "rope_local_base_freq",
                                                  "pretraining_tp",
                                                  "attention_dropout",
                                                  "attn_pdrop",
                                                  "embd_pdrop",
                                                  "attention_probs_dropout_prob",
                                                  "finetuning_task",
                                                  "task_specific_params",
                                                  "gradient_checkpointing",
                                                  "output_past",
                                                  "problem_type",
                                                  "classifier_dropout",
                                                  "output_router_logits",
                                                  "router_aux_loss_coef",
                                                  "torchscript",
                                                  "is_decoder",
                                                  "is_encoder_decoder",
                                                  "n_ctx",
                                                  "summary_activation",
                                                  "summary_first_dropout",
                                                  "summary_proj_to_labels",
                                                  "summary_type",
                                                  "summary_use_proj",
                                                  "reorder_and_upcast_attn",
                                                  "scale_attn_by_inverse_layer_idx",
                                                  "scale_attn_weights",
                                                  "quantization_config",
                                                  "cache_implementation",
                                                  "_flash_attn_2_enabled",
                                                  "_attn_implementation",
                                                  "attn_implementation",
                                                  "attn_implementation_autoset",
                                                  "_attn_implementation_autoset",
                                                  "return_dict",
                                                  "output_attentions",
                                                  "output_hidden_states",
                                                  "chunk_size_feed_forward",
                                                  "name",
                                                  "prefix",
                                                  "language",
                                                  "begin_suppress_tokens",
                                                  "max_length",
                                                  "min_length",
                                                  "id2label",
                                                  "label2id",
                                                  "tokenizer_class",
                                                  "tokenizer_name",
                                                  "num_labels",
                                                  "tokenizer",
                                                  "use_return_dict",
                                                  "original_max_position_embeddings",
                                                  "is_llama_config",
                                                  "rope_interleaved",
                                                  "transformers.js_config",
                                                  "unsloth_fixed",
                                                  "unsloth_version"};
  return kNames;
}

std::vector<HuggingFaceFamily> families() {
  std::vector<HuggingFaceFamily> all = decoder_families();
  for (const auto* more : {&layer_norm_families(), &later_families(), &expert_families(),
                           &many_expert_families(), &hybrid_families(), &other_families()})
    all.insert(all.end(), more->begin(), more->end());
  return all;
}

std::filesystem::path config_file(const std::filesystem::path& path) {
  std::error_code ignored;  // a name that is too long is no folder
  return std::filesystem::is_directory(path, ignored) ? path / "config.json" : path;
}

std::string name_of(const std::filesystem::path& file, HuggingFaceConfig& config) {
  const std::string name = config.text_or("_name_or_path", "");
  if (!name.empty()) return name;
  if (file.stem() != "config") return file.stem().string();
  const std::filesystem::path whole = std::filesystem::absolute(file).lexically_normal();
  return whole.parent_path().filename().string();
}

/// The file's own numbers as keys of a transformer, and the keys that it says nothing of.
struct Dimensions {
  std::vector<std::string> said, missing;
};

Dimensions dimensions_in(HuggingFaceConfig& config) {
  struct Dimension {
    const char* key;
    std::vector<std::string> names;
    bool needed = true;
  };
  static const std::vector<Dimension> kAll = {
      {"layers", {"num_hidden_layers", "n_layers", "n_layer", "num_layers"}},
      {"hidden_size", {"hidden_size", "d_model", "n_embd", "dim"}},
      {"heads", {"num_attention_heads", "n_heads", "n_head", "num_heads"}},
      {"kv_heads", {"num_key_value_heads", "n_kv_heads", "num_kv_heads"}, false},
      {"intermediate_size", {"intermediate_size", "ffn_dim", "d_ff", "n_inner", "hidden_dim"}},
      {"vocab_size", {"vocab_size", "padded_vocab_size"}}};
  Dimensions found;
  for (const Dimension& one : kAll) {
    std::string number;
    for (const std::string& name : one.names) {
      const std::optional<Value> value = config.field(name);
      if (!number.empty() || !value || !value->is_scalar()) continue;
      const std::string text = value->shown();
      if (text.find_first_not_of("0123456789") == std::string::npos) number = text;
    }
    if (!number.empty()) {
      found.said.push_back(fmt::format("{}: {}", one.key, number));
    } else if (one.needed) {
      found.missing.emplace_back(one.key);
    }
  }
  return found;
}

/// Whether a config is of a network that `model.transformer` cannot say: fields of images, sound,
/// of an encoder beside a decoder, of state spaces, or of linear attention.
bool is_of_another_kind(HuggingFaceConfig& config) {
  return std::ranges::any_of(std::array{"_class_name",
                                        "vision_config",
                                        "audio_config",
                                        "image_size",
                                        "patch_size",
                                        "num_channels",
                                        "in_channels",
                                        "num_mel_bins",
                                        "conv_dim",
                                        "depths",
                                        "encoder_layers",
                                        "decoder_layers",
                                        "is_encoder_decoder",
                                        "state_size",
                                        "ssm_cfg",
                                        "ssm_state_size",
                                        "mamba_d_state",
                                        "d_state",
                                        "time_step_rank",
                                        "linear_conv_kernel_dim",
                                        "attention_hidden_size"},
                             [&](const char* field) { return config.map().has(field); });
}

constexpr const char* kOtherKinds =
    "where Python has transformers, `rehearse capture FOLDER` makes a model of its own class, and "
    "--model takes that file; without it, model.units takes times of its parts";

/// What to do with a family that nobody knows.
std::string remedy_for_unknown(HuggingFaceConfig& config) {
  if (is_of_another_kind(config)) return kOtherKinds;
  const Dimensions found = dimensions_in(config);
  std::string text = fmt::format("give its dimensions: model: {{transformer: {{{}}}}}",
                                 fmt::join(found.said, ", "));
  if (!found.missing.empty())
    text += fmt::format(" with {}, which the file does not say", fmt::join(found.missing, ", "));
  return text + fmt::format(", or a family that it is like: model.family; read are {}",
                            fmt::join(hugging_face_families(), ", "));
}

/// `type` is where the family's name stands in the whole file `config`.
[[noreturn]] void refuse_family(HuggingFaceConfig& config, const Value& type) {
  const std::string near = nearest(type.as_string(), hugging_face_families());
  type.fail(fmt::format("no family \"{}\"", type.as_string()),
            (near.empty() ? "" : fmt::format("did you mean \"{}\"? else ", near)) +
                remedy_for_unknown(config));
}

bool is_read(const std::string& name) {
  return std::ranges::count(hugging_face_families(), name) > 0;
}

TransformerShape read_as(HuggingFaceConfig& config, const std::string& name, const Value& type);

/// As the family that `derived` is like, under its own name.
TransformerShape read_derived(HuggingFaceConfig& config, const std::string& name,
                              const Value& derived) {
  const SoundPart part;
  DerivedFamily family = read_derived_family(derived, hugging_face_families());
  part.check();
  const std::string like = family.like;
  config.read_like(std::move(family));
  TransformerShape shape = read_as(config, like, derived);
  shape.family = name;
  return shape;
}

/// `type` is where the family's name stands.
TransformerShape read_as(HuggingFaceConfig& config, const std::string& name, const Value& type) {
  for (const HuggingFaceFamily& family : families()) {
    if (family.model_type != name) continue;
    TransformerShape shape = family.read(config);
    shape.family = name;
    return shape;
  }
  if (const std::optional<Value> derived = shipped_derived(name))
    return read_derived(config, name, *derived);
  refuse_family(config, type);
}

/// The language model of a network of images, sound and text; what encodes the others is left out,
/// and said so. Without a model_type of its own it is the network's, and "_text".
TransformerShape read_text_config(HuggingFaceConfig& config) {
  std::vector<std::string> said;
  HuggingFaceConfig text(config.map().require("text_config").as_map(), said);
  const Value outer = config.map().require("model_type");
  const std::optional<Value> own = text.field("model_type");
  const std::string name = own ? own->as_string() : outer.as_string() + "_text";
  if (!is_read(name)) refuse_family(config, own.value_or(outer));
  TransformerShape t = read_as(text, name, own.value_or(outer));
  text.ignore(harmless());
  text.finish(t.family + "'s text_config");
  t.tied = config.flag_or("tie_word_embeddings", t.tied);
  config.ignore(config.map().keys());
  config.assume("text_config alone: what encodes images or sound is left out");
  for (const std::string& line : said) config.assume(line);
  return t;
}

TransformerShape read_family(HuggingFaceConfig& config) {
  if (config.map().has("text_config")) return read_text_config(config);
  config.ignore({"model_type"});
  if (!config.map().has("model_type") && config.map().has("_class_name"))
    config.map()
        .at_key("_class_name")
        .fail("a network of diffusers, whose configs are not read",
              "Python's rehearse_sim.capture reads any PyTorch module with inputs of its own, and "
              "model.units takes times of its parts");
  const Value type = config.map().require("model_type");
  return read_as(config, type.as_string(), type);
}

}  // namespace

ActivationKind read_activation(HuggingFaceConfig& config, const std::vector<std::string>& names,
                               const std::string& fallback) {
  std::string chosen = fallback;
  for (const std::string& name : names) {
    const std::optional<Value> value = config.field(name);
    if (value)
      chosen = value->as_choice({"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu",
                                 "relu2", "silu", "swish", "gelu_python", "xielu"});
  }
  if (chosen == "gelu_new") return ActivationKind::gelu_new;
  if (chosen == "gelu_fast") return ActivationKind::gelu_fast;
  if (chosen == "relu") return ActivationKind::relu;
  if (chosen == "relu2") return ActivationKind::relu_squared;
  return chosen == "silu" || chosen == "swish" ? ActivationKind::silu : ActivationKind::gelu;
}

namespace {

/// YaRN stretches positions; what Llama 3.1 and LongRoPE scale stands in max_position_embeddings
/// (vLLM's vllm/config/model.py: derived_max_model_len).
std::int64_t served_tokens(HuggingFaceConfig& config) {
  const std::int64_t stated = config.count_or("max_position_embeddings", 0, 0);
  for (const char* const name : {"rope_scaling", "rope_parameters"}) {
    const std::optional<Value> scaling = config.field(name);
    if (!scaling || !scaling->is_map()) continue;
    const auto of = [&](const char* key) { return scaling->as_map().optional(key); };
    const std::optional<Value> kind = of("rope_type") ? of("rope_type") : of("type");
    const std::optional<Value> factor = of("factor");
    if (!kind || !factor || kind->as_string() != "yarn") continue;
    const std::optional<Value> before = of("original_max_position_embeddings");
    const double from = before ? before->as_positive_number() : static_cast<double>(stated);
    return static_cast<std::int64_t>(from * factor->as_positive_number());
  }
  return stated;
}

}  // namespace

TransformerShape read_usual(HuggingFaceConfig& config) {
  TransformerShape t;
  t.layers = config.count("num_hidden_layers");
  t.hidden = config.count("hidden_size");
  t.heads = config.count("num_attention_heads");
  t.kv_heads = config.count_or("num_key_value_heads", t.heads);
  t.head_width = config.count_or("head_dim", std::max<std::int64_t>(1, t.hidden / t.heads));
  t.vocabulary = config.count("vocab_size");
  t.tokens = std::min(kUsualTokens, config.count_or("max_position_embeddings", kUsualTokens));
  t.served_tokens = served_tokens(config);
  t.activation = read_activation(config, {"hidden_act", "hidden_activation"}, "silu");
  return t;
}

std::vector<bool> by_layer(HuggingFaceConfig& config, const std::string& name,
                           const TransformerShape& t, const std::vector<std::string>& kinds) {
  std::vector<bool> first;
  const std::optional<Value> types = config.field(name);
  if (!types) return first;
  const std::vector<Value> list = types->as_list();
  if (static_cast<std::int64_t>(list.size()) != t.layers)
    types->fail(fmt::format("{} layer types of {} layers", list.size(), t.layers));
  for (const Value& one : list) first.push_back(one.as_choice(kinds) == kinds.front());
  return first;
}

void read_sliding(HuggingFaceConfig& config, TransformerShape& t, bool slides) {
  config.ignore({"sliding_window"});
  if (slides) t.window = config.count_or("sliding_window", 0);
  t.sliding = by_layer(config, "layer_types", t, {"sliding_attention", "full_attention"});
}

std::vector<std::string> hugging_face_families() {
  std::vector<std::string> names;
  for (const HuggingFaceFamily& family : families()) names.push_back(family.model_type);
  std::ranges::move(shipped_derived_names(), std::back_inserter(names));
  return names;
}

namespace {

/// `name` is empty where the config says it.
HuggingFaceModel read_config(const Value& value, const std::filesystem::path& file,
                             const std::string& name, const std::optional<Value>& family) {
  HuggingFaceModel model;
  HuggingFaceConfig config(value.as_map(), model.assumptions);
  if (family) {
    config.ignore({"model_type"});
    model.shape =
        read_derived(config, config.text_or("model_type", "a family of one's own"), *family);
  } else {
    model.shape = read_family(config);
  }
  config.ignore(harmless());
  config.finish(model.shape.family);
  model.shape.name = name.empty() ? name_of(file, config) : name;
  model.shape.source = fmt::format("{}, read as transformers 5.x builds it", file.string());
  const std::string wrong = contradiction(model.shape);
  if (!wrong.empty()) config.map().where().fail(wrong);
  return model;
}

}  // namespace

HuggingFaceModel read_hugging_face(const std::filesystem::path& path,
                                   const std::optional<Value>& family) {
  const std::filesystem::path file = config_file(path);
  return read_config(Document::load_foreign(file)->root(), file, "", family);
}

HuggingFaceModel read_hugging_face(const Value& config, const std::string& name) {
  return read_config(config, config.file(), name, std::nullopt);
}

}  // namespace rehearse::inline model
