#pragma once

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

namespace rehearse {

/// What trained again with a real run's stale gradients, or with those of its simulation.
struct RecordedReplay {
  std::string by;  ///< "replay of own log"
  Curve curve;
};

/// What a real run learned, and what foretells it.
struct LearnedRun {
  Curve real;
  bool failed = false;  ///< has_failed(real, trained_error())
  std::vector<RecordedReplay> replays;
  /// Of its simulation, differing by the order of the updates alone; the first is in `replays`.
  std::vector<Curve> traces;
  std::optional<Curve> fresh;  ///< the same updates, none of them stale: what staleness costs
  /// The runs of one setting differ by their seed alone; the case's name where nothing is said.
  std::string setting;
  std::string forecast_by;                        ///< "forecast from 3 workers"
  std::shared_ptr<const ConvergenceModel> model;  ///< it is computed by this; nothing: none is

  /// What runs like it end with at best, as far as the model knows: see failed_error().
  double trained_error() const { return model ? model->trained_error : 0; }
};

/// Models that forecasts are made with, by the names that a file of cases gives them.
using FittedModels = std::map<std::string, std::shared_ptr<const ConvergenceModel>>;

/// `fits: {3 workers: [CURVE, ...]}` of a file of cases; empty without the key.
FittedModels read_fits(Map& file);

/// Whether a recorded run is a curve (`rehearse.curve/1`), and not a report of its steps.
bool is_curve(const Value& recorded);

/// Reads the curve that `recorded` names, and of its case `replay: {own:, simulated:, fresh:}`
/// (`simulated` one file, or a list of those of several traces), `forecast: FIT` and `setting:`.
/// MissingError or InputError at the place; InputError also for a replay of another run.
LearnedRun read_learned(const Value& recorded, Map& map, const FittedModels& fits);

/// The scenario with the question how accurate it is when the real run ended.
Scenario asking_for_accuracy(Scenario scenario, const LearnedRun& run);

}  // namespace rehearse
