#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace rehearse::inline scenario {

/// Whether a text is the id of a model of the Hugging Face hub, such as "Qwen/Qwen3-8B", rather
/// than a file's name.
bool is_hub_id(const std::string& text);

/// Its config.json in the hub's local cache (HF_HUB_CACHE, HF_HOME, or ~/.cache/huggingface), of
/// the revision that `main` names there; nothing: it is not there.
std::optional<std::filesystem::path> cached_config(const std::string& id);

/// The built-in network of that id; empty: none is.
std::string built_in_of(const std::string& id);

/// Remedy that brings the config there.
std::string download_remedy(const std::string& id);

}  // namespace rehearse::inline scenario
