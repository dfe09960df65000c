#include <fmt/format.h>

#include "base/error.hpp"
#include "planner/constraints.hpp"
#include "planner/plan.hpp"
#include "scenario/file_kind.hpp"
#include "study/axes.hpp"

namespace rehearse {
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

}  // namespace

Plan read_plan(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  Plan plan;
  plan.file = Document::load(file);
  Map root = plan.file->root().as_map();
  check_kind(root, FileKind::plan);
  plan.objective = read_objective(root.require("objective"));
  plan.constraints = read_constraints(root.optional("constraints"));
  if (root.has("seeds")) {
    root.at_key("seeds").fail("a plan chooses among its points, and a seed is no choice",
                              "set run.seed in the scenario");
  }
  std::vector<Axis> searched;
  if (const auto search = root.optional("search")) searched = search_axes(*search);
  check_not_varied(searched, root.optional("vary"));
  plan.study = read_study(
      root,
      {.name = file.stem().string(), .overrides = overrides, .more_axes = std::move(searched)});
  root.finish();
  return plan;
}

}  // namespace rehearse
