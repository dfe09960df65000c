#pragma once

#include <string>
#include <vector>

#include "config/document.hpp"
#include "config/key.hpp"
#include "model/transformer.hpp"

namespace rehearse::inline scenario {

/// `transformer: {layers: 32, hidden_size: 4096, ...}`: a transformer by its dimensions, under
/// Hugging Face's names or Megatron-LM's. InputError for what contradicts itself.
TransformerShape read_transformer(const Value& value);

/// The same keys beside `use` or `hf`, each of which changes one dimension. True if one is there;
/// the shape's name then tells them ("llama_7b, layers 40").
bool vary_transformer(Map& map, TransformerShape& transformer);

/// The reference lists these below `attention.mla`.
std::vector<Key> latent_attention_keys();
/// Words of `layer_types`.
std::vector<std::string> layer_type_names();

}  // namespace rehearse::inline scenario
