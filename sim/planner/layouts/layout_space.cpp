// The layouts that a plan tries: degrees by divisors, without those that break a rule.
#include "planner/layouts/layout_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "config/draft.hpp"
#include "planner/layouts/layout_facts.hpp"
#include "planner/words.hpp"
#include "strategy/strategy.hpp"
#include "study/axes.hpp"

namespace rehearse::inline planner {
namespace {

using Degrees = LayoutDegreesOf;

const std::vector<std::string> kRecomputes = {"none", "per_unit"};

/// The base's strategy with another kind of data parallelism.
Draft sharded(const Value& strategy, const LayoutSharding& sharding) {
  const std::string& kind = sharding.kind;
  Draft made = Draft::map({{kind, sharding.options}});
  if (!strategy.is_map()) return made;
  Map map = strategy.as_map();
  const auto& kinds = strategy_names();
  for (const std::string& key : map.keys()) {
    if (key == kind && sharding.name == kind) made.at(kind) = Draft::of(map.require(key));
    if (std::ranges::find(kinds, key) == kinds.end()) made.entry(key, Draft::of(map.require(key)));
  }
  return made;
}

/// A choice's values, in the order of the axis's keys; null leaves a key as it is. Tensor ranks
/// split tokens, too, where `splits_tokens`.
std::vector<Draft> values_of(LayoutAxis axis, int degree, const Value& strategy,
                             bool splits_tokens) {
  switch (axis) {
    case LayoutAxis::tensor:
      return {degree, degree > 1 && splits_tokens};
    case LayoutAxis::expert:
      return {degree, degree > 1 ? Draft(1) : Draft::null()};
    case LayoutAxis::virtual_stages:
      if (degree == 1) return {Draft::null()};
      return {Draft::map({{"schedule", "interleaved_1f1b"}, {"virtual_stages", degree}})};
    case LayoutAxis::recompute:
      return {kRecomputes[static_cast<std::size_t>(degree)]};
    case LayoutAxis::compile:
      return {degree > 0 ? Draft(true) : Draft::null()};
    case LayoutAxis::sharding:
      return {sharded(strategy, layout_shardings().at(degree))};
    case LayoutAxis::framework:
      return {framework_names().at(degree)};
    case LayoutAxis::pipeline:
    case LayoutAxis::context:
    case LayoutAxis::micro_batch:
      break;
  }
  return {degree};
}

std::string label(LayoutAxis axis, int degree) {
  if (axis == LayoutAxis::recompute) return kRecomputes[static_cast<std::size_t>(degree)];
  if (axis == LayoutAxis::sharding) return layout_shardings().at(degree).name;
  if (axis == LayoutAxis::framework) return framework_names().at(degree);
  if (axis == LayoutAxis::compile) return degree > 0 ? "true" : "-";
  return std::to_string(degree);
}

/// A list as a document has it.
std::vector<Value> listed(std::vector<Draft> items) {
  return Document::parse(Draft::list(std::move(items)).flow(), "search")->root().as_list();
}

std::vector<Value> keys_of(LayoutAxis axis) {
  static const std::array<std::vector<std::string>, kLayoutAxes> keys = {
      {{"framework"},
       {"strategy"},
       {"strategy.tensor_parallel", "strategy.sequence_parallel"},
       {"strategy.pipeline_parallel"},
       {"strategy.context_parallel"},
       {"strategy.expert_parallel", "strategy.expert_tensor_parallel"},
       {"strategy.pipeline"},
       {"model.batch_per_gpu"},
       {"model.activation_checkpointing"},
       {"model.compile"}}};
  const std::vector<std::string>& of = keys[static_cast<std::size_t>(axis)];
  return listed({of.begin(), of.end()});
}

Axis made_axis(LayoutAxis axis, const std::set<int>& degrees, const Value& strategy,
               bool splits_tokens) {
  Axis made{.name = layout_axis_names()[static_cast<std::size_t>(axis)], .keys = {}, .choices = {}};
  made.searched = true;
  made.keys = keys_of(axis);
  for (const int degree : degrees)
    made.choices.push_back({.label = label(axis, degree),
                            .values = listed(values_of(axis, degree, strategy, splits_tokens))});
  return made;
}

class LayoutSpace {
 public:
  LayoutSpace(Plan& plan, const Value& parallelism, const std::optional<Value>& frameworks)
      : plan_(plan), parallelism_(parallelism) {
    read_axes();
    read_frameworks(frameworks);
    check_apart_from_base();
  }

  void add() {
    for (const Point& point : plan_.study.points) search_at(point);
    if (found_.empty()) parallelism_.fail("no layout is legal: " + illegal_text(plan_));
    std::vector<Point> points;
    for (const auto& [place, framework] : frameworks_) plan_.frameworks.push_back(framework.name());
    for (std::size_t a = 0; a < axes_.size(); ++a)
      plan_.study.axes.push_back(made_axis(axes_[a], degrees_[a], strategy(), !recorded_));
    for (const auto& [point, layout] : found_) {
      points.push_back(point);
      for (std::size_t a = 0; a < axes_.size(); ++a)
        points.back().push_back(static_cast<std::size_t>(
            std::distance(degrees_[a].begin(), degrees_[a].find(at(layout, axes_[a])))));
    }
    plan_.study.points = std::move(points);
  }

 private:
  Value strategy() const { return plan_.study.base->root().as_map().require("strategy"); }

  void read_axes() {
    std::set<LayoutAxis> wanted;
    const auto& names = layout_axis_names();
    const std::vector<std::string> degrees(names.begin() + 1, names.end());
    for (const Value& name : parallelism_.as_list()) {
      const auto which = std::ranges::find(names, name.as_choice(degrees)) - names.begin();
      if (!wanted.insert(static_cast<LayoutAxis>(which)).second)
        name.fail(fmt::format("\"{}\" stands here twice", name.shown()));
    }
    if (wanted.empty()) parallelism_.fail("no degrees to try", "name some, such as tensor");
    axes_.assign(wanted.begin(), wanted.end());
    degrees_.resize(axes_.size());
    for (const Axis& varied : plan_.study.axes)
      for (const Value& key : varied.keys) check_not_varied(key);
  }

  /// Those of the list; else the one that the scenario says or its `vary`, or Megatron-LM, whose
  /// layouts they are.
  void read_frameworks(const std::optional<Value>& list) {
    const auto& names = framework_names();
    const auto take = [&](const std::string& name) {
      const Framework framework(Document::parse(name, "search")->root());
      frameworks_.emplace(static_cast<int>(std::ranges::find(names, name) - names.begin()),
                          framework);
    };
    Map base = plan_.study.base->root().as_map();
    if (list) {
      for (const Value& name : list->as_list()) take(name.as_choice(names));
    } else if (!base.has("framework")) {
      take("megatron");
      plan_.framework_assumed = true;
    } else {
      take(Framework(base.require("framework")).name());
      return;
    }
    axes_.insert(axes_.begin(), LayoutAxis::framework);
    degrees_.resize(axes_.size());
  }

  bool searches(LayoutAxis axis) const { return std::ranges::count(axes_, axis) > 0; }

  void check_not_varied(const Value& key) const {
    for (const LayoutAxis axis : axes_)
      for (const Value& own : keys_of(axis))
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
    LayoutFacts facts = layout_facts(*scenario_at(plan_.study, point), parallelism_);
    recorded_ = recorded_ || facts.recorded;
    for (const auto& [framework, data] : frameworks_) facts.frameworks.push_back(framework);
    at(facts.fixed, LayoutAxis::framework) = facts.frameworks.front();
    try_axis(point, facts, facts.fixed, 0);
  }

  void try_axis(const Point& point, const LayoutFacts& facts, Degrees degrees, std::size_t axis) {
    if (axis < axes_.size()) {
      for (const int degree : layout_choices(axes_[axis], facts, degrees)) {
        at(degrees, axes_[axis]) = degree;
        try_axis(point, facts, degrees, axis + 1);
      }
      return;
    }
    std::string rule = broken_rule(degrees, facts, searches(LayoutAxis::virtual_stages),
                                   searches(LayoutAxis::expert));
    if (rule.empty()) rule = framework_rule(degrees);
    if (!rule.empty()) {
      ++plan_.illegal[std::move(rule)];
      return;
    }
    for (std::size_t a = 0; a < axes_.size(); ++a) degrees_[a].insert(at(degrees, axes_[a]));
    found_.emplace_back(point, degrees);
  }

  /// What the framework does not have beside the degrees; empty: it has all.
  std::string framework_rule(const Degrees& degrees) const {
    const Value own = strategy();
    const int sharding = at(degrees, LayoutAxis::sharding);
    Draft whole;
    whole.set("strategy", searches(LayoutAxis::sharding)
                              ? sharded(own, layout_shardings().at(sharding))
                              : Draft::of(own));
    for (const LayoutAxis axis :
         {LayoutAxis::tensor, LayoutAxis::pipeline, LayoutAxis::context, LayoutAxis::expert})
      whole.set(keys_of(axis).front().as_string(), at(degrees, axis));
    return frameworks_.at(at(degrees, LayoutAxis::framework))
        .broken_rule(Document::parse(whole.flow(), "search")->root().as_map());
  }

  bool recorded_ = false;  ///< the network is a record's
  Plan& plan_;
  const Value& parallelism_;
  std::map<int, Framework> frameworks_;  ///< by framework_names()
  std::vector<LayoutAxis> axes_;
  std::vector<std::set<int>> degrees_;  ///< by axis, those of legal layouts
  std::vector<std::pair<Point, Degrees>> found_;
};

}  // namespace

const std::vector<std::string>& layout_axis_names() {
  static const std::vector<std::string> names = {
      "framework", "sharding",       "tensor",      "pipeline",  "context",
      "expert",    "virtual_stages", "micro_batch", "recompute", "compile"};
  return names;
}

void add_layouts(Plan& plan, const Value& parallelism, const std::optional<Value>& frameworks) {
  LayoutSpace(plan, parallelism, frameworks).add();
}

}  // namespace rehearse::inline planner
