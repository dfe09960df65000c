#include "planner/typed_question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <system_error>

#include "base/error.hpp"
#include "config/draft.hpp"
#include "config/files_read.hpp"
#include "model/model.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline planner {
namespace {

/// What messages call a question that has no file.
const char* const kScenarioName = "command line";
const char* const kPlanName = "command line plan";

/// Of a step, where a plan over layouts does not say: sequences for every GPU until there are as
/// many tokens. What models of 7 to 70 billion parameters are trained with (Touvron et al. 2023,
/// arXiv:2307.09288).
constexpr std::int64_t kUsualTokens = 4 << 20;
/// Tokens from which a sample may be shared by several ranks.
constexpr std::int64_t kLongSequence = 16384;
/// Samples per GPU that a plan tries.
const char* const kBatches = "[1, 2, 4, 8, 16]";

constexpr std::string_view kCaptured = ".model.json", kHub = "hf:";

void put_model(const std::string& model, Draft& scenario) {
  if (model.ends_with(kCaptured)) {
    scenario.set("model.captured", model);
    return;
  }
  if (model.starts_with(kHub)) {
    scenario.set("model.hf", model.substr(kHub.size()));
    return;
  }
  const auto& built_in = architecture_names();
  std::error_code ignored;
  const bool is_file = std::ranges::find(built_in, model) == built_in.end() &&
                       (std::filesystem::exists(model, ignored) || model.ends_with(".json") ||
                        model.find('/') != std::string::npos);
  scenario.set(is_file ? "model.hf" : "model.use", model);
}

/// Frameworks that a plan compares: "torch, megatron".
bool is_several(const std::string& frameworks) { return frameworks.find(',') != std::string::npos; }

bool is_written_out(const std::string& on) { return on.starts_with('{') && on.ends_with('}'); }

bool is_cluster(const std::string& name) {
  const std::vector<std::string> names = cluster_names();
  return std::ranges::find(names, name) != names.end();
}

/// "4xaws_p5" is four nodes of aws_p5, and "aws_p5" one; {nodes: 1, ...} is a cluster's own keys.
Draft cluster_of(const std::string& on, const std::string& option) {
  if (is_written_out(on)) return Draft::parsed(on, option);
  if (on.find_first_of("[]{}:,") != std::string::npos)
    throw InputError(fmt::format(
        "{}: error: expected a cluster, so many nodes of it, or a map of keys; got \"{}\"\n"
        "remedy: {} 4xaws_p5, or {} '{{use: aws_p5, nodes: 4}}'; rehearse list clusters names them",
        option, on, option, option));
  const std::size_t digits =
      std::ranges::find_if_not(on, [](unsigned char c) { return std::isdigit(c) != 0; }) -
      on.begin();
  // "4aws_p5" is four nodes without their "x" where what follows is a cluster, and it is none.
  if (digits > 0 && digits < on.size() && on[digits] != 'x' && is_cluster(on.substr(digits)) &&
      !is_cluster(on))
    throw InputError(
        fmt::format("{}: error: expected a cluster, or so many nodes of it; got \"{}\"\n"
                    "remedy: {} {}x{}",
                    option, on, option, on.substr(0, digits), on.substr(digits)));
  if (digits == 0 || digits >= on.size() || on[digits] != 'x') return Draft::map({{"use", on}});
  return Draft::map({{"use", on.substr(digits + 1)}, {"nodes", on.substr(0, digits)}});
}

/// How a framework shards where nobody says it: FSDP1, or what that framework has in its place.
std::string strategy_of(const TypedQuestion& question) {
  static const std::map<std::string, std::string> kOfFrameworks = {
      {"torchtitan", "fsdp2"},
      {"megatron", "zero: {stage: 1}"},
      {"deepspeed", "zero: {stage: 3}"},
      {"horovod", "ddp"},
      {"tensorflow", "ddp"},
      {"mxnet", "ddp"},
      {"byteps", "ddp"},
      {"bytescheduler", "ddp"}};
  if (!question.strategy.empty()) return question.strategy;
  const auto found = kOfFrameworks.find(question.framework);
  return found == kOfFrameworks.end() ? "fsdp" : found->second;
}

/// "fsdp", "zero: {stage: 1}" or a whole map.
Draft drafted_strategy(const std::string& strategy) {
  if (strategy.find('{') == std::string::npos) return Draft::map({{strategy, Draft::map()}});
  return Draft::parsed(strategy.starts_with('{') ? strategy : "{" + strategy + "}", "--strategy");
}

std::string scenario_text(const TypedQuestion& question) {
  Draft scenario;
  if (!question.framework.empty() && !is_several(question.framework))
    scenario.set("framework", question.framework);
  put_model(question.model, scenario);
  if (!question.sequence.empty()) scenario.set("model.sequence", question.sequence);
  scenario.set("model.batch_per_gpu", question.batch);
  if (!question.precision.empty())
    scenario.set("model.precision", question.precision);
  else if (!question.model.ends_with(kCaptured))
    scenario.set("model.precision", "bf16_master");
  scenario.set("cluster", cluster_of(question.on, "--on"))
      .set("strategy", drafted_strategy(strategy_of(question)))
      .set("optimizer.adamw", Draft::map());
  if (!question.tokens.empty()) scenario.set("train.tokens", question.tokens);
  return scenario.block();
}

/// What a search over layouts needs to know of the scenario; nothing where it is none for layouts,
/// or wrong, which its reader says later.
struct LayoutQuestion {
  std::int64_t sequences = 0;  ///< of a step
  bool long_sequences = false;
  bool experts = false;

  /// With experts there are as many more layouts, so that other axes are left out.
  std::vector<std::string> axes() const {
    std::vector<std::string> names = {"sharding", "tensor", "pipeline"};
    if (long_sequences) names.emplace_back("context");
    if (experts)
      names.emplace_back("expert");
    else
      names.insert(names.end(), {"virtual_stages", "recompute"});
    names.insert(names.end(), {"micro_batch", "compile"});
    return names;
  }
};
std::optional<LayoutQuestion> layout_question(const TypedQuestion& question) {
  try {
    const Scenario scenario =
        read_scenario(*Document::parse(scenario_text(question), kScenarioName));
    const auto gpus = static_cast<std::int64_t>(scenario.cluster.gpu_count());
    const std::int64_t tokens = scenario.model.tokens_per_sample;
    if (!scenario.transformer || gpus < 2 || tokens < 1) return std::nullopt;
    const std::int64_t each = (kUsualTokens + gpus * tokens - 1) / (gpus * tokens);
    return LayoutQuestion{.sequences = each * gpus,
                          .long_sequences = tokens > kLongSequence,
                          .experts = scenario.transformer->experts.has_value()};
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// What a search over layouts sets in the scenario: the batch that it holds, and one step of each.
std::vector<std::string> layout_overrides(const TypedQuestion& question,
                                          const LayoutQuestion& layouts) {
  const std::string batch =
      question.global_batch.empty() ? std::to_string(layouts.sequences) : question.global_batch;
  return {fmt::format("train.global_batch={{sequences: {}}}", batch), "run.steps=1",
          "run.warmup_steps=1"};
}

/// As `rehearse run` takes it.
std::vector<std::string> words_of(const TypedQuestion& question) {
  std::vector<std::string> words = {"--model", question.model, "--on", question.on};
  const auto add = [&](const char* option, const std::string& value, const std::string& usual) {
    if (value != usual) words.insert(words.end(), {option, value});
  };
  const TypedQuestion usual;
  add("--sequence", question.sequence, usual.sequence);
  add("--tokens", question.tokens, usual.tokens);
  add("--precision", question.precision, usual.precision);
  if (!is_several(question.framework)) add("--framework", question.framework, usual.framework);
  return words;
}

/// Where each candidate's step has as many samples, the least time is the highest throughput, even
/// if nobody says how long the training is.
std::string objective_of(const TypedQuestion& question, bool layouts) {
  const bool endless = question.tokens.empty() && !question.equal_loss;
  if (question.objective.empty()) return endless ? "throughput" : "time";
  return layouts && endless && question.objective == "time" ? "throughput" : question.objective;
}

/// The question in words: "llama_3_8b on 4xaws_p5, 15B tokens: the best time".
std::string description_of(const TypedQuestion& question, const std::string& objective) {
  return fmt::format("{} on {}{}: the best {}", question.model,
                     is_written_out(question.on) ? "the machines given" : question.on,
                     question.tokens.empty() ? "" : ", " + question.tokens + " tokens", objective);
}

std::string plan_text(const TypedQuestion& question, const std::optional<LayoutQuestion>& layouts) {
  const std::string objective = objective_of(question, layouts.has_value());
  Draft plan;
  plan.set("description", description_of(question, objective)).set("scenario", kScenarioName);
  if (layouts) {
    plan.set("search.parallelism", Draft::list_of(layouts->axes()));
  } else {
    plan.at("vary").entry("model.batch_per_gpu", Draft::parsed(kBatches, "batches"));
    plan.set("search.strategies", Draft::list({"ddp", "zero", "fsdp"}))
        .set("search.options", Draft::list({"sharding", "prefetch", "checkpointing"}));
  }
  if (is_several(question.framework))
    plan.set("search.framework", Draft::parsed("[" + question.framework + "]", "--framework"));
  plan.set("constraints.memory", question.fits);
  if (!question.deadline.empty()) plan.set("constraints.deadline", question.deadline);
  if (!question.budget.empty()) plan.set("constraints.budget_usd", question.budget);
  plan.set("objective", objective);
  return plan.block();
}

void keep(const char* name, std::string text) { FilesKept::current()->keep(name, std::move(text)); }

}  // namespace

std::filesystem::path kept_scenario(const TypedQuestion& question) {
  keep(kScenarioName, scenario_text(question));
  return kScenarioName;
}

Cluster typed_cluster(const std::string& on, const std::string& option) {
  return read_cluster(Document::parse(cluster_of(on, option).flow(), option)->root());
}

std::string name_of(const TypedQuestion& question) {
  std::filesystem::path model = question.model;
  if (model.filename() == "config.json" || model.filename().empty()) model = model.parent_path();
  const std::string name = model.filename().string();
  return fmt::format("{}_on_{}", name.empty() ? "model" : name,
                     is_written_out(question.on)
                         ? "inline"
                         : std::filesystem::path(question.on).filename().string());
}

Plan typed_plan(const TypedQuestion& question, const std::vector<std::string>& overrides) {
  const std::optional<LayoutQuestion> layouts = layout_question(question);
  kept_scenario(question);
  keep(kPlanName, plan_text(question, layouts));
  std::vector<std::string> all;
  if (layouts) all = layout_overrides(question, *layouts);
  all.insert(all.end(), overrides.begin(), overrides.end());
  Plan plan = read_plan(kPlanName, all);
  plan.question = words_of(question);
  return plan;
}

}  // namespace rehearse::inline planner
