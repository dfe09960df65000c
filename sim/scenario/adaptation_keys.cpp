#include "scenario/adaptation_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "scenario/sections.hpp"

namespace rehearse::inline scenario {
namespace {

constexpr std::int64_t kLargestRank = 65'536;

StoredAs storage_of(const std::string& name) {
  if (name == "fp32") return StoredAs::fp32;
  if (name == "bf16") return StoredAs::bf16;
  if (name == "int8") return StoredAs::int8;
  if (name == "nf4_double") return StoredAs::nf4_double;
  return name == "nf4" ? StoredAs::nf4 : StoredAs::model;
}

std::vector<std::string> read_names(Map& map, const char* key, std::vector<std::string> fallback) {
  const std::optional<Value> list = map.optional(key);
  if (!list) return fallback;
  if (list->is_scalar()) return {linear_name(list->as_string())};  // PEFT's "all-linear"
  std::vector<std::string> names;
  for (const Value& name : list->as_list()) names.push_back(linear_name(name.as_string()));
  if (names.empty()) list->fail("expected at least one name", "leave it out for the default");
  return names;
}

/// PEFT keeps adapters in fp32 beside 16-bit weights (autocast_adapter_dtype).
StoredAs read_dtype(Map& map, Precision precision) {
  const bool narrow = parameter_element(precision) == Bytes(2);
  const std::string name = map.choice_or("dtype", "fp32", {"fp32", "bf16"});
  return narrow == (name == "bf16") ? StoredAs::model : storage_of(name);
}

Lora read_lora(const Value& value, Precision precision) {
  Map map = value.as_map();
  Lora lora;
  lora.rank = map.integer_or("rank", 8, 1, kLargestRank);
  if (const auto alpha = map.optional("alpha")) alpha->as_positive_number();
  lora.targets = read_names(map, "targets", {"q", "v"});
  lora.storage = read_dtype(map, precision);
  lora.dropout = map.optional("dropout") && number_within(map, "dropout", 0, 0, 0.99) > 0;
  if (const auto saved = map.optional("modules_to_save"))
    for (const Value& name : saved->as_list())
      lora.modules_to_save.push_back(name.as_choice({"embeddings", "lm_head"}));
  map.finish();
  return lora;
}

/// What Megatron-LM makes in one product (attention.py: linear_qkv; mlp.py: linear_fc1).
struct JoinedProduct {
  std::string whole;
  std::vector<std::string> parts;

  std::size_t parts_among(const std::vector<std::string>& names) const {
    return static_cast<std::size_t>(std::ranges::count_if(parts, [&](const std::string& part) {
      return std::ranges::find(names, part) != names.end();
    }));
  }
};

const std::vector<JoinedProduct>& joined_products() {
  static const std::vector<JoinedProduct> kAll = {{"qkv", {"q", "k", "v"}},
                                                  {"gate_up", {"gate", "up"}}};
  return kAll;
}

void join_targets(std::vector<std::string>& targets, const Model& model) {
  const std::vector<std::string> names = linear_names(model);
  for (const JoinedProduct& product : joined_products()) {
    const bool is_there = std::ranges::find(names, product.whole) != names.end();
    if (!is_there || product.parts_among(targets) != product.parts.size()) continue;
    std::erase_if(targets, [&](const std::string& name) {
      return std::ranges::find(product.parts, name) != product.parts.end();
    });
    targets.push_back(product.whole);
  }
}

void read_quantization(const Value& value, bool has_lora, Adaptation& how) {
  if (!has_lora)
    value.fail("quantized weights are frozen: nothing is left to train", "add `lora: {}`");
  if (!value.is_map()) {
    how.linear = storage_of(value.as_choice({"nf4", "nf4_double", "int8"}));
    return;
  }
  Map map = value.as_map();
  how.linear = storage_of(map.choice_or("weights", "nf4", {"nf4", "nf4_double", "int8"}));
  how.keeps_inputs = map.bool_or("keeps_inputs", false);
  how.logits = map.bool_or("lm_head", false);
  if (map.choice_or("others", "model", {"model", "fp32"}) == "fp32") how.others = StoredAs::fp32;
  map.finish();
}

}  // namespace

bool adapts_whole_products(const Value& lora) {
  Map map = lora.as_map();
  const std::vector<std::string> targets = read_names(map, "targets", {"q", "v"});
  return std::ranges::all_of(joined_products(), [&](const JoinedProduct& product) {
    const std::size_t parts = product.parts_among(targets);
    return parts == 0 || parts == product.parts.size();
  });
}

Model read_adaptation(Map& map, Model model, Precision precision,
                      std::vector<std::string>& assumptions, std::optional<Adaptation>& applied,
                      bool joined) {
  Adaptation how;
  std::optional<Value> culprit;
  if (const auto frozen = map.optional("frozen")) {
    how.frozen = matching_units(frozen->as_list(), model);
    culprit = frozen;
  }
  if (const auto lora = map.optional("lora")) {
    if (culprit) lora->fail("lora freezes all but its adapters", "leave model.frozen out");
    how.lora = read_lora(*lora, precision);
    if (joined) join_targets(how.lora->targets, model);
    culprit = lora;
  }
  if (const auto quantization = map.optional("quantization"))
    read_quantization(*quantization, how.lora.has_value(), how);
  if (!culprit) return model;
  std::string remedy;
  if (!how.lora) remedy = "leave some of it out of `frozen`";
  if (!how.lora && model.tokens_per_sample > 0)
    remedy += ", or write rl: {algorithm: scoring}, which is a forward pass alone";
  try {
    Model adapted = adapt(std::move(model), how);
    applied = how;
    assumptions.push_back(fmt::format("model: {} of {} parameters are trained",
                                      adapted.trainable_parameters(), adapted.parameters()));
    return adapted;
  } catch (const std::invalid_argument& wrong) {
    culprit->fail(wrong.what(), remedy);
  }
}

}  // namespace rehearse::inline scenario
