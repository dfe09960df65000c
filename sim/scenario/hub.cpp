#include "scenario/hub.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

namespace rehearse::inline scenario {
namespace {

namespace fs = std::filesystem;

/// As huggingface_hub's constants.py finds it.
fs::path cache_folder() {
  if (const char* cache = std::getenv("HF_HUB_CACHE")) return cache;
  if (const char* home = std::getenv("HF_HOME")) return fs::path(home) / "hub";
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) return fs::path(cache) / "huggingface/hub";
  const char* home = std::getenv("HOME");
  return home == nullptr ? fs::path() : fs::path(home) / ".cache/huggingface/hub";
}

}  // namespace

bool is_hub_id(const std::string& text) {
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
  };
  const auto slash = text.find('/');
  return slash != std::string::npos && slash > 0 && slash + 1 < text.size() &&
         std::ranges::count(text, '/') == 1 && text[0] != '.' && text.find("..") == text.npos &&
         !text.ends_with(".json") && std::ranges::all_of(text, allowed);
}

std::optional<fs::path> cached_config(const std::string& id) {
  std::string folder = "models--" + id;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path model = cache_folder() / folder;
  std::string revision;
  std::ifstream(model / "refs/main") >> revision;
  std::error_code ignored;
  const fs::path config = model / "snapshots" / revision / "config.json";
  if (revision.empty() || !fs::exists(config, ignored)) return std::nullopt;
  return config;
}

std::string built_in_of(const std::string& id) {
  static const std::map<std::string, std::string> kIds = {
      {"Qwen/Qwen2.5-7B", "qwen2_5_7b"},
      {"Qwen/Qwen2.5-7B-Instruct", "qwen2_5_7b"},
      {"Qwen/Qwen2.5-72B", "qwen2_5_72b"},
      {"Qwen/Qwen2.5-72B-Instruct", "qwen2_5_72b"},
      {"Qwen/Qwen3-8B", "qwen3_8b"},
      {"Qwen/Qwen3-8B-Base", "qwen3_8b"},
      {"Qwen/Qwen3-32B", "qwen3_32b"},
      {"Qwen/Qwen3-30B-A3B", "qwen3_30b_a3b"},
      {"Qwen/Qwen3-30B-A3B-Base", "qwen3_30b_a3b"},
      {"Qwen/Qwen3-235B-A22B", "qwen3_235b_a22b"},
      {"Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3_next_80b_a3b"},
      {"Qwen/Qwen3-Next-80B-A3B-Thinking", "qwen3_next_80b_a3b"},
      {"deepseek-ai/DeepSeek-V3", "deepseek_v3"},
      {"deepseek-ai/DeepSeek-V3-Base", "deepseek_v3"},
      {"deepseek-ai/DeepSeek-R1", "deepseek_v3"},
      {"google-bert/bert-base-uncased", "bert_base"},
      {"google-bert/bert-large-uncased", "bert_large"},
      {"meta-llama/Llama-2-7b-hf", "llama_7b"},
      {"meta-llama/Llama-2-70b-hf", "llama_70b"},
      {"meta-llama/Meta-Llama-3-8B", "llama_3_8b"},
      {"meta-llama/Meta-Llama-3-70B", "llama_3_70b"},
      {"meta-llama/Llama-3.1-8B", "llama_3_8b"},
      {"meta-llama/Llama-3.1-8B-Instruct", "llama_3_8b"},
      {"meta-llama/Llama-3.1-70B", "llama_3_70b"},
      {"meta-llama/Llama-3.1-70B-Instruct", "llama_3_70b"},
      {"meta-llama/Llama-3.3-70B-Instruct", "llama_3_70b"},
      {"meta-llama/Llama-3.1-405B", "llama_3_405b"},
      {"meta-llama/Llama-3.1-405B-Instruct", "llama_3_405b"},
      {"mistralai/Mistral-7B-Instruct-v0.2", "mistral_7b"},
      {"mistralai/Mixtral-8x7B-v0.1", "mixtral_8x7b"},
      {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral_8x7b"},
      {"mistralai/Mixtral-8x22B-v0.1", "mixtral_8x22b"},
      {"openai/gpt-oss-120b", "gpt_oss_120b"},
      {"openai-community/gpt2", "gpt2"},
      {"openai-community/gpt2-medium", "gpt2_medium"},
      {"openai-community/gpt2-large", "gpt2_large"},
      {"openai-community/gpt2-xl", "gpt2_xl"}};
  const auto found = kIds.find(id);
  return found == kIds.end() ? "" : found->second;
}

std::string download_remedy(const std::string& id) {
  return "hf download " + id + " config.json, which needs a network once";
}

}  // namespace rehearse::inline scenario
