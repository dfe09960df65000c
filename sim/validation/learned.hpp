#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "convergence/convergence_model.hpp"
#include "convergence/curve.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline validation {

/// Training repeated with a real run's stale gradients, or with those of its simulation.
struct RecordedReplay {
  std::string by;  ///< "replay of own log"
  Curve curve;
};

/// Curve that a real run learned, and what foretells it.
struct LearnedRun {
  Curve real;
  bool failed = false;  ///< has_failed(real, trained_error())
  std::vector<RecordedReplay> replays;
  /// Curves of its simulation, differing by the order of the updates alone; the first is in
  /// `replays`.
  std::vector<Curve> traces;
  std::optional<Curve> fresh;  ///< the same updates, none of them stale: what staleness costs
  /// The runs of one setting differ by their seed alone; the case's name where nothing is said.
  std::string setting;
  std::string forecast_by;                        ///< "forecast from 3 workers"
  std::shared_ptr<const ConvergenceModel> model;  ///< it is computed by this; nothing: none is

  /// Error that runs like it end with at best, as far as the model knows: see failed_error().
  double trained_error() const { return model ? model->trained_error : 0; }
};

/// Models that forecasts are made with, by the names that a file of cases gives them. Each is
/// fitted when it is first asked for: that takes seconds, and a scoreboard asks for few.
class FittedModels {
 public:
  void add(const std::string& name, std::vector<std::filesystem::path> curves);
  std::vector<std::string> names() const;
  /// One of names(). InputError where its curves tell of no model.
  std::shared_ptr<const ConvergenceModel> of(const std::string& name) const;

 private:
  struct Fit {
    std::vector<std::filesystem::path> curves;
    mutable std::shared_ptr<const ConvergenceModel> model{};
  };
  std::map<std::string, Fit> fits_;
};

/// `fits: {3 workers: [CURVE, ...]}` of a file of cases; empty without the key.
FittedModels read_fits(Map& file);

/// A file, and where it is named.
struct NamedFile {
  Value at;
  std::filesystem::path file;
};
/// From the folder on of the file that names it.
NamedFile named_file(const Value& name);

/// The curves of a real run and of its replays.
struct CurveFiles {
  NamedFile real;
  std::optional<NamedFile> own{}, fresh{};
  std::vector<NamedFile> simulated{};  ///< of each trace
};
/// `recorded: FILE` and `replay: {own:, simulated:, fresh:}` of a case, `simulated` one file, or a
/// list of those of several traces.
CurveFiles curve_files(const Value& recorded, Map& map);
/// By their names: RUN.real.json and, where they are there, RUN.own.json, RUN.fresh.json,
/// RUN.simulated.json, RUN.simulated_1.json and so on in a folder or a set of records.
CurveFiles curve_files(const Value& run, const std::filesystem::path& folder);

/// Whether a recorded run is a curve (`rehearse.curve/1`), and not a report of its steps.
bool is_curve(const NamedFile& recorded);

/// Reads these curves, and of their case `forecast: FIT` and `setting:`, else `name`. MissingError
/// or InputError at the place; InputError also for a replay of another run.
LearnedRun read_learned(const CurveFiles& files, Map& map, const FittedModels& fits,
                        const std::string& name);

/// The scenario with the question how accurate it is when the real run ended.
Scenario asking_for_accuracy(Scenario scenario, const LearnedRun& run);

}  // namespace rehearse::inline validation
