#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "config/mistakes.hpp"
#include "config/record_set.hpp"
#include "scenario/adaptation_keys.hpp"
#include "scenario/captured_model.hpp"
#include "scenario/limits.hpp"
#include "scenario/named_network.hpp"
#include "scenario/sections.hpp"

namespace rehearse::inline scenario {
namespace {

/// Where a framework's own modules fuse kernels, these are meant: Python calls each of them.
Compile fused_whole(const Framework& framework) {
  return framework.flag("compile.is_library") ? Compile::library : Compile::whole;
}

Compile read_compile(const Value& value, const Framework& framework) {
  const std::string word = value.as_choice({"true", "false", "blocks", "modules"});
  if (word == "false") return Compile::none;
  if (word == "true") return fused_whole(framework);
  return word == "blocks" ? Compile::blocks : Compile::modules;
}

Float8 read_float8(const Value& value) {
  return value.as_choice({"tensorwise", "rowwise"}) == "rowwise" ? Float8::rowwise
                                                                 : Float8::tensorwise;
}

constexpr const char* kExperts = "model.experts_implementation";
constexpr std::int64_t kMostParameters = 100'000'000'000'000;
constexpr std::int64_t kMostMicroBatches = 1'000'000;
constexpr std::size_t kMostUnits = 10'000;
constexpr std::int64_t kMostMeasuredGpus = 1'000'000;

Precision read_precision(Map& map) {
  return parse_precision(map.choice_or("precision", "fp32", precision_names()));
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
/// of. Its activations, given for that batch, are scaled to the scenario's. Without a precision
/// they are of the one that `model` says beside them, not of one that comes from elsewhere.
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

double samples_of_tokens(const Value& tokens, const Model& model) {
  if (model.tokens_per_sample == 0)
    tokens.fail(model.name + " takes images", "say samples_per_s instead");
  return tokens.as_positive_number() / static_cast<double>(model.tokens_per_sample);
}

/// Samples per second: of all GPUs as such or in tokens, of each in tokens or as a step's time.
void read_rate(Map& map, const Value& value, const Model& model, WholeStep& step) {
  const std::vector<std::string> rates = {"samples_per_s", "tokens_per_s", "tokens_per_s_per_gpu",
                                          "step_time"};
  const auto given =
      std::ranges::count_if(rates, [&](const std::string& key) { return map.has(key); });
  if (given != 1) {
    const std::string names = "samples_per_s, tokens_per_s, tokens_per_s_per_gpu and step_time";
    value.fail(given == 0 ? "one of " + names + " is missing" : names + " say the same thing",
               "give one of them, such as `measured: {samples_per_s: 580}`");
  }
  step.each = map.has("step_time") || map.has("tokens_per_s_per_gpu");
  if (map.has("samples_per_s")) {
    step.samples_per_s = map.require("samples_per_s").as_positive_number();
  } else if (map.has("step_time")) {
    const Value said = map.require("step_time");
    const Seconds time = said.as_seconds();
    if (time <= Seconds(0)) said.fail("a step takes time");
    step.samples_per_s = static_cast<double>(step.batch * step.micro_batches) / time.value();
  } else {
    step.samples_per_s =
        samples_of_tokens(map.require(step.each ? "tokens_per_s_per_gpu" : "tokens_per_s"), model);
  }
}

/// `measured: {samples_per_s: 580, gradient_accumulation: 256}`: what the cluster's GPUs train, or
/// so many `gpus`. The batch is the scenario's own where it is not said.
WholeStep read_whole_step(const Value& value, const Model& model, std::int64_t batch) {
  Map map = value.as_map();
  WholeStep step;
  step.batch =
      map.has("batch_per_gpu") ? map.integer_or("batch_per_gpu", batch, 1, kLargestBatch) : batch;
  step.micro_batches = map.integer_or("gradient_accumulation", 1, 1, kMostMicroBatches);
  step.gpus = map.has("gpus") ? map.require("gpus").as_integer(1, kMostMeasuredGpus) : 0;
  read_rate(map, value, model, step);
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
    choice.transfer_from = read_transfer_folder(
        *from, profile_subject(scenario.model, computed_in(scenario.precision)), library);
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
                              to_string(scenario.precision), asked->shown()),
                  "leave it out");
    }
  } else {
    scenario.assumptions.push_back("model.precision = " + to_string(scenario.precision));
  }
  if (scenario.model.parameters() == 0)
    scenario.assumptions.emplace_back(
        "model.profile: it has no parameters: its times alone are played, and nothing is "
        "exchanged");
  return {.transfer_from = {}, .profile = stored};
}

/// As Hugging Face's `experts_implementation`; before the network is built.
void read_experts_implementation(Map& map, const Framework& framework, Scenario& scenario) {
  scenario.shape.grouped_experts = framework.word(kExperts) == "grouped_mm";
  scenario.shape.weighs_activation = framework.flag("experts.weights_in_activation");
  if (!map.has("experts_implementation")) return;
  const Value value = map.require("experts_implementation");
  const std::string name = value.as_choice({"grouped_mm", "sequential", "eager"});
  scenario.shape.grouped_experts = name == "grouped_mm";
  scenario.shape.eager_experts = name == "eager";
}

void check_experts_implementation(const Map& map, Framework& framework, const Scenario& scenario) {
  const bool has_experts = scenario.transformer && scenario.transformer->experts;
  if (!map.has("experts_implementation")) {
    if (has_experts) framework.note(kExperts);
    return;
  }
  if (has_experts) return;
  map.at_key("experts_implementation")
      .fail(scenario.model.name + " has no experts", "leave it out");
}

/// Kernels of transformers are fused as the framework's are: Megatron-LM has TransformerEngine's
/// norms, bias and activation, the rotary embedding. What was measured was what it was.
void apply_compile(Map& map, Framework& framework, Scenario& scenario) {
  if (const auto compile = map.optional("compile")) {
    scenario.model = compiled(std::move(scenario.model), read_compile(*compile, framework));
    return;
  }
  if (!scenario.transformer || map.has("measured") || map.has("transfer_from")) return;
  framework.note("model.compile");
  if (!framework.flag("model.compile")) return;
  scenario.model = compiled(std::move(scenario.model), fused_whole(framework));
  scenario.assumptions.push_back(
      fmt::format("model.compile = true: kernels are fused, as {}'s are", framework.title()));
}

/// Losses that are computed once more to be logged, in front of backward and without gradients:
/// each makes fp32 of the logits and takes their logarithmic softmax (torch.nn.CrossEntropyLoss
/// under autocast). What that needs of memory is not counted.
void add_train_metrics(const Value& value, Model& model) {
  const auto count = static_cast<double>(value.as_integer(0, 100));
  constexpr double kMoved = 3.5;  // of four bytes: 16 bits read, fp32 written, read and written
  const auto is_loss = [](const Operator& op) { return op.kind == OperatorKind::loss; };
  const auto is_product = [](const Operator& op) { return op.kind == OperatorKind::matmul; };
  for (Unit& unit : model.units) {
    const auto loss = std::ranges::find_if(unit.operators, is_loss);
    const auto head = std::ranges::find_if(unit.operators, is_product);
    if (loss == unit.operators.end() || head == unit.operators.end()) continue;
    const double logits = head->product.rows * head->product.columns;
    unit.operators.push_back({.kind = OperatorKind::loss,
                              .forward_elements = count * kMoved * logits,
                              .always_fp32 = true,
                              .library = true});
    return;
  }
  value.fail(model.name + " has no loss over logits", "leave it out");
}

/// Of a model that could not be read, what belongs to its shape is not judged.
void leave_shape(Map& map) {
  for (const char* key : {"classes",
                          "image",
                          "sequence",
                          "attention",
                          "fused_softmax",
                          "embedding_dtype",
                          "num_layers_at_start_in_bf16",
                          "num_layers_at_end_in_bf16",
                          "channels_last",
                          "cudnn_benchmark",
                          "frozen",
                          "lora",
                          "quantization",
                          "float8",
                          "compile",
                          "loss",
                          "train_metrics",
                          "experts_implementation",
                          "activation_offload",
                          "activation_checkpointing",
                          "layers",
                          "hidden_size",
                          "heads",
                          "kv_heads",
                          "head_dim",
                          "intermediate_size",
                          "vocab_size",
                          "experts"})
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

CostChoice read_model_section(const Value& value, Framework& framework, Scenario& scenario,
                              ProfileLibrary& library) {
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
    read_part([&] { read_experts_implementation(map, framework, scenario); });
    has_model =
        read_part([&] { scenario.model = read_architecture(*use, map, framework, scenario); });
    check_parts(has_model, [&] { check_experts_implementation(map, framework, scenario); });
    const bool has_batch = read_part(read_batch);
    check_parts(has_model && has_batch, [&] { check_batch_of(map, scenario); });
    scenario.precision = read_precision(map);
    const auto adapt_model = [&] {
      scenario.model = read_adaptation(map, std::move(scenario.model), scenario.precision,
                                       scenario.assumptions, scenario.adaptation,
                                       framework.find("model.transformer.fused_qkv") == "true");
    };
    has_model = has_model && read_part(adapt_model);
    const auto pack = [&] {
      scenario.model = read_packing(map.require("sequence"), std::move(scenario.model));
    };
    if (has_model && map.has("sequence") && map.require("sequence").is_map())
      has_model = read_part(pack);
    if (const auto float8 = map.optional("float8"); has_model && float8)
      read_part(
          [&] { scenario.model = with_float8(std::move(scenario.model), read_float8(*float8)); });
    if (const auto metrics = map.optional("train_metrics"); has_model && metrics)
      read_part([&] { add_train_metrics(*metrics, scenario.model); });
    if (has_model) read_part([&] { apply_compile(map, framework, scenario); });
    read_part([&] { choice = read_cost_choice(map, scenario, library); }, has_model);
    if (!has_model) leave_shape(map);
  } else if (const std::optional<Value> captured = map.optional("captured")) {
    has_model = read_part([&] { read_captured_model(*captured, map, scenario); });
    if (!has_model)
      for (const char* key : {"batch_per_gpu", "precision", "sequence"}) map.optional(key);
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
    read_checkpointing(map, framework, scenario);
  } else {
    map.optional("activation_checkpointing");
  }
  map.finish();
  return choice;
}

}  // namespace rehearse::inline scenario
