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
       {{"source", "text", "required", "Where the measurements come from."},
        {"calibrated", "text", "\"\"", "What the prediction was fitted to."},
        {"relation", "never seen | left out | input", "never seen",
         "What the model's constants and the intervals' factors know of these rows."},
        {"takes_long", "true or false", "false", "true: played where the set is named, not by `all`."},
        {"group", "text", "(the file's name)", "What is summed up together."},
        {"metrics", "list of text", "(all)", "Which of the recorded numbers count."},
        {"fits", "map", "-", "Fits of forecasts, by name, each a list of curves."},
        {"fits.NAME", "list of text (files)", "-", "Curves of one fit."},
        {"cases", "list of map", "required", "The cases."},
        {"cases[].name", "text", "required", "Name."},
        {"cases[].scenario", "text (file)", "required", "The scenario to predict."},
        {"cases[].runs", "list of text", "-",
         "Instead of `name`, `scenario`, `recorded` and `replay`: runs by the names of their records."},
        {"cases[].records", "text (set or folder)", "-",
         "Where RUN.yaml, RUN.real.json and so on are; with `runs`."},
        {"cases[].set", "list of text", "-", "What differs: `cluster.nodes=8`."},
        {"cases[].metric", "text", "-", "Key of the JSON report that was published."},
        {"cases[].published", "number > 0 or map", "-",
         "The published number, or several by their metrics."},
        {"cases[].published.NAME", "number > 0", "-", "The number of one metric."},
        {"cases[].published.memory.NAME", "number > 0 (bytes)", "-", "Likewise, of memory."},
        {"cases[].fits", "true or false", "-", "Whether it ran, or went out of memory."},
        {"cases[].recorded", "text (file)", "-", "Or the recorded run."},
        {"cases[].group", "text", "(the file's)", "Group of this case."},
        {"cases[].rivals", "text", "-",
         "Cases of one name are a choice: their order is scored, too."},
        {"cases[].note", "text", "\"\"", "A word about it."},
        {"cases[].input", "text", "-", "What was chosen by this case; it is not scored."},
        {"cases[].held_out", "true or false", "(true)", "false: it is not scored."},
        {"cases[].setting", "text", "(the case's name)", "Runs that differ by chance alone."},
        {"cases[].replay", "map", "-", "Replays of a run that learned."},
        {"cases[].replay.own", "text (file)", "-", "Of its own updates."},
        {"cases[].replay.simulated", "text (file) or list of text (files)", "-",
         "Of its simulation."},
        {"cases[].replay.fresh", "text (file)", "-", "Without staleness."},
        {"cases[].forecast", "a name", "-", "The fit that forecasts it."},
        {"not_predicted", "map", "-", "What the source has and nothing here predicts."},
        {"not_predicted.why", "text", "required", "Why not."},
        {"not_predicted.cases", "list of map", "required", "Its rows."},
        {"not_predicted.cases[].name", "text", "required", "Name."},
        {"not_predicted.cases[].metric", "text", "required", "What was published."},
        {"not_predicted.cases[].published", "number > 0", "required", "The number."},
        {"not_predicted.cases[].why", "text", "(that of all)", "Why not this one."}}}};
}

}  // namespace rehearse::inline keys
