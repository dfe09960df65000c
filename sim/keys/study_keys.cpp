#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/framework.hpp"
#include "keys/keys.hpp"

namespace rehearse::inline keys {
namespace {

constexpr const char* kStudy = "sim/study/read_study.cpp sim/study/axes.cpp";
constexpr const char* kPlan =
    "sim/planner/read_plan.cpp sim/planner/constraints.cpp sim/planner/search_axes.cpp";

}  // namespace

std::vector<KeySection> study_keys() {
  const std::string frameworks = fmt::format("list of {}", fmt::join(framework_names(), " | "));
  return {
      {"study/", "A study (`rehearse sweep`)", "Rehearse", kStudy,
       {{"description", "text", "\"\"", "Shown above the table."},
        {"scenario", "text (file) or map", "required", "The scenario: its file, from where the study stands, or itself."},
        {"vary", "map", "required", "Axes by a key of the scenario, the last one fastest."},
        {"vary.KEY", "list or map", "-", "Values of this key, or one of the forms below."},
        {"vary.KEY.values", "list", "-", "Values of the key that the axis is named after."},
        {"vary.KEY.zip", "map", "-", "Keys that change together, each with its values."},
        {"vary.KEY.labels", "list of text", "(the values)", "Names of the values in tables."},
        {"only", "list of map", "-", "Points to keep: by axis, a label or a list of labels."},
        {"exclude", "list of map", "-", "Points to leave out."},
        {"seeds", "integer >= 1", "-", "One more axis: run.seed from 1 to this."}}},

      {"plan/", "A plan (`rehearse plan`)", "Rehearse", kPlan,
       {{"description", "as study/description", "\"\"", "Shown above the answer."},
        {"scenario", "as study/scenario", "required", "The scenario."},
        {"vary", "as study/vary", "-", "What may be chosen; as in a study."},
        {"only", "as study/only", "-", "As in a study."},
        {"exclude", "as study/exclude", "-", "As in a study."},
        {"seeds", "as study/seeds", "-", "Refused: a seed is no choice."},
        {"objective", "time | cost | throughput | energy | co2 or map", "required",
         "What is to be best."},
        {"objective.pareto", "list of time | cost | throughput | energy | co2", "-",
         "Two or more objectives: their Pareto front."},
        {"search", "map", "-", "What the planner tries on its own."},
        {"search.strategies", "all or list of a name", "-", "Strategies to try."},
        {"search.options", "auto | all or list of a name", "auto",
         "Options to try: `auto` leaves a training's numbers as they are."},
        {"search.parallelism",
         "list of sharding | tensor | pipeline | context | expert | virtual_stages | micro_batch | "
         "recompute | compile",
         "-", "Layouts to try, in the place of strategies; the global batch is held."},
        {"search.framework", frameworks.c_str(),
         "(the scenario's, else megatron)", "Beside parallelism: whose layouts are compared."},
        {"constraints", "map", "memory: fits", "What must hold."},
        {"constraints.memory", "size (or `fits`) or text", "-",
         "At most so much; or what fits; or how sure that is to be, from 50% on."},
        {"constraints.gpus", "integer >= 1", "-", "At most so many GPUs."},
        {"constraints.global_batch", "integer >= 1 (samples) or map", "-", "Samples of a step."},
        {"constraints.global_batch.min", "integer >= 1 (samples)", "-", "At least."},
        {"constraints.global_batch.max", "integer >= 1 (samples)", "-", "At most."},
        {"constraints.deadline", "time", "-", "Time to train at most."},
        {"constraints.budget_usd", "number > 0 (USD)", "-", "Cost at most."},
        {"constraints.energy_kwh", "number > 0 (kWh)", "-", "Energy at most."},
        {"constraints.co2_kg", "number > 0 (kg)", "-", "CO2 at most."},
        {"constraints.samples_per_s", "number > 0 (1/s)", "-", "Throughput at least."},
        {"constraints.accuracy", "number (share)", "-", "Accuracy at least."}}}};
}

}  // namespace rehearse::inline keys
