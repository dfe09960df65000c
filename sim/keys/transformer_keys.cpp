#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "keys/keys.hpp"
#include "model/mixers.hpp"
#include "scenario/transformer_keys.hpp"

namespace rehearse::inline keys {
namespace {

std::vector<Key> shape_keys() {
  return {
    {"layers", type::integer(1), "(required)", "Blocks."},
    {"num_layers", type::integer(1), "(none)", "The same, as Megatron-LM calls it."},
    {"num_hidden_layers", type::integer(1), "(none)", "The same, as Hugging Face calls it."},
    {"hidden_size", type::integer(1), "(required)", "Channels of a token between blocks."},
    {"heads", type::integer(1), "(required)", "Attention heads."},
    {"num_attention_heads", type::integer(1), "(none)", "The same."},
    {"kv_heads", type::integer(1), "(heads)",
     "Heads of keys and values: fewer than `heads` share them."},
    {"num_key_value_heads", type::integer(1), "(none)", "The same, as Hugging Face calls it."},
    {"num_query_groups", type::integer(1), "(none)", "The same, as Megatron-LM calls it."},
    {"head_dim", type::integer(1), "(hidden_size / heads)", "Channels of a head."},
    {"kv_channels", type::integer(1), "(none)", "The same, as Megatron-LM calls it."},
    {"intermediate_size", type::integer(1), "(required)", "Channels inside a feed-forward layer."},
    {"ffn_hidden_size", type::integer(1), "(none)", "The same, as Megatron-LM calls it."},
    {"vocab_size", type::integer(1), "(required)", "Tokens that there are."},
    {"activation",
     type::choice(
         {"swiglu", "geglu", "gelu", "gelu_new", "relu", "relu2", "relu_then_square", "silu"}),
     "(swiglu)",
     "Function of the feed-forward layer. relu_then_square: relu2 as two of PyTorch's functions."},
    {"norm", type::choice({"rmsnorm", "layernorm"}), "(rmsnorm)", "Kind of the norms."},
    {"position", type::choice({"rope", "learned", "alibi", "none"}), "(rope)",
     "What tells positions apart."},
    {"tie_embeddings", type::flag(), "(false)", "The logits' weight is the embedding's."},
    {"tie_word_embeddings", type::flag(), "(none)", "The same, as Hugging Face calls it."},
    {"bias", type::flag(), "(false)", "Biases in attention and feed-forward."},
    {"qkv_bias", type::flag(), "(false)", "Biases of queries, keys and values alone."},
    {"dropout", type::at_least(0).in("share"), "(0)",
     "Of embeddings, attention and blocks; any rate costs the same."},
    {"fused_qkv", type::flag(), "(false)", "Queries, keys and values are one product."},
    {"qk_norm", type::flag(), "(false)", "Norms of each head's queries and keys."},
    {"qk_layernorm", type::flag(), "(none)", "The same, as Megatron-LM calls it."},
    {"parallel", type::choice({"none", "one_norm", "two_norms"}), "none",
     "Attention and feed-forward read the same input, through one norm or one each."},
    {"experts", type::map(), "(none)", "A mixture of experts in place of feed-forward layers."},
    {"experts.count", type::integer(1), "(required)", "Experts of a layer."},
    {"experts.active", type::integer(1), "(required)", "Experts that a token passes."},
    {"experts.intermediate_size", type::integer(1), "(intermediate_size)",
     "Channels inside an expert."},
    {"experts.shared", type::integer(0), "(0)", "Experts that every token passes."},
    {"experts.shared_gate", type::flag(), "(false)", "A number per token scales what these give."},
    {"experts.latent_size", type::integer(1), "(hidden_size)",
     "Channels that tokens have on their way through experts."},
    {"experts.first_dense", type::integer(0), "(0)", "First blocks without experts."},
    {"experts.interval", type::integer(1), "(1)", "Every so many blocks has experts."},
    {"experts.capacity", type::choice({"dropless"}) | type::above(0), "(dropless)",
     "Tokens that an expert takes, over its fair share."},
    {"multi_token_prediction", type::integer(1), "(none)",
     "Further blocks that each predict one more token."}};
}

std::vector<Key> joined(std::initializer_list<std::vector<Key>> parts) {
  std::vector<Key> all;
  for (const std::vector<Key>& part : parts) std::ranges::copy(part, std::back_inserter(all));
  return all;
}

/// Keys of the mixers that stand in a section.
std::vector<Key> keys_of_mixers(std::string_view section) {
  std::vector<Key> keys;
  for (const MixerKind& kind : mixer_kinds()) {
    if (kind.section != section) continue;
    keys.push_back({kind.path().c_str(), type::map(), "(none)", std::string(kind.meaning).c_str()});
    std::ranges::copy(kind.keys(kind.path() + "."), std::back_inserter(keys));
  }
  return keys;
}

/// These keys belong to a transformer by its dimensions alone.
std::vector<Key> mixer_keys() {
  return joined({
      {{"attention", type::choice({"full"}) | type::map(), "(full)", "Which tokens a token sees."},
       {"attention.sliding", type::integer(1), "(none)", "Tokens that a sliding layer sees."},
       {"attention.full_every", type::integer(1), "(none)", "Every so many layers one sees all."},
       {"attention.output_gate", type::flag(), "(false)",
        "A product's sigmoid scales what attention gives."}},
      keys_of_mixers("attention"),
      {{"attention.mla", type::map(), "(none)", "Multi-head latent attention."}},
      latent_attention_keys(),
      {{"layer_types", type::list_of(type::choice(layer_type_names())),
        "(full_attention)", "What mixes tokens, block by block, over and over."},
       {"hybrid_override_pattern", type::text(), "(none)",
        "Or blocks of one part: M mamba, * attention, - feed-forward, E experts.", "Megatron-LM"}},
      keys_of_mixers("")});
}

/// The same keys beside what has a value for each.
std::vector<Key> of_a_network(std::vector<Key> keys) {
  for (Key& key : keys) key.fallback = "(the network's)";
  return keys;
}

}  // namespace

// The same keys stand alone under `transformer`, and beside `use` and `hf` to change a network.
std::vector<KeySection> transformer_keys() {
  constexpr const char* kSource = "Hugging Face transformers";
  constexpr const char* kReader =
      "sim/scenario/transformer_keys.cpp src/model/mixers";
  return {{"model.transformer.", "A transformer by its dimensions", kSource, kReader,
           joined({shape_keys(), mixer_keys()})},
          {"model.", "A transformer, changed: beside `use` or `hf`", kSource, kReader,
           of_a_network(shape_keys())}};
}

}  // namespace rehearse::inline keys
