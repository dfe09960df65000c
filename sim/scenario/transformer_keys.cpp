#include "scenario/transformer_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "config/fields.hpp"
#include "config/mistakes.hpp"
#include "model/mixers.hpp"

namespace rehearse::inline scenario {
namespace {

constexpr std::int64_t kMostWidth = kMostDimension;
constexpr std::int64_t kMostLayers = 5'000;

/// The value of a key under any of its names.
std::optional<Value> any_of(Map& map, const std::vector<std::string>& names) {
  std::optional<Value> found;
  std::string first;
  for (const std::string& name : names) {
    const std::optional<Value> value = map.optional(name);
    if (value && found)
      map.at_key(name).fail(fmt::format("{} and {} are the same", first, name),
                            "leave one of them out");
    if (value && !found) {
      found = value;
      first = name;
    }
  }
  return found;
}

struct Keys {
  Map& map;
  std::vector<std::string> changed = {};

  bool read(const std::vector<std::string>& names, std::int64_t most, std::int64_t& into) {
    const std::optional<Value> value = any_of(map, names);
    if (!value) return false;
    into = value->as_integer(1, most);
    changed.push_back(fmt::format("{} {}", names.front(), into));
    return true;
  }
  bool flag(const std::vector<std::string>& names, bool& into) {
    const std::optional<Value> value = any_of(map, names);
    if (!value) return false;
    into = value->as_bool();
    changed.push_back(fmt::format("{} {}", names.front(), into));
    return true;
  }
  std::optional<std::string> choice(const std::string& name,
                                    const std::vector<std::string>& names) {
    const std::optional<Value> value = map.optional(name);
    if (!value) return std::nullopt;
    changed.push_back(fmt::format("{} {}", name, value->shown()));
    return value->as_choice(names);
  }
};

/// Heads as wide as before share the hidden size; a new one changes them with it.
void read_widths(Keys& keys, TransformerShape& t) {
  const bool shared = t.heads == 0 || t.head_width * t.heads == t.hidden;
  const bool all_heads = t.kv_heads == t.heads;
  keys.read({"layers", "num_layers", "num_hidden_layers"}, kMostLayers, t.layers);
  const bool hidden = keys.read({"hidden_size"}, kMostWidth, t.hidden);
  const bool heads = keys.read({"heads", "num_attention_heads"}, kMostWidth, t.heads);
  if (all_heads) t.kv_heads = t.heads;
  keys.read({"kv_heads", "num_key_value_heads", "num_query_groups"}, kMostWidth, t.kv_heads);
  if ((hidden || heads) && shared && t.heads > 0) {
    if (t.hidden % t.heads != 0 && !keys.map.has("head_dim") && !keys.map.has("kv_channels"))
      keys.map.where().fail(
          fmt::format("{} channels are no multiple of {} heads", t.hidden, t.heads),
          "give head_dim, or another number of heads");
    t.head_width = t.hidden / t.heads;
  }
  keys.read({"head_dim", "kv_channels"}, kMostWidth, t.head_width);
  keys.read({"intermediate_size", "ffn_hidden_size"}, kMostWidth, t.feed_forward);
  keys.read({"vocab_size"}, kMostWidth, t.vocabulary);
}

void read_functions(Keys& keys, TransformerShape& t) {
  if (const auto name = keys.choice("activation", {"swiglu", "geglu", "gelu", "gelu_new", "relu",
                                                   "relu2", "relu_then_square", "silu"})) {
    t.gated = *name == "swiglu" || *name == "geglu";
    t.activation = *name == "gelu_new"                    ? ActivationKind::gelu_new
                   : *name == "relu"                      ? ActivationKind::relu
                   : *name == "relu2"                     ? ActivationKind::relu_squared
                   : *name == "relu_then_square"          ? ActivationKind::relu_then_square
                   : *name == "silu" || *name == "swiglu" ? ActivationKind::silu
                                                          : ActivationKind::gelu;
  }
  if (const auto name = keys.choice("norm", {"rmsnorm", "layernorm"}))
    t.norm = *name == "rmsnorm" ? NormKind::rms_norm : NormKind::layer_norm;
  if (const auto name = keys.choice("position", {"rope", "learned", "alibi", "none"}))
    t.position = *name == "rope"      ? PositionKind::rope
                 : *name == "learned" ? PositionKind::learned
                 : *name == "alibi"   ? PositionKind::alibi
                                      : PositionKind::none;
  keys.flag({"tie_embeddings", "tie_word_embeddings"}, t.tied);
  bool bias = false;
  if (keys.flag({"bias"}, bias)) t.qkv_bias = t.output_bias = t.feed_forward_bias = bias;
  keys.flag({"qkv_bias"}, t.qkv_bias);
  if (const auto dropout = keys.map.optional("dropout")) {
    t.dropout = dropout->as_non_negative_number();
    if (t.dropout >= 1)
      dropout->fail(fmt::format("{:g} would drop all", t.dropout), "a share below 1");
    keys.changed.push_back(fmt::format("dropout {}", t.dropout));
  }
  keys.flag({"fused_qkv"}, t.fused_qkv);
  bool normed = false;
  if (keys.flag({"qk_norm", "qk_layernorm"}, normed))
    t.head_norm = normed ? HeadNorm::each_head : HeadNorm::none;
  if (const auto name = keys.choice("parallel", {"none", "one_norm", "two_norms"}))
    t.parallel_norms = *name == "one_norm" ? 1 : *name == "two_norms" ? 2 : 0;
}

Experts read_experts(const Value& value, const TransformerShape& t) {
  Map map = value.as_map();
  Experts experts = t.experts.value_or(Experts{});
  const auto count = [&](const char* key, std::int64_t fallback, std::int64_t low) {
    const std::optional<Value> given = map.optional(key);
    return given ? given->as_integer(low, kMostWidth) : fallback;
  };
  experts.count =
      t.experts ? count("count", experts.count, 1) : map.require("count").as_integer(1, kMostWidth);
  experts.active = t.experts ? count("active", experts.active, 1)
                             : map.require("active").as_integer(1, kMostWidth);
  experts.width = count("intermediate_size", t.experts ? experts.width : t.feed_forward, 1);
  if (const auto shared = map.optional("shared"))
    experts.shared_width = shared->as_integer(0, 1'000) * experts.width;
  if (const auto gate = map.optional("shared_gate")) experts.shared_gate = gate->as_bool();
  if (experts.shared_gate && experts.shared_width == 0)
    map.at_key("shared_gate").fail("there are no shared experts to scale", "set shared: 1");
  experts.latent = count("latent_size", experts.latent, 1);
  experts.first_dense = count("first_dense", experts.first_dense, 0);
  experts.interval = count("interval", experts.interval, 1);
  if (const auto capacity = map.optional("capacity")) {
    const bool dropless = capacity->is_scalar() && capacity->shown() == "dropless";
    if (dropless) capacity->as_choice({"dropless"});
    experts.capacity = dropless ? 0 : capacity->as_positive_number();
  }
  map.finish();
  return experts;
}

// In Hugging Face's words.

Form<std::int64_t> dimension(std::int64_t low = 1) { return form::integer(low, kMostWidth); }

Fields<LatentAttention> latent_fields() {
  using L = LatentAttention;
  return {implied("q_lora_rank", &L::query_rank, dimension(0), "Rank of queries; 0: full."),
          implied("kv_lora_rank", &L::key_rank, dimension(), "Rank of keys and values."),
          implied("qk_nope_head_dim", &L::plain_width, dimension(),
                  "Channels of a head that are not rotated."),
          implied("qk_rope_head_dim", &L::rotated_width, dimension(),
                  "Channels of a head that are rotated."),
          implied("v_head_dim", &L::value_width, dimension(), "Channels of a head's values.")};
}

std::string path_of_kind(std::string_view layer) {
  const auto& kinds = mixer_kinds();
  return std::ranges::find(kinds, layer, &MixerKind::layer)->path();
}

/// Mixers by the words of `layer_types`, of the kinds whose dimensions are said.
using Mixers = std::map<std::string_view, MixerPtr>;

void read_mixers(Map& map, std::string_view section, Mixers& mixers) {
  for (const MixerKind& kind : mixer_kinds()) {
    if (kind.section != section) continue;
    if (const auto dimensions = map.optional(std::string(kind.key)))
      mixers[kind.layer] = kind.read(*dimensions);
  }
}

/// What mixes tokens in which block: `layer_types`, or a letter for each block of one part.
void read_parts(Map& map, Mixers mixers, TransformerShape& t) {
  read_mixers(map, "", mixers);
  const std::optional<Value> types = map.optional("layer_types");
  if (const auto pattern = map.optional("hybrid_override_pattern")) {
    if (types)
      map.at_key("layer_types").fail("hybrid_override_pattern says it", "leave one of them out");
    if (pattern->as_string().find('E') != std::string::npos && !t.experts)
      pattern->fail("E is of experts, which it does not have", "give experts");
    const std::string wrong = set_hybrid_pattern(pattern->as_string(), mixers["mamba"], t);
    if (!wrong.empty()) pattern->fail(wrong);
  }
  if (!types) return;
  for (const Value& one : types->as_list()) {
    const std::string name = one.as_choice(layer_type_names());
    const MixerPtr mixer = name == "full_attention" ? nullptr : mixers[name];
    if (!mixer && name != "full_attention")
      one.fail(fmt::format("a layer of {} without {}, which gives its dimensions", name,
                           path_of_kind(name)));
    t.parts.push_back({mixer});
  }
}

/// `full`, `{sliding: 4096}`, `{linear: {...}}` or `{mla: {...}}`.
void read_attention(const Value& value, Mixers& mixers, TransformerShape& t) {
  if (value.is_scalar()) {
    value.as_choice({"full"});
    return;
  }
  Map map = value.as_map();
  if (const auto window = map.optional("sliding")) t.window = window->as_integer(1, kMostWidth);
  if (const auto full = map.optional("full_every")) t.full_every = full->as_integer(1, kMostLayers);
  if (const auto mla = map.optional("mla")) t.latent = read_fields(*mla, latent_fields());
  read_mixers(map, "attention", mixers);
  if (const auto gate = map.optional("output_gate")) t.attention_gate = gate->as_bool();
  if (t.attention_gate && t.latent)
    map.at_key("output_gate").fail("it is not known how latent attention is gated", "leave it out");
  map.finish();
}

void read_keys(Keys& keys, TransformerShape& t) {
  read_widths(keys, t);
  read_functions(keys, t);
  if (const auto experts = keys.map.optional("experts")) {
    t.experts = read_experts(*experts, t);
    keys.changed.push_back(fmt::format("{} experts", t.experts->count));
  }
  keys.read({"multi_token_prediction"}, 100, t.predicted_tokens);
}

void refuse_contradiction(const Value& where, const TransformerShape& t) {
  const std::string wrong = contradiction(t);
  if (!wrong.empty()) where.fail(wrong);
}

}  // namespace

std::vector<Key> latent_attention_keys() { return keys_of(latent_fields(), "attention.mla."); }

std::vector<std::string> layer_type_names() {
  std::vector<std::string> names = {"full_attention"};
  for (const MixerKind& kind : mixer_kinds()) names.emplace_back(kind.layer);
  return names;
}

TransformerShape read_transformer(const Value& value) {
  Map map = value.as_map();
  const SoundPart part;
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"layers", "num_layers", "num_hidden_layers"},
        {"hidden_size"},
        {"heads", "num_attention_heads"},
        {"intermediate_size", "ffn_hidden_size"},
        {"vocab_size"}}) {
    if (std::ranges::none_of(names, [&](const std::string& name) { return map.has(name); }))
      map.require(names.front());
  }
  TransformerShape t;
  Keys keys{map};
  read_keys(keys, t);
  Mixers mixers;
  if (const auto attention = map.optional("attention")) read_attention(*attention, mixers, t);
  read_parts(map, std::move(mixers), t);
  map.finish();
  part.check();
  refuse_contradiction(value, t);
  return t;
}

bool vary_transformer(Map& map, TransformerShape& transformer) {
  const SoundPart part;
  Keys keys{map};
  read_keys(keys, transformer);
  part.check();
  if (keys.changed.empty()) return false;
  refuse_contradiction(map.where(), transformer);
  transformer.name += fmt::format(", {}", fmt::join(keys.changed, ", "));
  return true;
}

}  // namespace rehearse::inline scenario
