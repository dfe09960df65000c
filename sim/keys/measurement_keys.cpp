#include "convergence/curve_keys.hpp"
#include "keys/keys.hpp"

namespace rehearse::inline keys {

std::vector<KeySection> measurement_keys() {
  return {
      {"curve/", "A curve of a training (JSON; `replay` and `step --curve` write it)", "measured",
       "src/convergence/curve.cpp",
       curve_keys()},

      {"cases/", "Measured cases (`rehearse validate`)", "Rehearse",
       "sim/validation/cases.cpp sim/validation/learned.cpp",
       {{"source", type::text(), "required", "Where the measurements come from."},
        {"calibrated", type::text(), "\"\"", "What the prediction was fitted to."},
        {"relation", type::choice({"never seen", "left out", "input"}), "never seen",
         "What the model's constants and the intervals' factors know of these rows."},
        {"takes_long", type::flag(), "false", "true: played where the set is named, not by `all`."},
        {"group", type::text(), "(the file's name)", "What is summed up together."},
        {"metrics", type::list_of(type::text()), "(all)", "Which of the recorded numbers count."},
        {"fits", type::map(), "-", "Fits of forecasts, by name, each a list of curves."},
        {"fits.NAME", type::list_of(type::text("files")), "-", "Curves of one fit."},
        {"cases", type::list_of(type::map()), "required", "The cases."},
        {"cases[].name", type::text(), "required", "Name."},
        {"cases[].scenario", type::text("file"), "required", "The scenario to predict."},
        {"cases[].runs", type::list_of(type::text()), "-",
         "Instead of `name`, `scenario`, `recorded` and `replay`: runs by the names of their records."},
        {"cases[].records", type::text("set or folder"), "-",
         "Where RUN.yaml, RUN.real.json and so on are; with `runs`."},
        {"cases[].set", type::list_of(type::text()), "-", "What differs: `cluster.nodes=8`."},
        {"cases[].metric", type::text(), "-", "Key of the JSON report that was published."},
        {"cases[].published", type::above(0) | type::map(), "-",
         "The published number, or several by their metrics."},
        {"cases[].published.NAME", type::above(0), "-", "The number of one metric."},
        {"cases[].published.memory.NAME", type::above(0).in("bytes"), "-", "Likewise, of memory."},
        {"cases[].fits", type::flag(), "-", "Whether it ran, or went out of memory."},
        {"cases[].recorded", type::text("file"), "-", "Or the recorded run."},
        {"cases[].group", type::text(), "(the file's)", "Group of this case."},
        {"cases[].rivals", type::text(), "-",
         "Cases of one name are a choice: their order is scored, too."},
        {"cases[].note", type::text(), "\"\"", "A word about it."},
        {"cases[].input", type::text(), "-", "What was chosen by this case; it is not scored."},
        {"cases[].held_out", type::flag(), "(true)", "false: it is not scored."},
        {"cases[].setting", type::text(), "(the case's name)", "Runs that differ by chance alone."},
        {"cases[].replay", type::map(), "-", "Replays of a run that learned."},
        {"cases[].replay.own", type::text("file"), "-", "Of its own updates."},
        {"cases[].replay.simulated", type::text("file") | type::list_of(type::text("files")), "-",
         "Of its simulation."},
        {"cases[].replay.fresh", type::text("file"), "-", "Without staleness."},
        {"cases[].forecast", type::name(), "-", "The fit that forecasts it."},
        {"not_predicted", type::map(), "-", "What the source has and nothing here predicts."},
        {"not_predicted.why", type::text(), "required", "Why not."},
        {"not_predicted.cases", type::list_of(type::map()), "required", "Its rows."},
        {"not_predicted.cases[].name", type::text(), "required", "Name."},
        {"not_predicted.cases[].metric", type::text(), "required", "What was published."},
        {"not_predicted.cases[].published", type::above(0), "required", "The number."},
        {"not_predicted.cases[].why", type::text(), "(that of all)", "Why not this one."}}}};
}

}  // namespace rehearse::inline keys
