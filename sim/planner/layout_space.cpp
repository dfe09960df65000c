// The layouts that a plan tries: degrees by divisors, without those that break a rule.
#include "planner/layout_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "mesh/pipeline_order.hpp"
#include "planner/words.hpp"
#include "model/layout_rules.hpp"
#include "model/transformer.hpp"
#include "scenario/sections.hpp"
#include "scenario/token_keys.hpp"
#include "strategy/read_layout.hpp"
#include "study/axes.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kCount = 8;
constexpr const char* kNoBatch = "a search over layouts holds the global batch";

/// By LayoutAxis; recompute and sharding by their place in their lists.
using Degrees = std::array<int, kCount>;

int& at(Degrees& degrees, LayoutAxis axis) { return degrees[static_cast<std::size_t>(axis)]; }
int at(const Degrees& degrees, LayoutAxis axis) { return degrees[static_cast<std::size_t>(axis)]; }

const std::vector<std::string> kShardings = {"ddp", "zero", "fsdp"};
const std::vector<std::string> kRecomputes = {"none", "per_unit"};

/// What legality depends on, at one point of the study.
struct Facts {
  TransformerShape transformer;
  bool fused_attention = true;
  std::int64_t tokens = 0;
  std::int64_t global_batch = 0;
  int gpus = 0, node_gpus = 0, nvlink_domain = 0;
  Degrees fixed{};  ///< what the scenario has itself
  std::optional<int> expert_tensor{};
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  bool even_split = true;
};

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
void read_pipeline(const Value& strategy, Facts& facts) {
  const std::optional<Value> pipeline = inner(strategy, "pipeline");
  if (!pipeline) return;
  facts.even_split = !inner(*pipeline, "split");
  const auto& names = pipeline_schedule_names();
  if (const auto schedule = inner(*pipeline, "schedule")) {
    const auto found = std::ranges::find(names, schedule->as_choice(names));
    facts.schedule = static_cast<PipelineSchedule>(found - names.begin());
  }
  const auto stages = inner(*pipeline, "virtual_stages");
  at(facts.fixed, LayoutAxis::virtual_stages) =
      stages ? static_cast<int>(stages->as_integer(1, 10'000)) : usual_chunks(facts.schedule);
}

Facts facts_of(const Document& document, const Value& parallelism) {
  Map root = document.root().as_map();
  Scenario scenario;
  scenario.file = document.name();
  ProfileLibrary library;
  read_model_section(root.require("model"), scenario, library);
  scenario.cluster = read_cluster(root.require("cluster"));
  const Value strategy = root.require("strategy");
  if (!scenario.transformer)
    parallelism.fail(fmt::format("{} is no transformer, whose layers can be shared",
                                 scenario.model.name),
                     "name strategies");
  Facts facts{.transformer = *scenario.transformer,
              .fused_attention = scenario.shape.flash_attention,
              .tokens = scenario.model.tokens_per_sample,
              .gpus = static_cast<int>(scenario.cluster.gpu_count())};
  const auto train = root.optional("train");
  const auto batch = train ? global_batch_of(*train, scenario) : std::nullopt;
  if (!batch)
    parallelism.fail(kNoBatch, fmt::format("say it in {}: train: {{global_batch: {{sequences: "
                                           "512}}}}",
                                           document.name()));
  facts.global_batch = *batch;
  for (const NodeGroup& group : scenario.cluster.groups) {
    if (group.node.gpus == 0) continue;
    facts.node_gpus = std::max(facts.node_gpus, group.node.gpus);
    if (group.node.nvlink) facts.nvlink_domain = group.node.gpus;
  }
  facts.fixed.fill(1);
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

/// In the order in which they are tried.
std::vector<int> choices(LayoutAxis axis, const Facts& facts) {
  const TransformerShape& t = facts.transformer;
  switch (axis) {
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
      return {0, 1};
    case LayoutAxis::sharding:
      break;
  }
  return {0, 1, 2};
}

/// The rule that a layout breaks first; empty: it is legal.
/// `searches_stages`, `searches_experts`: virtual stages and experts are among the axes.
std::string broken_rule(const Degrees& degrees, const Facts& facts, bool searches_stages,
                        bool searches_experts) {
  const int tensor = at(degrees, LayoutAxis::tensor), context = at(degrees, LayoutAxis::context),
            pipeline = at(degrees, LayoutAxis::pipeline),
            stages = at(degrees, LayoutAxis::virtual_stages),
            expert = at(degrees, LayoutAxis::expert);
  const std::int64_t replica = std::int64_t{tensor} * context * pipeline;
  std::int64_t micro_batches = 0;
  if (facts.gpus % replica == 0) {
    const std::int64_t one = facts.gpus / replica * at(degrees, LayoutAxis::micro_batch);
    if (facts.global_batch % one != 0)
      return fmt::format("the global batch of {} is no whole number of micro-batches",
                         facts.global_batch);
    micro_batches = facts.global_batch / one;
  }
  const LayoutDegrees all{.model = {.tensor = tensor,
                                    .sequence_parallel = tensor > 1,
                                    .context = context,
                                    .expert = expert,
                                    .expert_tensor = searches_experts && expert > 1
                                                         ? 1
                                                         : facts.expert_tensor.value_or(tensor)},
                          .pipeline = pipeline,
                          .virtual_stages = stages,
                          .even_split = facts.even_split,
                          .micro_batches = micro_batches,
                          .tokens = facts.tokens,
                          .fused_attention = facts.fused_attention,
                          .gpus = facts.gpus,
                          .nvlink_domain = facts.nvlink_domain};
  for (const LayoutFinding& found : layout_findings(facts.transformer, all))
    if (found.kind == LayoutFinding::Kind::refused) return found.rule;
  if (pipeline == 1) return "";
  const bool interleaved = searches_stages && stages > 1;
  const PipelineSchedule schedule = interleaved ? PipelineSchedule::interleaved : facts.schedule;
  if (!illegal(schedule, pipeline, static_cast<int>(micro_batches), stages).empty())
    return fmt::format("schedule {} cannot run so",
                       pipeline_schedule_names()[static_cast<std::size_t>(schedule)]);
  return "";
}

/// The base's strategy with another kind of data parallelism.
std::string sharded(const Value& strategy, const std::string& kind) {
  const std::string plain = kind == "zero" ? "{stage: 1}" : "{}";
  std::string rest, options = plain;
  if (strategy.is_map()) {
    Map map = strategy.as_map();
    for (const std::string& key : map.keys()) {
      const std::string text = flow_text(map.require(key));
      const auto& kinds = strategy_names();
      const bool is_kind = std::ranges::find(kinds, key) != kinds.end();
      if (key == kind) options = text;
      if (!is_kind) rest += fmt::format(", {}: {}", key, text);
    }
  }
  return fmt::format("{{{}: {}{}}}", kind, options, rest);
}

/// A choice's values, in the order of the axis's keys; null leaves a key as it is.
std::string values_text(LayoutAxis axis, int degree, const Value& strategy) {
  switch (axis) {
    case LayoutAxis::tensor:
      return fmt::format("[{}, {}]", degree, degree > 1);
    case LayoutAxis::expert:
      return fmt::format("[{}, {}]", degree, degree > 1 ? "1" : "null");
    case LayoutAxis::virtual_stages:
      if (degree == 1) return "[null]";
      return fmt::format("[{{schedule: interleaved_1f1b, virtual_stages: {}}}]", degree);
    case LayoutAxis::recompute:
      return fmt::format("[{}]", kRecomputes[static_cast<std::size_t>(degree)]);
    case LayoutAxis::sharding:
      return fmt::format("[{}]", sharded(strategy, kShardings[static_cast<std::size_t>(degree)]));
    case LayoutAxis::pipeline:
    case LayoutAxis::context:
    case LayoutAxis::micro_batch:
      break;
  }
  return fmt::format("[{}]", degree);
}

std::string label(LayoutAxis axis, int degree) {
  if (axis == LayoutAxis::recompute) return kRecomputes[static_cast<std::size_t>(degree)];
  if (axis == LayoutAxis::sharding) return kShardings[static_cast<std::size_t>(degree)];
  return std::to_string(degree);
}

std::string keys_text(LayoutAxis axis) {
  static const std::array<const char*, kCount> keys = {
      "[strategy]",
      "[strategy.tensor_parallel, strategy.sequence_parallel]",
      "[strategy.pipeline_parallel]",
      "[strategy.context_parallel]",
      "[strategy.expert_parallel, strategy.expert_tensor_parallel]",
      "[strategy.pipeline]",
      "[model.batch_per_gpu]",
      "[model.activation_checkpointing]"};
  return keys[static_cast<std::size_t>(axis)];
}

Axis made_axis(LayoutAxis axis, const std::set<int>& degrees, const Value& strategy) {
  Axis made{.name = layout_axis_names()[static_cast<std::size_t>(axis)], .keys = {}, .choices = {}};
  made.searched = true;
  made.keys = Document::parse(keys_text(axis), "search")->root().as_list();
  for (const int degree : degrees) {
    const auto values = Document::parse(values_text(axis, degree, strategy), "search")->root();
    made.choices.push_back({.label = label(axis, degree), .values = values.as_list()});
  }
  return made;
}

class LayoutSpace {
 public:
  LayoutSpace(Plan& plan, const Value& parallelism) : plan_(plan), parallelism_(parallelism) {
    read_axes();
    check_apart_from_base();
  }

  void add() {
    for (const Point& point : plan_.study.points) search_at(point);
    if (found_.empty())
      parallelism_.fail("no layout is legal: " + illegal_text(plan_));
    std::vector<Point> points;
    for (std::size_t a = 0; a < axes_.size(); ++a)
      plan_.study.axes.push_back(made_axis(axes_[a], degrees_[a], strategy()));
    for (const auto& [point, layout] : found_) {
      points.push_back(point);
      for (std::size_t a = 0; a < axes_.size(); ++a)
        points.back().push_back(static_cast<std::size_t>(std::distance(
            degrees_[a].begin(), degrees_[a].find(at(layout, axes_[a])))));
    }
    plan_.study.points = std::move(points);
  }

 private:
  Value strategy() const { return plan_.study.base->root().as_map().require("strategy"); }

  void read_axes() {
    std::set<LayoutAxis> wanted;
    const auto& names = layout_axis_names();
    for (const Value& name : parallelism_.as_list()) {
      const auto which = std::ranges::find(names, name.as_choice(names)) - names.begin();
      if (!wanted.insert(static_cast<LayoutAxis>(which)).second)
        name.fail(fmt::format("\"{}\" stands here twice", name.shown()));
    }
    if (wanted.empty()) parallelism_.fail("no degrees to try", "name some, such as tensor");
    axes_.assign(wanted.begin(), wanted.end());
    degrees_.resize(axes_.size());
    for (const Axis& varied : plan_.study.axes)
      for (const Value& key : varied.keys) check_not_varied(key);
  }

  bool searches(LayoutAxis axis) const { return std::ranges::count(axes_, axis) > 0; }

  void check_not_varied(const Value& key) const {
    for (const LayoutAxis axis : axes_)
      for (const Value& own : Document::parse(keys_text(axis), "search")->root().as_list())
        if (overlap(key.shown(), own.shown()))
          key.fail("search tries this already", "let either vary or search choose it");
  }

  /// Where a key of the scenario would stay beside what is tried.
  void check_apart_from_base() const {
    const Value strategy = this->strategy();
    if (!strategy.is_map()) return;
    Map map = strategy.as_map();
    if (searches(LayoutAxis::virtual_stages) && map.has("pipeline"))
      map.at_key("pipeline").fail("a plan searches virtual_stages", "remove it");
    for (const char* key : {"micro_batches", "micro_batch_size"})
      if (map.has(key))
        map.at_key(key).fail("a search over layouts holds the global batch",
                             "remove it, and say train: {global_batch: {sequences: 512}}");
  }

  void search_at(const Point& point) {
    const Facts facts = facts_of(*scenario_at(plan_.study, point), parallelism_);
    try_axis(point, facts, facts.fixed, 0);
  }

  void try_axis(const Point& point, const Facts& facts, Degrees degrees, std::size_t axis) {
    if (axis < axes_.size()) {
      for (const int degree : choices(axes_[axis], facts)) {
        at(degrees, axes_[axis]) = degree;
        try_axis(point, facts, degrees, axis + 1);
      }
      return;
    }
    std::string rule = broken_rule(degrees, facts, searches(LayoutAxis::virtual_stages),
                                   searches(LayoutAxis::expert));
    if (!rule.empty()) {
      ++plan_.illegal[std::move(rule)];
      return;
    }
    for (std::size_t a = 0; a < axes_.size(); ++a) degrees_[a].insert(at(degrees, axes_[a]));
    found_.emplace_back(point, degrees);
  }

  Plan& plan_;
  const Value& parallelism_;
  std::vector<LayoutAxis> axes_;
  std::vector<std::set<int>> degrees_;  ///< by axis, those of legal layouts
  std::vector<std::pair<Point, Degrees>> found_;
};

}  // namespace

const std::vector<std::string>& layout_axis_names() {
  static const std::vector<std::string> names = {"sharding", "tensor",         "pipeline",
                                                 "context",  "expert",         "virtual_stages",
                                                 "micro_batch", "recompute"};
  return names;
}

void add_layouts(Plan& plan, const Value& parallelism) { LayoutSpace(plan, parallelism).add(); }

}  // namespace rehearse
