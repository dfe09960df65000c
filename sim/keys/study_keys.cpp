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
  return {
      {"study/", "A study (`rehearse sweep`)", "Rehearse", kStudy,
       {{"description", type::text(), "\"\"", "Shown above the table."},
        {"scenario", type::text("file") | type::map(), "required",
         "The scenario: its file, from where the study stands, or itself."},
        {"vary", type::map(), "required", "Axes by a key of the scenario, the last one fastest."},
        {"vary.KEY", type::list() | type::map(), "-",
         "Values of this key, or one of the forms below."},
        {"vary.KEY.values", type::list(), "-", "Values of the key that the axis is named after."},
        {"vary.KEY.zip", type::map(), "-", "Keys that change together, each with its values."},
        {"vary.KEY.labels", type::list_of(type::text()), "(the values)",
         "Names of the values in tables."},
        {"only", type::list_of(type::map()), "-",
         "Points to keep: by axis, a label or a list of labels."},
        {"exclude", type::list_of(type::map()), "-", "Points to leave out."},
        {"seeds", type::integer(1), "-", "One more axis: run.seed from 1 to this."}}},

      {"plan/", "A plan (`rehearse plan`)", "Rehearse", kPlan,
       {{"description", type::like("study/description"), "\"\"", "Shown above the answer."},
        {"scenario", type::like("study/scenario"), "required", "The scenario."},
        {"vary", type::like("study/vary"), "-", "What may be chosen; as in a study."},
        {"only", type::like("study/only"), "-", "As in a study."},
        {"exclude", type::like("study/exclude"), "-", "As in a study."},
        {"seeds", type::like("study/seeds"), "-", "Refused: a seed is no choice."},
        {"objective", type::choice({"time", "cost", "throughput", "energy", "co2"}) | type::map(),
         "required",
         "What is to be best."},
        {"objective.pareto", type::list_of(type::choice({"time", "cost", "throughput", "energy",
         "co2"})), "-",
         "Two or more objectives: their Pareto front."},
        {"search", type::map(), "-", "What the planner tries on its own."},
        {"search.strategies", type::choice({"all"}) | type::list_of(type::name()), "-",
         "Strategies to try."},
        {"search.options", type::choice({"auto", "all"}) | type::list_of(type::name()), "auto",
         "Options to try: `auto` leaves a training's numbers as they are."},
        {"search.parallelism",
         type::list_of(type::choice({"sharding", "tensor", "pipeline", "context", "expert",
          "virtual_stages", "micro_batch", "recompute", "compile"})),
         "-", "Layouts to try, in the place of strategies; the global batch is held."},
        {"search.framework", type::list_of(type::choice(framework_names())),
         "(the scenario's, else megatron)", "Beside parallelism: whose layouts are compared."},
        {"constraints", type::map(), "memory: fits", "What must hold."},
        {"constraints.memory", type::size().or_word("fits") | type::text(), "-",
         "At most so much; or what fits; or how sure that is to be, from 50% on."},
        {"constraints.gpus", type::integer(1), "-", "At most so many GPUs."},
        {"constraints.global_batch", type::integer(1).in("samples") | type::map(), "-",
         "Samples of a step."},
        {"constraints.global_batch.min", type::integer(1).in("samples"), "-", "At least."},
        {"constraints.global_batch.max", type::integer(1).in("samples"), "-", "At most."},
        {"constraints.deadline", type::time(), "-", "Time to train at most."},
        {"constraints.budget_usd", type::above(0).in("USD"), "-", "Cost at most."},
        {"constraints.energy_kwh", type::above(0).in("kWh"), "-", "Energy at most."},
        {"constraints.co2_kg", type::above(0).in("kg"), "-", "CO2 at most."},
        {"constraints.samples_per_s", type::above(0).in("1/s"), "-", "Throughput at least."},
        {"constraints.accuracy", type::number().in("share"), "-", "Accuracy at least."}}}};
}

}  // namespace rehearse::inline keys
