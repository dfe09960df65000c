#include <fmt/format.h>

#include <functional>
#include <set>

#include "base/error.hpp"
#include "config/mistakes.hpp"
#include "framework/framework.hpp"
#include "planner/constraints.hpp"
#include "planner/layouts/layout_space.hpp"
#include "planner/plan.hpp"
#include "scenario/file_kind.hpp"
#include "scenario/scenario.hpp"
#include "study/axes.hpp"

namespace rehearse::inline planner {
namespace {

/// What is searched cannot be varied, too.
void check_not_varied(const std::vector<Axis>& searched, const std::optional<Value>& vary) {
  if (!vary) return;
  const Map axes = vary->as_map();
  for (const Axis& axis : searched) {
    if (!axes.has(axis.name)) continue;
    axes.at_key(axis.name).fail("search tries this already", "let either vary or search choose it");
  }
}

/// What a search over layouts leaves to it, or has a word of its own for. `frameworks`: of those
/// that it compares.
std::optional<Value> parallelism_of(const std::optional<Value>& search,
                                    std::optional<Value>& frameworks) {
  if (!search || !search->is_map() || !search->as_map().has("parallelism")) return std::nullopt;
  Map map = search->as_map();
  for (const char* other : {"strategies", "options"})
    if (map.has(other))
      map.at_key(other).fail("a search over layouts chooses by parallelism alone",
                             "parallelism: [sharding, recompute, ...], without it");
  const Value parallelism = map.require("parallelism");
  frameworks = map.optional("framework");
  map.finish();
  return parallelism;
}

/// Whose code trains in some point; a scenario that cannot be read says so itself.
std::vector<std::string> frameworks_of(const Study& study) {
  std::set<std::string> names;
  for (const Point& point : study.points) {
    Map root = scenario_at(study, point)->root().as_map();
    const std::optional<Value> strategy = root.optional("strategy");
    names.insert(framework_name(root, strategy));
  }
  return {names.begin(), names.end()};
}

/// The reader's message about a scenario; "" of one that can be read.
std::string complaint(const std::function<std::shared_ptr<const Document>()>& scenario) {
  try {
    const FirstMistake only;
    read_scenario(*scenario());
    return "";
  } catch (const Error& wrong) {
    return wrong.what();
  }
}

Plan read_whole(const std::shared_ptr<const Document>& file, StudyFrame frame) {
  Plan plan;
  plan.file = file;
  Map root = file->root().as_map();
  check_kind(root, FileKind::plan);
  const Value objective = root.require("objective");
  const auto constraints = root.optional("constraints"), search = root.optional("search");
  read_part([&] { plan.objective = read_objective(objective); });
  read_part([&] { plan.constraints = read_constraints(constraints); });
  if (root.has("seeds")) {
    root.optional("seeds");
    root.at_key("seeds").mistake("a plan chooses among its points, and a seed is no choice",
                                 "set run.seed in the scenario");
  }
  frame.needs_vary = !search;
  std::optional<Value> parallelism, frameworks;
  const bool has_search = read_part([&] {
    parallelism = parallelism_of(search, frameworks);
    if (search && !parallelism) frame.more_axes = search_axes(*search);
    check_not_varied(frame.more_axes, root.optional("vary"));
  });
  if (!has_search) frame.more_axes.clear();
  plan.overrides = frame.overrides;
  plan.study = read_study(root, std::move(frame));
  if (plan.study.base) plan.question = {plan.study.base->name()};
  if (const auto scenario = root.optional("scenario"); scenario && scenario->is_map()) {
    plan.question = {"-"};
    plan.input = flow_text(*scenario);
  }
  root.finish();
  plan.layouts = parallelism.has_value();
  if (plan.layouts && plan.study.base && !plan.study.points.empty())
    read_part([&] { add_layouts(plan, *parallelism, frameworks); });
  if (plan.study.base && !plan.layouts)
    read_part([&] {
      plan.frameworks = frameworks_of(plan.study);
      plan.framework_assumed =
          plan.frameworks.size() == 1 && !plan.study.base->root().as_map().has("framework");
    });
  return plan;
}

}  // namespace

Plan read_plan(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  const auto document = Document::load(file);
  return read_with_all_mistakes([&] {
    return read_whole(document,
                      {.name = file.stem().string(), .overrides = overrides, .more_axes = {}});
  });
}

void refuse_common_mistake(const Plan& plan) {
  const Study& study = plan.study;
  if (!study.base || study.points.empty()) return;
  const std::string wrong = complaint([&] { return study.base; });
  if (wrong.empty()) return;
  for (const Point* point : {&study.points.front(), &study.points.back()})
    if (complaint([&] { return scenario_at(study, *point); }) != wrong) return;
  read_scenario(*study.base);
}

}  // namespace rehearse::inline planner
