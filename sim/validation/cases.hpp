#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "validation/learned.hpp"
#include "validation/recorded.hpp"

namespace rehearse::inline validation {

/// Distance of the distributions of staleness; no key of a report.
inline const std::string kStalenessDistance = "staleness.ks";
inline const std::string kStalenessMean = "staleness.mean";
/// Share of the test samples at the end of a run that trained, and whether it did not train: of
/// each replay, and forecast.
inline const std::string kAccuracy = "accuracy";
inline const std::string kDiverges = "diverges";
/// Whether a step fits into its GPUs' memory: 1 or 0.
inline const std::string kFits = "memory.fits";

/// How a prediction's error is told.
enum class ErrorKind {
  relative,    ///< (predicted - measured) / measured
  difference,  ///< predicted - measured, in the metric's own unit
  distance,    ///< between distributions, from 0 to 1
  points,      ///< predicted - measured, in points (hundredths)
  verdict,     ///< 0: right, 1: wrong
};
ErrorKind error_kind(const std::string& metric);

/// One number that was measured, in the unit of the report's key.
struct Measurement {
  std::string metric;  ///< a key of the report, dots between levels, or kStalenessDistance
  double value = 0;    ///< of no meaning for a distance; of a verdict 1 where the run failed
};

/// A scenario, and what was measured where it was run for real.
struct ValidationCase {
  std::string name, note;
  std::string group;  ///< what is summed up together; where none is named, the file's cases
  /// Cases of one name are what a choice is made among: their order is scored, too. Empty: none.
  std::string rivals = {};
  bool held_out = true;  ///< false: shown in parentheses, not counted
  bool input = false;    ///< something unknown was chosen by it, so that it is not held out
  std::filesystem::path scenario;
  std::vector<std::string> overrides;
  std::vector<Measurement> measured;
  std::optional<RecordedRun> recorded;     ///< what its steps measured
  std::optional<LearnedRun> learned = {};  ///< or what it learned; neither: published by somebody
  std::optional<Value> recorded_at;        ///< where the case names the recorded run
};

/// Results that a source published and nothing here predicts, and why not.
struct NotPredicted {
  struct Case {
    std::string name, metric;
    double published = 0;
    std::string why = {};  ///< of this case; empty: of all
  };
  std::string why;
  std::vector<Case> cases;
};

/// How well the model's constants and the intervals' factors know a set's rows.
enum class Relation {
  never_seen,  ///< nothing was chosen by them
  left_out,    ///< errors were looked at, and intervals fitted with each source left out; no more
  input,       ///< constants of the model were fitted to them
};
/// "never seen", "left out" or "input".
std::string to_string(Relation relation);

struct CaseFile {
  std::string name;        ///< set_name() of the file
  std::string source;      ///< where the measurements come from
  std::string calibrated;  ///< what the model was fitted on; may be empty
  std::vector<ValidationCase> cases;
  Relation relation = Relation::never_seen;
  bool takes_long = false;     ///< it is played where its name or file is given, and only there
  NotPredicted not_predicted;  ///< without cases: nothing
  std::size_t left_out = 0;    ///< cases that a CaseChoice left out
};

/// The choice of cases that are read of a file.
struct CaseChoice {
  /// Number of cases to read at most of a file with recorded runs: every second, third ... is
  /// taken; nothing: all.
  std::optional<std::size_t> recorded = {};
  bool takes_long = true;  ///< those of a file that takes long, too
};

/// Reads a file of cases and the recorded runs that it names. InputError or MissingError at the
/// place.
CaseFile read_case_file(const std::filesystem::path& file, const CaseChoice& choice = {});

/// Name of a set: its folder for a cases.yaml, else the file without its ending.
std::string set_name(const std::filesystem::path& file);

/// The files themselves; of a folder the case files in it, at any depth, in the order of their
/// paths: every cases.yaml, and what else has `source` and `cases`; for a bare word that is no file
/// the shipped set of this name, and for `all` every shipped one that does not take long.
/// MissingError for a folder with none; InputError for a name that no set has.
std::vector<std::filesystem::path> case_files(const std::vector<std::filesystem::path>& given);

/// The case files of the folder REHEARSE_VALIDATION where that is set, else those of the sources.
/// MissingError if there are none.
std::vector<std::filesystem::path> shipped_case_files();

/// Keeps what was measured of `metrics`, and the cases and files of which something is left; all
/// for no metrics. InputError for a metric that no case has.
std::vector<CaseFile> only_metrics(std::vector<CaseFile> files,
                                   const std::vector<std::string>& metrics);

/// Keeps the cases that one of `names` names, and the files of which something is left; all for no
/// names. A name is the case's own, or a shell's pattern ("llama_8b/*"). InputError for one that
/// names no case.
std::vector<CaseFile> only_cases(std::vector<CaseFile> files,
                                 const std::vector<std::string>& names);

}  // namespace rehearse::inline validation
