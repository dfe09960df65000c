// How a framework's data meets a scenario: defaults where keys are missing, and keys that it does
// not have.
#include <fmt/format.h>

#include <algorithm>

#include "framework/framework.hpp"
#include "framework/usual.hpp"

namespace rehearse::inline framework {
namespace {

/// A degree of 1 is as none, and so is one micro-batch.
bool counts(const std::string& key, const Value& value) {
  if (!key.ends_with("_parallel") && !key.ends_with("gradient_accumulation")) return true;
  if (value.is_map()) {
    const std::optional<Value> degree = value.as_map().optional("degree");
    return !degree || degree->shown() != "1";
  }
  return value.shown() != "1" && value.shown() != "false";
}

/// Where a dotted key stands.
std::optional<Value> value_at(const Map& root, const std::string& key) {
  Map map = root;
  std::size_t from = 0;
  while (true) {
    const std::size_t dot = key.find('.', from);
    const std::string step = key.substr(from, dot - from);
    const std::optional<Value> value = map.optional(step);
    if (!value || dot == std::string::npos) return value;
    if (!value->is_map()) return std::nullopt;
    map = value->as_map();
    from = dot + 1;
  }
}

/// The key itself, for messages about it.
Value key_at(const Map& root, const std::string& key) {
  const std::size_t dot = key.rfind('.');
  if (dot == std::string::npos) return root.at_key(key);
  return value_at(root, key.substr(0, dot))->as_map().at_key(key.substr(dot + 1));
}

/// `strategy.tensor_parallel` or `strategy.zero.stage=3`.
bool stands(const Map& root, const std::string& what) {
  const std::size_t equals = what.find('=');
  const std::string key = what.substr(0, equals);
  const std::optional<Value> value = value_at(root, key);
  if (!value) return false;
  return equals == std::string::npos ? counts(key, *value)
                                     : value->shown() == what.substr(equals + 1);
}

}  // namespace

bool Framework::bool_or(Map& map, const std::string& section, const std::string& key) {
  if (!map.has(key)) note(section + key);
  return map.bool_or(key, flag(section + key));
}

double Framework::number_or(Map& map, const std::string& section, const std::string& key) {
  if (!map.has(key)) note(section + key);
  return map.positive_number_or(key, number(section + key));
}

std::int64_t Framework::integer_or(Map& map, const std::string& section, const std::string& key,
                                   std::int64_t low, std::int64_t high) {
  if (!map.has(key)) note(section + key);
  return map.integer_or(key, static_cast<std::int64_t>(number(section + key)), low, high);
}

std::string Framework::choice_or(Map& map, const std::string& section, const std::string& key,
                                 const std::vector<std::string>& names) {
  if (!map.has(key)) note(section + key);
  return map.choice_or(key, word(section + key), names);
}

const Framework::Lack* Framework::lacking(const Map& root) const {
  const auto is_there = [&](const std::string& key) { return stands(root, key); };
  for (const Lack& lack : lacks_) {
    const std::optional<Value> value = value_at(root, lack.key);
    if (!value) continue;
    const bool meant = lack.values.empty()
                           ? counts(lack.key, *value)
                           : std::ranges::find(lack.values, value->shown()) != lack.values.end();
    if (meant && (lack.beside.empty() || std::ranges::any_of(lack.beside, is_there))) return &lack;
  }
  return nullptr;
}

void Framework::check(const Map& root) const {
  const Lack* const lack = lacking(root);
  if (lack == nullptr) return;
  const Value place = lack->values.empty() ? key_at(root, lack->key) : *value_at(root, lack->key);
  place.fail(fmt::format("{} ({})", broken_rule(root), lack->source), lack->remedy);
}

std::string Framework::broken_rule(const Map& root) const {
  const Lack* const lack = lacking(root);
  return lack == nullptr ? "" : fmt::format("{} {}", title(), lack->why);
}

namespace {

/// A captured network's ranks are those of PyTorch's parallelize_module, and no Megatron-LM's.
std::optional<Value> whose_degrees(Map& root, const std::optional<Value>& strategy) {
  const std::optional<Value> model = root.optional("model");
  const bool captured = model && model->is_map() && model->as_map().has("captured");
  return captured && strategy && usual_framework(*strategy) == "megatron" ? std::nullopt : strategy;
}

}  // namespace

std::string framework_name(Map& map, const std::optional<Value>& strategy) {
  const std::optional<Value> said = map.optional("framework");
  const std::optional<Value> usual = whose_degrees(map, strategy);
  if (!said) return usual ? usual_framework(*usual) : framework_names().front();
  return said->is_map() ? said->as_map().keys().front() : said->shown();
}

namespace {

bool has(const Value& strategy, const char* key) {
  return strategy.is_map() && strategy.as_map().has(key);
}

/// Until a framework could be said, Megatron-LM sent between stages whose replicas PyTorch sharded.
void check_pipeline(const Value& strategy) {
  if ((has(strategy, "fsdp") || has(strategy, "fsdp2")) && is_pipeline(strategy))
    strategy.as_map()
        .at_key("pipeline_parallel")
        .fail("whose pipeline is this? No framework is the usual one beside FSDP",
              "add framework: torch or framework: torchtitan");
}

}  // namespace

Framework read_framework(Map& map, const std::optional<Value>& strategy) {
  const std::optional<Value> said = map.optional("framework");
  Framework framework =
      said ? Framework(*said) : Framework::of_strategy(whose_degrees(map, strategy));
  if (strategy && !said) check_pipeline(*strategy);
  if (strategy && is_pipeline(*strategy)) framework.in_pipelines();
  if (strategy && has(*strategy, "fsdp")) framework.in_fsdp();
  return framework;
}

}  // namespace rehearse::inline framework
