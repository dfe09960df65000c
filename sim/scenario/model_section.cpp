#include <fmt/format.h>

#include <set>
#include <stdexcept>

#include "scenario/sections.hpp"

namespace rehearse {
namespace {

constexpr std::int64_t kLargestBatch = 1'000'000;
constexpr std::int64_t kMostParameters = 100'000'000'000'000;
constexpr std::size_t kMostUnits = 10'000;

std::optional<std::int64_t> read_shape_key(Map& map, const std::string& key, std::int64_t high,
                                           std::optional<Value>& culprit) {
  const std::optional<Value> value = map.optional(key);
  if (!value) return std::nullopt;
  culprit = value;
  return value->as_integer(1, high);
}

/// `culprit` is where the user asked for what the architecture refuses.
Model build(const std::string& name, const ModelShape& shape, const Value& culprit) {
  try {
    return build_architecture(name, shape);
  } catch (const std::invalid_argument& wrong) {
    culprit.fail(wrong.what());
  }
}

/// A built-in architecture at the asked shape.
Model read_architecture(const Value& use, Map& map, std::vector<std::string>& assumptions) {
  const std::string name = use.as_choice(architecture_names());
  std::optional<Value> culprit;
  ModelShape shape;
  shape.classes = read_shape_key(map, "classes", 10'000'000, culprit).value_or(0);
  const auto image = read_shape_key(map, "image", 65'536, culprit);
  const auto sequence = read_shape_key(map, "sequence", 10'000'000, culprit);
  shape.image = image.value_or(0);
  shape.sequence = sequence.value_or(0);
  if (map.has("flash_attention")) shape.flash_attention = map.bool_or("flash_attention", true);
  Model model = build(name, shape, culprit.value_or(use));
  if (!image && !sequence) assumptions.push_back("model.sample = " + model.sample);
  const bool takes_images = model.tokens_per_sample == 0;
  if (!takes_images && !map.has("flash_attention")) map.bool_or("flash_attention", true);
  if (takes_images || map.has("channels_last")) {
    shape.channels_last = map.bool_or("channels_last", false);
  }
  return shape.channels_last ? build(name, shape, map.require("channels_last")) : model;
}

Unit read_unit(const Value& value, std::set<std::string>& seen) {
  Map map = value.as_map();
  Unit unit;
  const Value name = map.require("name");
  unit.name = name.as_string();
  if (!seen.insert(unit.name).second) {
    name.fail(fmt::format("two units are called \"{}\"", unit.name), "give each unit its own name");
  }
  const std::int64_t parameters = map.require("parameters").as_integer(0, kMostParameters);
  if (parameters > 0) unit.tensors = {parameters};
  unit.forward = map.require("forward").as_seconds();
  unit.backward = map.require("backward").as_seconds();
  unit.activation = map.require("activation").as_bytes();
  unit.host_launch = map.seconds_or("host_launch", unit.host_launch);
  map.finish();
  return unit;
}

/// A model whose times are given, unit by unit.
Model read_inline_model(Map& map) {
  Model model;
  model.name = map.require("name").as_string();
  model.sample = "sample";
  model.source = "given in the scenario";
  model.optimizer_time = map.require("optimizer_time").as_seconds();
  const Value units = map.require("units");
  const std::vector<Value> list = units.as_list();
  if (list.empty()) units.fail("a model needs at least one unit");
  if (list.size() > kMostUnits) {
    units.fail(fmt::format("{} units are more than the {} that a model may have", list.size(),
                           kMostUnits));
  }
  std::set<std::string> seen;
  for (const Value& unit : list) model.units.push_back(read_unit(unit, seen));
  if (model.parameters() == 0) units.fail("a model needs at least one parameter to train");
  return model;
}

}  // namespace

void read_model_section(const Value& value, Scenario& scenario) {
  Map map = value.as_map();
  const std::optional<Value> use = map.optional("use");
  scenario.model =
      use ? read_architecture(*use, map, scenario.assumptions) : read_inline_model(map);
  scenario.batch_per_gpu = map.require("batch_per_gpu").as_integer(1, kLargestBatch);
  scenario.precision = parse_precision(map.choice_or("precision", "fp32", precision_names()));
  map.finish();
}

}  // namespace rehearse
