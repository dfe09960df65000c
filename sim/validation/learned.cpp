#include "validation/learned.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "config/record_set.hpp"
#include "config/whole_file.hpp"
#include "convergence/fitted_curves.hpp"
#include "convergence/observation.hpp"

namespace rehearse::inline validation {
namespace {

/// The file that is named; a missing one is shown where it is named.
std::filesystem::path existing(const NamedFile& name) {
  if (is_input_file(name.file)) return name.file;
  try {
    name.at.fail(fmt::format("cannot read {}", name.file.string()),
                 remedy_for_missing(
                     name.file,
                     "rehearse-calibrate step --curve FILE and replay --output FILE write curves"));
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

Curve read_replay(const NamedFile& name, const Curve& real) {
  Curve curve = read_curve(existing(name));
  check_same_training(name.at, curve, real);
  return curve;
}

/// One file, or a list of several.
std::vector<NamedFile> named_files(const Value& value) {
  if (!value.is_list()) return {named_file(value)};
  std::vector<NamedFile> files;
  for (const Value& name : value.as_list()) files.push_back(named_file(name));
  if (files.empty()) value.fail("expected the file of a replay, or a list of such files");
  return files;
}

void read_replays(const CurveFiles& files, LearnedRun& run) {
  if (files.own) run.replays.push_back({"replay of own log", read_replay(*files.own, run.real)});
  for (const NamedFile& trace : files.simulated) run.traces.push_back(read_replay(trace, run.real));
  if (!run.traces.empty()) run.replays.push_back({"replay of simulation", run.traces.front()});
  if (files.fresh) run.fresh = read_replay(*files.fresh, run.real);
}

void read_forecast(const std::string& shown, Map& map, const FittedModels& fits, LearnedRun& run) {
  const auto fit = map.optional("forecast");
  if (!fit) return;
  const std::vector<std::string> names = fits.names();
  if (names.empty()) fit->fail("this file has no fits", "add fits: {NAME: [CURVE, ...]} to it");
  const std::string name = fit->as_choice(names);
  observe(run.real, shown);  // what the forecast knows nothing of is refused
  run.forecast_by = "forecast from " + name;
  run.model = fits.of(name);
}

}  // namespace

void FittedModels::add(const std::string& name, std::vector<std::filesystem::path> curves) {
  fits_[name] = {std::move(curves)};
}

std::vector<std::string> FittedModels::names() const {
  std::vector<std::string> names;
  for (const auto& [name, fit] : fits_) names.push_back(name);
  return names;
}

std::shared_ptr<const ConvergenceModel> FittedModels::of(const std::string& name) const {
  const Fit& fit = fits_.at(name);
  if (!fit.model)
    fit.model = std::make_shared<const ConvergenceModel>(fit_curves(fit.curves).model);
  return fit.model;
}

FittedModels read_fits(Map& file) {
  FittedModels models;
  const auto fits = file.optional("fits");
  if (!fits) return models;
  Map map = fits->as_map();
  for (const std::string& name : map.keys()) {
    const Value list = map.require(name);
    std::vector<std::filesystem::path> files;
    for (const Value& curve : list.as_list()) files.push_back(existing(named_file(curve)));
    if (files.empty()) list.fail("expected the files of some curves");
    models.add(name, std::move(files));
  }
  map.finish();
  return models;
}

NamedFile named_file(const Value& name) {
  return {name, (name.folder() / name.as_string()).lexically_normal()};
}

CurveFiles curve_files(const Value& recorded, Map& map) {
  CurveFiles files{.real = named_file(recorded)};
  const auto value = map.optional("replay");
  if (!value) return files;
  Map replays = value->as_map();
  if (const auto own = replays.optional("own")) files.own = named_file(*own);
  if (const auto simulated = replays.optional("simulated"))
    files.simulated = named_files(*simulated);
  if (const auto fresh = replays.optional("fresh")) files.fresh = named_file(*fresh);
  replays.finish();
  return files;
}

CurveFiles curve_files(const Value& run, const std::filesystem::path& folder) {
  const auto file = [&](const std::string& ending) {
    return NamedFile{run, folder / (run.as_string() + ending)};
  };
  const auto there = [&](const std::string& ending) -> std::optional<NamedFile> {
    if (!is_input_file(file(ending).file)) return {};
    return file(ending);
  };
  CurveFiles files{
      .real = file(".real.json"), .own = there(".own.json"), .fresh = there(".fresh.json")};
  for (int trace = 0;; ++trace) {
    const auto one =
        there(trace == 0 ? ".simulated.json" : fmt::format(".simulated_{}.json", trace));
    if (!one) return files;
    files.simulated.push_back(*one);
  }
}

bool is_curve(const NamedFile& recorded) {
  return is_input_file(recorded.file) &&
         read_whole_file(recorded.file).find("\"rehearse.curve/1\"") != std::string::npos;
}

LearnedRun read_learned(const CurveFiles& files, Map& map, const FittedModels& fits,
                        const std::string& name) {
  LearnedRun run{.real = read_curve(existing(files.real)),
                 .replays = {},
                 .traces = {},
                 .fresh = {},
                 .setting = {},
                 .forecast_by = {},
                 .model = nullptr};
  read_replays(files, run);
  read_forecast(files.real.file.string(), map, fits, run);
  run.failed = has_failed(run.real, run.trained_error());
  run.setting = map.string_or("setting", name);
  return run;
}

Scenario asking_for_accuracy(Scenario scenario, const LearnedRun& run) {
  if (!run.model) return scenario;
  scenario.convergence = Convergence{.model = run.model,
                                     .curves = {{}, run.real.model + " on " + run.real.dataset},
                                     .learning_rate = run.real.learning_rate,
                                     .momentum = run.real.momentum,
                                     .mitigation = run.real.mitigation,
                                     .target = {},
                                     .whole_run = true};
  scenario.train = {.samples_per_epoch = static_cast<std::int64_t>(run.real.points.back().samples),
                    .epochs = 1,
                    .steps = {}};
  return scenario;
}

}  // namespace rehearse::inline validation
