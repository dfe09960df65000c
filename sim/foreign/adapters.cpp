// Layers that have adapters, in the words of a scenario.
#include <algorithm>
#include <set>

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
  // Megatron-LM's names of the products that it makes as one.
  for (const auto& [theirs, parts] :
       {std::pair("linear_qkv", "q, k, v"), std::pair("linear_proj", "o"),
        std::pair("linear_fc1", "gate, up"), std::pair("linear_fc2", "down")})
    std::ranges::replace(names, std::string(theirs), std::string(parts));
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
std::vector<std::string> absent(const std::string& targets, const Facts& facts) {
  const std::vector<std::string> there = parts_of(value_of(facts, "network_linears"));
  if (there.empty()) return {};
  const auto has_layer = [&](const std::string& name) {
    return std::ranges::find(there, name) != there.end();
  };
  std::vector<std::string> missing;
  for (const std::string& target : parts_of(targets)) {
    const std::string name = linear_name(target);
    const bool of_qkv = (name == "q" || name == "k" || name == "v") && has_layer("qkv");
    const bool all = name == "all_linear" || target == "all-linear";
    if (!all && !has_layer(name) && !of_qkv) missing.push_back(target);
  }
  return missing.size() == parts_of(targets).size() ? std::vector<std::string>() : missing;
}

/// litgpt has a flag for each kind of layer, and torchtune for those outside attention.
void add_flagged(Facts& facts) {
  std::string flagged;
  for (const auto& [part, layers] :
       {std::pair("query", "q"), std::pair("key", "k"), std::pair("value", "v"),
        std::pair("projection", "o"), std::pair("mlp", "gate, up, down"),
        std::pair("head", "lm_head")})
    if (facts.erase(std::string("lora.") + part) > 0)
      flagged += (flagged.empty() ? "" : ", ") + std::string(layers);
  if (flagged.empty()) return;
  std::string others = value_of(facts, "model.lora.targets");
  std::erase_if(others, [](char c) { return c == '[' || c == ']'; });
  std::set<std::string> attention;
  for (const std::string& one : parts_of(others)) attention.insert(linear_name(one));
  const bool all =
      flagged == "gate, up, down" && attention == std::set<std::string>{"k", "o", "q", "v"};
  const std::string both = others + (others.empty() ? "" : ", ") + flagged;
  say(facts, "model.lora.targets", all ? "[all_linear]" : "[" + both + "]");
}

}  // namespace

void fill_adapters(Facts& facts) {
  add_flagged(facts);
  // ms-swift has adapters unless it is told of none.
  if (value_of(facts, "adapter") == "none")
    std::erase_if(facts, [](const auto& fact) { return fact.first.starts_with("model.lora."); });
  if (!has(facts, "model.lora.targets")) return;
  const std::string targets = plain_targets(value_of(facts, "model.lora.targets"));
  const std::vector<std::string> missing = absent(targets, facts);
  std::string kept;
  for (const std::string& one : parts_of(targets))
    if (std::ranges::find(missing, one) == missing.end()) kept += (kept.empty() ? "" : ", ") + one;
  say(facts, "model.lora.targets", "[" + kept + "]");
}

std::vector<std::string> adapters_left_out(const Facts& facts) {
  return absent(plain_targets(value_of(facts, "model.lora.targets")), facts);
}

}  // namespace rehearse::inline foreign
