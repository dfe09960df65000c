#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "config/mistakes.hpp"
#include "config/record_set.hpp"
#include "model/hugging_face.hpp"
#include "model/packing.hpp"
#include "scenario/adaptation_keys.hpp"
#include "scenario/sections.hpp"
#include "scenario/transformer_keys.hpp"

namespace rehearse {
namespace {

constexpr std::int64_t kLargestBatch = 1'000'000;
constexpr std::int64_t kMostParameters = 100'000'000'000'000;
constexpr std::int64_t kMostMicroBatches = 1'000'000;
constexpr std::size_t kMostUnits = 10'000;
constexpr std::int64_t kMostMeasuredGpus = 1'000'000;

std::optional<std::int64_t> read_shape_key(Map& map, const std::string& key, std::int64_t high,
                                           std::optional<Value>& culprit) {
  const std::optional<Value> value = map.optional(key);
  if (!value) return std::nullopt;
  culprit = value;
  return value->as_integer(1, high);
}

/// What a scenario names: a built-in network, or a transformer of any dimensions.
struct NamedModel {
  std::string name;
  std::optional<TransformerShape> transformer;
};

/// `culprit` is where the user asked for what the architecture refuses.
Model build(const NamedModel& named, const ModelShape& shape, const Value& culprit) {
  try {
    return named.transformer ? build_transformer(*named.transformer, shape)
                             : build_architecture(named.name, shape);
  } catch (const std::invalid_argument& wrong) {
    culprit.fail(wrong.what());
  }
}

/// The transformer of a config.json beside the scenario, or of a folder that holds one.
TransformerShape read_config_file(const Value& value, std::vector<std::string>& assumptions) {
  const std::filesystem::path file = value.folder() / value.as_string();
  if (!std::filesystem::exists(file)) {
    value.fail(fmt::format("no file \"{}\"", file.string()),
               "name a Hugging Face config.json, or a folder that holds one");
  }
  HuggingFaceModel read = read_hugging_face(file);
  for (const std::string& one : read.assumptions) assumptions.push_back("model.hf: " + one);
  return read.shape;
}

/// Exactly one of `use`, `hf` and `transformer` is there.
NamedModel read_named(Map& map, std::vector<std::string>& assumptions) {
  NamedModel named;
  if (const std::optional<Value> use = map.optional("use")) {
    named.name = use->as_choice(architecture_names());
    if (const TransformerShape* shape = built_in_shape(named.name)) named.transformer = *shape;
  }
  if (const std::optional<Value> config = map.optional("hf"))
    named.transformer = read_config_file(*config, assumptions);
  if (const std::optional<Value> dimensions = map.optional("transformer")) {
    named.transformer = read_transformer(*dimensions);
  } else if (named.transformer) {
    vary_transformer(map, *named.transformer);
  }
  return named;
}

/// Which of the keys that name a network is there; nothing: none is.
std::optional<Value> naming_key(Map& map) {
  std::optional<Value> found;
  for (const char* key : {"use", "hf", "transformer"}) {
    if (!map.has(key)) continue;
    if (found)
      map.at_key(key).fail("use, hf and transformer each name a network",
                           "keep one of them");
    found = map.optional(key);
  }
  return found;
}

Precision read_precision(Map& map) {
  return parse_precision(map.choice_or("precision", "fp32", precision_names()));
}

Loss loss_of(const std::string& name) {
  const auto found = std::ranges::find(loss_names(), name);
  return static_cast<Loss>(found - loss_names().begin());
}

/// `loss: NAME | fused | {chunked: 8, of: cross_entropy_fp32}`.
void read_loss(Map& map, ModelShape& shape) {
  constexpr std::int64_t kMostChunks = 1'000'000;
  std::vector<std::string> names = loss_names();
  names.emplace_back("fused");
  if (!map.has("loss") || !map.require("loss").is_map()) {
    const std::string name = map.choice_or("loss", names.front(), names);
    shape.loss_parts.fused = name == "fused";
    if (!shape.loss_parts.fused) shape.loss = loss_of(name);
    return;
  }
  Map parts = map.require("loss").as_map();
  shape.loss_parts.chunks = parts.require("chunked").as_integer(1, kMostChunks);
  shape.loss = loss_of(parts.choice_or("of", "cross_entropy", loss_names()));
  parts.finish();
}

/// A named network at the asked shape.
Model read_architecture(const Value& use, Map& map, Scenario& scenario) {
  std::vector<std::string>& assumptions = scenario.assumptions;
  const NamedModel name = read_named(map, assumptions);
  std::optional<Value> culprit;
  scenario.transformer = name.transformer;
  ModelShape& shape = scenario.shape;
  shape.classes = read_shape_key(map, "classes", 10'000'000, culprit).value_or(0);
  const auto image = read_shape_key(map, "image", 65'536, culprit);
  constexpr std::int64_t kLongest = 10'000'000;
  const bool packs = map.has("sequence") && map.require("sequence").is_map();
  std::optional<std::int64_t> sequence;
  if (packs) {
    Map lengths = map.require("sequence").as_map();
    sequence = read_shape_key(lengths, "packed", kLongest, culprit);
  } else {
    sequence = read_shape_key(map, "sequence", kLongest, culprit);
  }
  shape.image = image.value_or(0);
  shape.sequence = sequence.value_or(0);
  if (map.has("flash_attention")) {
    shape.flash_attention = map.bool_or("flash_attention", true);
    shape.flash_sinks = shape.flash_attention;  // transformers' own code has none
  }
  if (const auto fused = map.optional("fused_softmax")) {
    shape.fused_softmax = fused->as_bool();
    if (shape.fused_softmax && shape.flash_attention)
      fused->fail("flash attention has no softmax of its own", "add flash_attention: false");
  }
  Model model = build(name, shape, culprit.value_or(use));
  if (!image && !sequence) assumptions.push_back("model.sample = " + model.sample);
  const bool takes_images = model.tokens_per_sample == 0;
  if (!takes_images && !map.has("flash_attention")) map.bool_or("flash_attention", true);
  if (takes_images || map.has("channels_last")) {
    shape.channels_last = map.bool_or("channels_last", false);
  }
  if (shape.channels_last) return build(name, shape, map.require("channels_last"));
  if (is_causal_language_model(model) || map.has("loss")) read_loss(map, shape);
  const bool plain = shape.loss == Loss::cross_entropy && !shape.loss_parts.any();
  return plain ? model : build(name, shape, map.require("loss"));
}

/// `sequence: {packed: 4096, documents: {mean: 700, deviation: 900}}`.
Model read_packing(const Value& value, Model model) {
  constexpr double kLongest = 1e7;
  if (!is_causal_language_model(model))
    value.fail(fmt::format("{} is no causal language model, whose documents are packed", model.name),
               "sequence: 512");
  Map map = value.as_map();
  const auto tokens = static_cast<double>(map.require("packed").as_integer(1, 10'000'000));
  Map lengths = map.require("documents").as_map();
  Documents documents;
  lengths.require("mean");
  documents.mean = number_within(lengths, "mean", 1, 1, kLongest);
  documents.deviation = number_within(lengths, "deviation", 0, 0, kLongest);
  lengths.finish();
  map.finish();
  Model made = packed(std::move(model), document_of_a_token(documents, tokens));
  if (!packed_document(made))
    value.fail(fmt::format("{} has no fused attention here, and without it every pair is computed",
                           made.name),
               "flash_attention: true");
  return made;
}

/// Where more than one of the keys is missing, says so of all; Map::require() says so of one.
void expect(const Map& map, const std::vector<std::string>& keys, const std::string& remedy = "") {
  std::vector<std::string> missing;
  for (const std::string& key : keys) {
    if (!map.has(key)) missing.push_back(fmt::format("\"{}\"", key));
  }
  if (missing.size() < 2) return;
  map.where().fail(fmt::format("the keys {} are missing", fmt::join(missing, ", ")), remedy);
}

Unit read_unit(const Value& value, std::set<std::string>& seen) {
  Map map = value.as_map();
  expect(map, {"name", "parameters", "forward", "backward", "activation"});
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

/// `measured_at: {batch_per_gpu: 4, gpu: A10G, precision: fp32}`: what an inline model's times are
/// of. Its activations, given for that batch, are scaled to the scenario's. Without a precision they
/// are of the one that `model` says beside them, not of one that comes from elsewhere.
GivenAt read_given_at(const Value& value, Map& model, Scenario& scenario) {
  Map map = value.as_map();
  expect(map, {"batch_per_gpu", "gpu"});
  if (!map.has("precision") && model.has("precision") &&
      model.require("precision").file() != value.file()) {
    value.fail("in which precision were the times measured?",
               "add it, such as `precision: fp32`, and they are scaled");
  }
  GivenAt at{.batch = map.require("batch_per_gpu").as_integer(1, kLargestBatch),
             .precision = scenario.precision,
             .gpu = read_gpu(map.require("gpu"))};
  if (map.has("precision")) at.precision = read_precision(map);
  map.finish();
  const double ratio = activation_ratio(at, scenario.precision, scenario.batch_per_gpu);
  for (Unit& unit : scenario.model.units) unit.activation = *unit.activation * ratio;
  return at;
}

/// The folder of `transfer_from: NAME`, a device of platforms/profiles/compute or a folder of the
/// user's own. It must hold a profile of the model.
std::filesystem::path read_transfer_folder(const Value& value, const ProfileSubject& subject,
                                           ProfileLibrary& library) {
  std::filesystem::path folder = compute_profiles_folder() / value.as_string();
  if (!is_input_folder(folder)) folder = value.folder() / value.as_string();
  if (!is_input_folder(folder)) {
    value.fail(fmt::format("no device of platforms/profiles/compute and no folder; got \"{}\"",
                           value.shown()),
               "`rehearse list profiles` names those that are shipped");
  }
  if (!library.find(folder, subject).profile) {
    value.fail(fmt::format("no profile of {} in \"{}\"", subject.text(), value.shown()),
               "calibrate it, or leave transfer_from out");
  }
  return folder;
}

/// Samples per second of all GPUs: as such, as tokens per second or as the time of a step.
double read_rate(Map& map, const Value& value, const Model& model, double samples_per_step) {
  const std::vector<std::string> rates = {"samples_per_s", "tokens_per_s", "step_time"};
  const auto given =
      std::ranges::count_if(rates, [&](const std::string& key) { return map.has(key); });
  if (given != 1) {
    value.fail(given == 0 ? "one of samples_per_s, tokens_per_s and step_time is missing"
                          : "samples_per_s, tokens_per_s and step_time say the same thing",
               "give one of them, such as `measured: {samples_per_s: 580}`");
  }
  if (map.has("samples_per_s")) return map.require("samples_per_s").as_positive_number();
  if (map.has("step_time")) {
    const Value step = map.require("step_time");
    const Seconds time = step.as_seconds();
    if (time <= Seconds(0)) step.fail("a step takes time");
    return samples_per_step / time.value();
  }
  const Value tokens = map.require("tokens_per_s");
  if (model.tokens_per_sample == 0)
    tokens.fail(model.name + " takes images", "say samples_per_s instead");
  return tokens.as_positive_number() / static_cast<double>(model.tokens_per_sample);
}

/// `measured: {samples_per_s: 580, gradient_accumulation: 256}`: what one GPU trains, or all of
/// `gpus`. The batch is the scenario's own where it is not said.
WholeStep read_whole_step(const Value& value, const Model& model, std::int64_t batch) {
  Map map = value.as_map();
  WholeStep step;
  step.batch =
      map.has("batch_per_gpu") ? map.integer_or("batch_per_gpu", batch, 1, kLargestBatch) : batch;
  step.micro_batches = map.integer_or("gradient_accumulation", 1, 1, kMostMicroBatches);
  step.gpus = map.integer_or("gpus", 1, 1, kMostMeasuredGpus);
  step.samples_per_s = read_rate(
      map, value, model, static_cast<double>(step.batch * step.micro_batches * step.gpus));
  map.finish();
  return step;
}

/// The keys of a built-in network's costs.
CostChoice read_cost_choice(Map& map, const Scenario& scenario, ProfileLibrary& library) {
  CostChoice choice;
  if (const std::optional<Value> costs = map.optional("costs")) {
    choice.analytic = costs->as_choice({"auto", "analytic"}) == "analytic";
  }
  if (const std::optional<Value> measured = map.optional("measured")) {
    choice.whole_step = read_whole_step(*measured, scenario.model, scenario.batch_per_gpu);
    choice.analytic = true;
  }
  if (const std::optional<Value> from = map.optional("transfer_from")) {
    if (choice.whole_step)
      from->fail("a measured whole step scales computed costs, which are transferred from nothing");
    if (choice.analytic)
      from->fail("computed costs (costs: analytic) are transferred from nothing");
    choice.transfer_from =
        read_transfer_folder(*from,
                             profile_subject(scenario.model, computed_in(scenario.precision)),
                             library);
  }
  return choice;
}

StoredProfile read_profile(const Value& value, ProfileLibrary& library) {
  const std::filesystem::path file = value.folder() / value.as_string();
  if (!is_input_file(file)) {
    value.fail(fmt::format("no file \"{}\"", file.string()),
               "name a compute profile, as `rehearse calibrate compute` writes it");
  }
  return library.read(file);
}

/// A model that is what a profile measured, in the profile's precision.
CostChoice read_profiled_model(const Value& value, Map& map, Scenario& scenario,
                               ProfileLibrary& library) {
  const StoredProfile stored = read_profile(value, library);
  scenario.model = model_of(stored);
  scenario.precision = stored.profile->precision;
  if (const std::optional<Value> asked = map.optional("precision")) {
    if (parse_precision(asked->as_choice(precision_names())) != scenario.precision) {
      asked->fail(fmt::format("{} was measured in {}; got {}", stored.file,
                              to_string(scenario.precision), asked->shown()));
    }
  } else {
    scenario.assumptions.push_back("model.precision = " + to_string(scenario.precision));
  }
  if (scenario.model.parameters() == 0) value.fail("a model needs at least one parameter to train");
  return {.transfer_from = {}, .profile = stored};
}

/// Of a model that could not be read, what belongs to its shape is not judged.
void leave_shape(Map& map) {
  for (const char* key : {"classes", "image", "sequence", "flash_attention", "fused_softmax",
                          "channels_last", "frozen", "lora", "quantization", "compile", "loss"})
    map.optional(key);
}

void check_batch_of(Map& map, const Scenario& scenario) {
  try {
    check_batch(scenario.model, scenario.batch_per_gpu);
  } catch (const std::invalid_argument& wrong) {
    map.require("batch_per_gpu").fail(wrong.what(), "a larger batch, or a larger image");
  }
}

}  // namespace

CostChoice read_model_section(const Value& value, Scenario& scenario, ProfileLibrary& library) {
  if (value.is_scalar())
    value.mistake(fmt::format("expected a map; got \"{}\"", value.shown()),
                  fmt::format("write {{use: {}, batch_per_gpu: 1}}", value.shown()));
  Map map = value.as_map();
  CostChoice choice;
  bool has_model = true;
  const auto read_batch = [&] {
    scenario.batch_per_gpu = map.require("batch_per_gpu").as_integer(1, kLargestBatch);
  };
  if (const std::optional<Value> use = naming_key(map)) {
    has_model = read_part(
        [&] { scenario.model = read_architecture(*use, map, scenario); });
    const bool has_batch = read_part(read_batch);
    read_part([&] { check_batch_of(map, scenario); }, has_model && has_batch);
    scenario.precision = read_precision(map);
    const auto adapt_model = [&] {
      scenario.model = read_adaptation(map, std::move(scenario.model), scenario.precision,
                                       scenario.assumptions, scenario.adaptation);
    };
    has_model = has_model && read_part(adapt_model);
    const auto pack = [&] {
      scenario.model = read_packing(map.require("sequence"), std::move(scenario.model));
    };
    if (has_model && map.has("sequence") && map.require("sequence").is_map())
      has_model = read_part(pack);
    if (const auto compile = map.optional("compile"); has_model && compile && compile->as_bool())
      scenario.model = compiled(std::move(scenario.model));
    read_part([&] { choice = read_cost_choice(map, scenario, library); }, has_model);
    if (!has_model) leave_shape(map);
  } else if (const std::optional<Value> profile = map.optional("profile")) {
    choice = read_profiled_model(*profile, map, scenario, library);
    read_batch();
  } else {
    expect(map, {"name", "batch_per_gpu", "optimizer_time", "units"},
           "`use: NAME` takes a built-in network (`rehearse list models`)");
    scenario.model = read_inline_model(map);
    read_batch();
    scenario.precision = read_precision(map);
    if (const auto at = map.optional("measured_at"))
      choice.given_at = read_given_at(*at, map, scenario);
  }
  if (has_model) {
    read_checkpointing(map, scenario);
  } else {
    map.optional("activation_checkpointing");
  }
  map.finish();
  return choice;
}

}  // namespace rehearse
