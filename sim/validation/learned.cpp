#include "validation/learned.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "convergence/fitted_curves.hpp"
#include "convergence/observation.hpp"
#include "profile/whole_file.hpp"

namespace rehearse {
namespace {

std::filesystem::path file_of(const Value& name) {
  return (name.folder() / name.as_string()).lexically_normal();
}

/// The file that is named; a missing one is shown where it is named.
std::filesystem::path existing(const Value& name) {
  const std::filesystem::path file = file_of(name);
  if (std::filesystem::is_regular_file(file)) return file;
  try {
    name.fail(fmt::format("cannot read {}", file.string()),
              "rehearse-calibrate step --curve FILE and replay --output FILE write curves");
  } catch (const InputError& placed) {
    throw MissingError(placed.what());
  }
}

/// A replay trains what the real run trained: log and staleness are what may differ.
void check_same_training(const Value& name, const Curve& replay, const Curve& real) {
  auto differs = training_difference(replay, real);
  if (!differs && replay.seed != real.seed)
    differs = {"seed", std::to_string(replay.seed), std::to_string(real.seed)};
  if (!differs) return;
  name.fail(fmt::format("the replay's {} is {}, that of the recorded run {}", differs->what,
                        differs->one, differs->other),
            "name a replay of this run");
}

Curve read_replay(const Value& name, const Curve& real) {
  Curve curve = read_curve(existing(name));
  check_same_training(name, curve, real);
  return curve;
}

/// One file, or a list of several.
std::vector<Curve> read_traces(const Value& value, const Curve& real) {
  if (!value.is_list()) return {read_replay(value, real)};
  std::vector<Curve> traces;
  for (const Value& name : value.as_list()) traces.push_back(read_replay(name, real));
  if (traces.empty()) value.fail("expected the file of a replay, or a list of such files");
  return traces;
}

void read_replays(Map& map, LearnedRun& run) {
  const auto value = map.optional("replay");
  if (!value) return;
  Map replays = value->as_map();
  if (const auto own = replays.optional("own"))
    run.replays.push_back({"replay of own log", read_replay(*own, run.real)});
  if (const auto simulated = replays.optional("simulated")) {
    run.traces = read_traces(*simulated, run.real);
    run.replays.push_back({"replay of simulation", run.traces.front()});
  }
  if (const auto fresh = replays.optional("fresh")) run.fresh = read_replay(*fresh, run.real);
  replays.finish();
}

void read_forecast(const Value& recorded, Map& map, const FittedModels& fits, LearnedRun& run) {
  const auto fit = map.optional("forecast");
  if (!fit) return;
  std::vector<std::string> names;
  for (const auto& [name, model] : fits) names.push_back(name);
  if (names.empty()) fit->fail("this file has no fits", "add fits: {NAME: [CURVE, ...]} to it");
  const std::string name = fit->as_choice(names);
  observe(run.real, file_of(recorded).string());  // what the forecast knows nothing of is refused
  run.forecast_by = "forecast from " + name;
  run.model = fits.at(name);
}

}  // namespace

FittedModels read_fits(Map& file) {
  FittedModels models;
  const auto fits = file.optional("fits");
  if (!fits) return models;
  Map map = fits->as_map();
  for (const std::string& name : map.keys()) {
    const Value list = map.require(name);
    std::vector<std::filesystem::path> files;
    for (const Value& curve : list.as_list()) files.push_back(existing(curve));
    if (files.empty()) list.fail("expected the files of some curves");
    models[name] = std::make_shared<const ConvergenceModel>(fit_curves(files).model);
  }
  map.finish();
  return models;
}

bool is_curve(const Value& recorded) {
  const std::filesystem::path file = file_of(recorded);
  return std::filesystem::is_regular_file(file) &&
         read_whole_file(file).find("\"rehearse.curve/1\"") != std::string::npos;
}

LearnedRun read_learned(const Value& recorded, Map& map, const FittedModels& fits) {
  LearnedRun run{.real = read_curve(existing(recorded)),
                 .replays = {},
                 .traces = {},
                 .fresh = {},
                 .setting = {},
                 .forecast_by = {},
                 .model = nullptr};
  read_replays(map, run);
  read_forecast(recorded, map, fits, run);
  run.failed = has_failed(run.real, run.trained_error());
  run.setting = map.string_or("setting", map.require("name").as_string());
  return run;
}

Scenario asking_for_accuracy(Scenario scenario, const LearnedRun& run) {
  if (!run.model) return scenario;
  scenario.convergence = Convergence{.model = run.model,
                                     .learning_rate = run.real.learning_rate,
                                     .momentum = run.real.momentum,
                                     .mitigation = run.real.mitigation,
                                     .target = {},
                                     .whole_run = true};
  scenario.train = {.samples_per_epoch = static_cast<std::int64_t>(run.real.points.back().samples),
                    .epochs = 1};
  return scenario;
}

}  // namespace rehearse
