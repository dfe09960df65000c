#include "scenario/hub.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "base/data_folder.hpp"

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
  if (const auto slash = folder.find('/'); slash != std::string::npos)
    folder.replace(slash, 1, "--");
  const fs::path model = cache_folder() / folder;
  std::string revision;
  std::ifstream(model / "refs/main") >> revision;
  std::error_code ignored;
  const fs::path config = model / "snapshots" / revision / "config.json";
  if (revision.empty() || !fs::exists(config, ignored)) return std::nullopt;
  return config;
}

namespace {

/// platforms/hub.yaml, by names without owners and endings, in small letters.
struct KnownNetworks {
  std::set<std::string> mirrors;
  std::vector<std::string> endings;
  std::map<std::string, HubNetwork> by_id, by_name;
  std::map<std::string, std::string> first_ids;  ///< of built-in networks
  std::map<std::string, std::string> published;  ///< and the format of their weights

  KnownNetworks() {
    const auto document = Document::load_foreign(data_folder() / "platforms/hub.yaml");
    Map root = document->root().as_map();
    for (const Value& one : root.require("mirrors").as_list()) mirrors.insert(one.as_string());
    for (const Value& one : root.require("endings").as_list())
      endings.push_back(small(one.as_string()));
    Map built_in = root.require("built_in").as_map();
    for (const std::string& name : built_in.keys())
      for (const Value& id : built_in.require(name).as_list()) {
        add(id.as_string(), {name, {}});
        first_ids.emplace(name, id.as_string());
      }
    Map formats = root.require("published").as_map();
    for (const std::string& name : formats.keys())
      published.emplace(name, formats.require(name).as_string());
    Map configs = root.require("configs").as_map();
    for (const std::string& id : configs.keys()) add(id, {"", configs.require(id)});
    Map same = root.require("same").as_map();
    for (const std::string& id : same.keys()) add(id, by_id.at(same.require(id).as_string()));
  }

  /// Its own entry, or that of the id which a known owner's copy is of.
  std::optional<HubNetwork> find(const std::string& id) const {
    if (const auto own = by_id.find(id); own != by_id.end()) return own->second;
    const std::size_t slash = id.find('/');
    if (slash == std::string::npos || !mirrors.contains(id.substr(0, slash))) return std::nullopt;
    const auto copy = by_name.find(plain_name(id));
    return copy == by_name.end() ? std::nullopt : std::optional(copy->second);
  }

 private:
  static std::string small(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  }
  std::string plain_name(const std::string& id) const {
    std::string name = small(id.substr(id.find('/') + 1));
    for (bool cut = true; cut;) {
      cut = false;
      for (const std::string& ending : endings)
        if (name.ends_with(ending) && name.size() > ending.size()) {
          name.erase(name.size() - ending.size());
          cut = true;
        }
    }
    return name;
  }
  void add(const std::string& id, const HubNetwork& network) {
    by_id.emplace(id, network);
    by_name.emplace(plain_name(id), network);
  }
};

const KnownNetworks& known_networks() {
  static const KnownNetworks known;
  return known;
}

}  // namespace

std::optional<HubNetwork> hub_network(const std::string& id) { return known_networks().find(id); }

std::string published_built_in(const std::string& name) {
  const auto& formats = known_networks().published;
  const auto found = formats.find(name);
  return found == formats.end() ? "" : found->second;
}

namespace {

/// A section of compressed-tensors or ModelOpt says floats of so many bits.
std::string floats_of(std::int64_t bits) { return bits == 8 ? "fp8" : bits == 4 ? "nvfp4" : ""; }

}  // namespace

std::string published_as(const Value& config) {
  const std::optional<Value> section = config.as_map().optional("quantization_config");
  if (!section || !section->is_map()) return "";
  Map map = section->as_map();
  const auto text = [](Map& of, const char* key) {
    const std::optional<Value> value = of.optional(key);
    return value && value->is_scalar() && !value->is_null() ? value->as_string() : std::string();
  };
  const std::string method = text(map, "quant_method"), scheme = text(map, "quant_algo");
  if (scheme == "FP8" || scheme == "NVFP4") return scheme == "FP8" ? "fp8" : "nvfp4";
  const std::optional<Value> groups = map.optional("config_groups");
  if (groups && groups->is_map()) {
    Map all = groups->as_map();
    for (const std::string& name : all.keys()) {
      const std::optional<Value> weights = all.require(name).as_map().optional("weights");
      if (!weights || !weights->is_map()) continue;
      Map one = weights->as_map();
      const std::optional<Value> bits = one.optional("num_bits");
      if (bits && text(one, "type") == "float") return floats_of(bits->as_integer(1, 64));
    }
  }
  return method;
}

std::string hub_id_of(const std::string& built_in) {
  const auto& ids = known_networks().first_ids;
  const auto found = ids.find(built_in);
  return found == ids.end() ? "" : found->second;
}

std::string download_remedy(const std::string& id) {
  return "hf download " + id + " config.json, which needs a network once";
}

}  // namespace rehearse::inline scenario
