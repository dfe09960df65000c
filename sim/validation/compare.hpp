#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ends.hpp"
#include "base/error.hpp"
#include "report/report.hpp"
#include "validation/cases.hpp"

namespace rehearse::inline validation {

/// Statement of a forecast on whether a run fails.
struct SaidOdds {
  std::string verdict;  ///< the report's: "converges", "may diverge" or "diverges"
  double failure_probability = 0;
};

/// One number, predicted and measured.
struct ComparedMetric {
  std::string metric;
  std::string group;                     ///< the case's; memory has a group of its own
  double measured = 0;                   ///< of no meaning for a distance; of a verdict 1: diverges
  double predicted = 0;                  ///< likewise
  double error = 0;                      ///< as error_kind(metric) says
  std::optional<Ends<double>> interval;  ///< 90 %, in the metric's unit
  std::vector<Mechanism> mechanisms = {};  ///< of its interval
  std::string by = {};                     ///< who says so, where it is not the simulation itself
  std::string means = {};                  ///< the same of forecasts, whatever they were fitted to
  std::string setting = {};                ///< whose runs differ by their seed alone; of accuracy
  std::optional<double> mean = {};    ///< of a forecast's accuracy, whose `predicted` is a median
  std::optional<SaidOdds> odds = {};  ///< of a forecast's verdict
  std::optional<double> fits_chance = {};  ///< of whether a step fits: that it does
  /// Points of the recorded curve, and those that the intervals of a forecast's accuracy hold.
  std::size_t points = 0, points_inside = 0;

  ErrorKind kind() const { return error_kind(metric); }
  bool of_accuracy() const { return metric == kAccuracy || metric == kDiverges; }
  /// Whether the interval holds what was measured; nothing without an interval.
  std::optional<bool> inside() const;
};

/// A scoreboard sums cases up by these.
struct Facets {
  std::string gpu;        ///< "A100"; "CPUs" where no rank has a GPU that is known by name
  std::string framework;  ///< "Megatron-LM"
  std::string work;       ///< "layouts", "experts", "servers", "one GPU" and so on

  auto operator<=>(const Facets&) const = default;
};

struct ComparedCase {
  std::string strategy;  ///< as the report names it; empty if there is none
  std::vector<ComparedMetric> metrics;
  ExitCode code = ExitCode::success;
  std::string failure;  ///< why there is no prediction: the whole error; empty: there is one
  Facets facets = {};
};

/// The cases of a file and, in the same order, how they came out.
struct ComparedFile {
  CaseFile file;
  std::vector<ComparedCase> cases;
};
using Validation = std::vector<ComparedFile>;

/// The report `rehearse.report/1` of a case's scenario; it runs in a child process.
using Predict = std::function<std::string(const ValidationCase& one)>;

/// Predicts every case, up to `jobs` side by side, and compares. A case whose prediction fails, or
/// does not fit what was recorded (another strategy, model, precision, batch or number of ranks),
/// keeps its error and the others go on. `progress`, where given, is called after each with the
/// numbers of cases that are done and in all.
Validation compare(std::vector<CaseFile> files, const Predict& predict, std::size_t jobs,
                   const std::function<void(std::size_t done, std::size_t all)>& progress);

/// The comparison of one case with its report: of a run that learned, with what replays and the
/// report's accuracy say, and with the staleness of all updates. InputError if they do not fit.
ComparedCase compare(const ValidationCase& one, const std::string& report);

/// Throws the errors of all cases that failed, with the code of the first, if any did.
void throw_failures(const Validation& validation);

}  // namespace rehearse::inline validation
