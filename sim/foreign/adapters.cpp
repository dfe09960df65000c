// Layers that have adapters, in the words of a scenario.
#include <algorithm>

#include "foreign/assemble.hpp"
#include "model/adaptation.hpp"

namespace rehearse::inline foreign {
namespace {

/// The last parts of modules' names, as PEFT takes them: of `self_attn.q_proj` and of a pattern
/// `layers.[\d]+.(mlp|self_attn).(up|q)_proj` alike.
std::string plain_targets(const std::string& said) {
  std::string list = said;
  std::erase_if(list, [](char c) { return c == '[' || c == ']' || c == '"' || c == '\''; });
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= list.size();) {
    std::size_t end = list.find_first_of(", ", at);
    end = std::min(end, list.size());
    const std::string one = list.substr(at, end - at);
    at = end + 1;
    if (one.empty()) continue;
    const std::size_t open = one.rfind('('), close = one.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) {
      names.push_back(one.substr(one.rfind('.') + 1));
      continue;
    }
    const std::string parts = one.substr(open + 1, close - open - 1), rest = one.substr(close + 1);
    for (std::size_t from = 0; from <= parts.size();) {
      const std::size_t bar = std::min(parts.find('|', from), parts.size());
      names.push_back(parts.substr(from, bar - from) + rest);
      from = bar + 1;
    }
  }
  std::string made;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (std::ranges::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i),
                          names[i]) == names.begin() + static_cast<std::ptrdiff_t>(i))
      made += (made.empty() ? "" : ", ") + names[i];
  return "[" + made + "]";
}

std::vector<std::string> parts_of(std::string list) {
  std::erase_if(list, [](char c) { return c == '[' || c == ']' || c == ' '; });
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// PEFT adapts the targets that the network has, and fails where it has none of them
/// (peft/tuners/tuners_utils.py: inject_adapter).
std::string targets_there(const std::string& targets, const std::string& layers) {
  const std::vector<std::string> there = parts_of(layers);
  const auto has_layer = [&](const std::string& name) {
    return std::ranges::find(there, name) != there.end();
  };
  std::string kept;
  for (const std::string& target : parts_of(targets)) {
    const std::string name = linear_name(target);
    const bool of_qkv = (name == "q" || name == "k" || name == "v") && has_layer("qkv");
    if (name == "all_linear" || target == "all-linear" || has_layer(name) || of_qkv)
      kept += (kept.empty() ? "" : ", ") + target;
  }
  return kept.empty() ? targets : "[" + kept + "]";
}

}  // namespace

void fill_adapters(Facts& facts) {
  // litgpt has a flag for each kind of layer.
  std::string adapted;
  for (const auto& [part, layers] :
       {std::pair("query", "q"), std::pair("key", "k"), std::pair("value", "v"),
        std::pair("projection", "o"), std::pair("mlp", "gate, up, down"),
        std::pair("head", "lm_head")})
    if (facts.erase(std::string("lora.") + part) > 0)
      adapted += (adapted.empty() ? "" : ", ") + std::string(layers);
  if (!adapted.empty()) say(facts, "model.lora.targets", "[" + adapted + "]");
  // ms-swift has adapters unless it is told of none.
  if (value_of(facts, "adapter") == "none")
    std::erase_if(facts, [](const auto& fact) { return fact.first.starts_with("model.lora."); });
  if (!has(facts, "model.lora.targets")) return;
  std::string targets = plain_targets(value_of(facts, "model.lora.targets"));
  if (has(facts, "network_linears"))
    targets = targets_there(targets, value_of(facts, "network_linears"));
  say(facts, "model.lora.targets", targets);
}

}  // namespace rehearse::inline foreign
