#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/document.hpp"

namespace rehearse::inline scenario {

/// Whether a text is the id of a model of the Hugging Face hub, such as "Qwen/Qwen3-8B", rather
/// than a file's name.
bool is_hub_id(const std::string& text);

/// Its config.json in the hub's local cache (HF_HUB_CACHE, HF_HOME, or ~/.cache/huggingface), of
/// the revision that `main` names there; nothing: it is not there.
std::optional<std::filesystem::path> cached_config(const std::string& id);

/// What is shipped of a network of the hub.
struct HubNetwork {
  std::string built_in;         ///< its name here; empty: it is none
  std::optional<Value> config;  ///< else its config.json
};

/// The network of an id, or of the id that a known owner's copy is of (platforms/hub.yaml);
/// nothing: it is not known.
std::optional<HubNetwork> hub_network(const std::string& id);

/// How a config.json's weights are published (transformers: utils/quantization_config.py): "fp8",
/// "nvfp4", "mxfp4", or the method's name; empty: in 16 bits.
std::string published_as(const Value& config);
/// A built-in network has it, too.
std::string published_built_in(const std::string& name);

/// The first id of the hub that a built-in network has in platforms/hub.yaml; empty: none.
std::string hub_id_of(const std::string& built_in);

/// Remedy that brings the config there.
std::string download_remedy(const std::string& id);

}  // namespace rehearse::inline scenario
