#include "planner/layouts/layout_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/layout_rules.hpp"
#include "model/recorded/recorded.hpp"
#include "model/stages.hpp"
#include "scenario/sections.hpp"
#include "scenario/token_keys.hpp"

namespace rehearse::inline planner {
namespace {

std::vector<int> divisors(std::int64_t number, std::int64_t most) {
  std::vector<int> all;
  for (std::int64_t i = 1; i <= std::min(number, most); ++i)
    if (number % i == 0) all.push_back(static_cast<int>(i));
  return all;
}

std::optional<Value> inner(const Value& value, const std::string& key) {
  if (!value.is_map()) return std::nullopt;
  return value.as_map().optional(key);
}

int degree_of(const Value& strategy, const char* key) {
  const std::optional<Value> value = inner(strategy, key);
  if (!value) return 1;
  const std::optional<Value> degree = value->is_map() ? inner(*value, "degree") : value;
  return degree ? static_cast<int>(degree->as_integer(1, 1'000'000)) : 1;
}

/// What the scenario's strategy says of its pipeline.
void read_pipeline(const Value& strategy, LayoutFacts& facts) {
  const std::optional<Value> pipeline = inner(strategy, "pipeline");
  if (!pipeline) return;
  const std::optional<Value> split = inner(*pipeline, "split");
  facts.even_split = !split || (split->is_scalar() && split->as_string() == "even");
  const auto& names = pipeline_schedule_names();
  if (const auto schedule = inner(*pipeline, "schedule")) {
    const auto found = std::ranges::find(names, schedule->as_choice(names));
    facts.schedule = static_cast<PipelineSchedule>(found - names.begin());
  }
  const auto stages = inner(*pipeline, "virtual_stages");
  at(facts.fixed, LayoutAxis::virtual_stages) =
      stages ? static_cast<int>(stages->as_integer(1, 10'000)) : usual_chunks(facts.schedule);
}

}  // namespace

LayoutFacts layout_facts(const Document& document, const Value& parallelism) {
  Map root = document.root().as_map();
  Scenario scenario;
  scenario.file = document.name();
  ProfileLibrary library;
  Framework framework = read_framework(root, root.require("strategy"));
  read_model_section(root.require("model"), framework, scenario, library);
  scenario.cluster = read_cluster(root.require("cluster"));
  const Value strategy = root.require("strategy");
  const bool recorded = !scenario.transformer && recorded::is_profiled(scenario.model);
  if (!scenario.transformer && !recorded)
    parallelism.fail(
        fmt::format("no share of {}'s layers is known: it is no decoder", scenario.model.name),
        "name strategies");
  LayoutFacts facts{.transformer = scenario.transformer.value_or(TransformerShape{}),
                    .tokens = scenario.model.tokens_per_sample,
                    .gpus = static_cast<int>(scenario.cluster.gpu_count())};
  if (recorded) {
    facts.transformer.layers = static_cast<std::int64_t>(counted_units(scenario.model).size());
    facts.recorded = scenario.model;
  } else {
    facts.fused_attention = fuses_attention(*scenario.transformer, scenario.shape);
  }
  const auto train = root.optional("train");
  const auto batch = train ? global_batch_of(*train, scenario) : std::nullopt;
  if (!batch)
    parallelism.fail(
        "a search over layouts holds the global batch",
        fmt::format("say it in {}: train: {{global_batch: {{sequences: 512}}}}", document.name()));
  facts.global_batch = *batch;
  for (const NodeGroup& group : scenario.cluster.groups) {
    if (group.node.gpus == 0) continue;
    facts.node_gpus = std::max(facts.node_gpus, group.node.gpus);
    if (group.node.nvlink) facts.nvlink_domain = group.node.gpus;
  }
  facts.fixed.fill(1);
  const bool fsdp = inner(strategy, "fsdp") || inner(strategy, "fsdp2");
  at(facts.fixed, LayoutAxis::sharding) = fsdp ? kFsdp : 0;
  at(facts.fixed, LayoutAxis::compile) = 0;
  at(facts.fixed, LayoutAxis::tensor) = degree_of(strategy, "tensor_parallel");
  at(facts.fixed, LayoutAxis::pipeline) = degree_of(strategy, "pipeline_parallel");
  at(facts.fixed, LayoutAxis::context) = degree_of(strategy, "context_parallel");
  at(facts.fixed, LayoutAxis::expert) = degree_of(strategy, "expert_parallel");
  if (inner(strategy, "expert_tensor_parallel"))
    facts.expert_tensor = degree_of(strategy, "expert_tensor_parallel");
  at(facts.fixed, LayoutAxis::micro_batch) = static_cast<int>(scenario.batch_per_gpu);
  read_pipeline(strategy, facts);
  return facts;
}

namespace {

/// By framework, one of framework_names(): what it has of layout_shardings(). Those that are like
/// PyTorch have PyTorch's.
std::vector<int> shardings_of(int framework) {
  static const std::map<std::string, std::vector<int>> all = {
      {"torchtitan", {0, 3}}, {"megatron", {0, 1, 3}}, {"deepspeed", {1, 4, 5}}};
  const auto found = all.find(framework_names().at(static_cast<std::size_t>(framework)));
  return found == all.end() ? std::vector<int>{0, 1, 2} : found->second;
}

/// Why a recorded network cannot be laid out so; empty: it can.
std::string broken_rule_of_record(const LayoutDegreesOf& degrees, const LayoutFacts& facts) {
  const int tensor = at(degrees, LayoutAxis::tensor), pipeline = at(degrees, LayoutAxis::pipeline);
  if (at(degrees, LayoutAxis::context) > 1 || at(degrees, LayoutAxis::expert) > 1)
    return "a record tells no shares by tokens or experts";
  if (facts.gpus % (tensor * pipeline) != 0) return "ranks do not divide the GPUs";
  std::string why_not;
  split_into_stages(*facts.recorded,
                    static_cast<std::size_t>(pipeline) *
                        static_cast<std::size_t>(at(degrees, LayoutAxis::virtual_stages)),
                    {}, why_not);
  if (tensor == 1 || !why_not.empty()) return why_not;
  try {
    recorded::rank_of(*facts.recorded, tensor);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

const std::vector<LayoutSharding>& layout_shardings() {
  static const std::vector<LayoutSharding> all = {{"ddp", "ddp", {}},
                                                  {"zero", "zero", Draft::map({{"stage", 1}})},
                                                  {"fsdp", "fsdp", {}},
                                                  {"fsdp2", "fsdp2", {}},
                                                  {"zero 2", "zero", Draft::map({{"stage", 2}})},
                                                  {"zero 3", "zero", Draft::map({{"stage", 3}})}};
  return all;
}

std::vector<int> layout_choices(LayoutAxis axis, const LayoutFacts& facts,
                                const LayoutDegreesOf& degrees) {
  const TransformerShape& t = facts.transformer;
  switch (axis) {
    case LayoutAxis::framework:
      return facts.frameworks;
    case LayoutAxis::tensor:
      return divisors(facts.node_gpus, facts.node_gpus);
    case LayoutAxis::pipeline:
      return divisors(facts.gpus, t.layers);
    case LayoutAxis::context:
      return divisors(facts.gpus, std::max<std::int64_t>(1, facts.tokens / kLeastTokens));
    case LayoutAxis::expert:
      return t.experts ? divisors(t.experts->count, facts.gpus) : std::vector<int>{1};
    case LayoutAxis::virtual_stages:
      return divisors(t.layers, kMostVirtualStages);
    case LayoutAxis::micro_batch: {
      std::vector<int> sizes;
      for (int size = 1; size <= kMostSamples; size *= 2) sizes.push_back(size);
      return sizes;
    }
    case LayoutAxis::recompute:
    case LayoutAxis::compile:
      return {0, 1};
    case LayoutAxis::sharding:
      break;
  }
  return shardings_of(at(degrees, LayoutAxis::framework));
}

std::string broken_rule(const LayoutDegreesOf& degrees, const LayoutFacts& facts,
                        bool searches_stages, bool searches_experts) {
  const int tensor = at(degrees, LayoutAxis::tensor), context = at(degrees, LayoutAxis::context),
            pipeline = at(degrees, LayoutAxis::pipeline),
            stages = at(degrees, LayoutAxis::virtual_stages),
            expert = at(degrees, LayoutAxis::expert);
  if (at(degrees, LayoutAxis::compile) > 0 && at(degrees, LayoutAxis::framework) != kTorch)
    return "compile on or off is a choice with torch alone";
  const std::int64_t replica = std::int64_t{tensor} * context * pipeline;
  std::int64_t micro_batches = 0;
  if (facts.gpus % replica == 0) {
    const std::int64_t one = facts.gpus / replica * at(degrees, LayoutAxis::micro_batch);
    if (facts.global_batch % one != 0)
      return fmt::format("the global batch of {} is no whole number of micro-batches",
                         facts.global_batch);
    micro_batches = facts.global_batch / one;
  }
  const LayoutDegrees all{
      .model = {.tensor = tensor,
                .sequence_parallel = tensor > 1,
                .context = context,
                .expert = expert,
                .expert_tensor =
                    searches_experts && expert > 1 ? 1 : facts.expert_tensor.value_or(tensor)},
      .pipeline = pipeline,
      .virtual_stages = stages,
      .even_split = facts.even_split,
      .micro_batches = micro_batches,
      .tokens = facts.tokens,
      .fused_attention = facts.fused_attention,
      .gpus = facts.gpus,
      .nvlink_domain = facts.nvlink_domain};
  if (facts.recorded) {
    if (std::string rule = broken_rule_of_record(degrees, facts); !rule.empty()) return rule;
  } else {
    for (const LayoutFinding& found : layout_findings(facts.transformer, all))
      if (found.kind == LayoutFinding::Kind::refused) return found.rule;
  }
  if (pipeline == 1) return "";
  const bool interleaved = searches_stages && stages > 1;
  const PipelineSchedule schedule = interleaved ? PipelineSchedule::interleaved : facts.schedule;
  if (!illegal(schedule, pipeline, static_cast<int>(micro_batches), stages).empty())
    return fmt::format("schedule {} cannot run so",
                       pipeline_schedule_names()[static_cast<std::size_t>(schedule)]);
  return "";
}

}  // namespace rehearse::inline planner
