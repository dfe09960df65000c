#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline scenario {

/// Which of `use`, `hf` and `transformer` is there; nothing: none is.
std::optional<Value> naming_key(Map& map);

/// The network that `use` (one of these keys) names, at the shape that `model` asks for; both are
/// noted in the scenario. The framework says how its loss is computed where nobody else does.
Model read_architecture(const Value& use, Map& map, Framework& framework, Scenario& scenario);

/// A network by itself.
struct NamedNetwork {
  Model model;
  std::vector<std::string> assumptions;
};
/// A built-in one's name, a Hugging Face config.json (or a folder with one), or NAME.model.json,
/// which capture wrote. InputError where it is neither, and where the network refuses the shape; of
/// the config as read_hugging_face says.
NamedNetwork read_network(const std::string& name_or_file, const ModelShape& shape);

/// A network that is to be served, and how its weights are published: "fp8", "nvfp4", "mxfp4", a
/// method that is not one of these ("awq"), or empty where they have 16 bits.
struct ServedNetwork {
  TransformerShape shape;
  std::string published;
};
/// A transformer by its dimensions, as read_network() names it. InputError where it is none, too.
ServedNetwork read_served_network(const std::string& name_or_file);

/// Layers and linear layers (linear_names()) of a transformer by its built-in name, its hub's id or
/// its config.json; nothing: it is none, or is not known here.
struct KnownTransformer {
  std::int64_t layers = 0;
  std::vector<std::string> linears;
};
std::optional<KnownTransformer> known_transformer(const std::string& name_or_file);

/// InputError where `attention` names what a GPU of the cluster does not run.
void check_attention(const Value& model, const Scenario& scenario);

/// `sequence: {packed: 4096, documents: {mean: 700, deviation: 900}}`: the model with attention
/// over the pairs of the documents.
Model read_packing(const Value& value, Model model);

}  // namespace rehearse::inline scenario
