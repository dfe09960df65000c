#include "validation/cases.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "config/record_set.hpp"
#include "convergence/observation.hpp"

namespace rehearse::inline validation {
namespace {

/// What the steps of a real run measured.
void take_steps(const Value& recorded, ValidationCase& one) {
  one.recorded = read_recorded(recorded);
  const RecordedRun& run = *one.recorded;
  one.measured.push_back({"step_time_s", run.step_time.value()});
  if (run.has_server()) {
    one.measured.push_back({kStalenessMean, mean(run.staleness)});
    one.measured.push_back({kStalenessDistance, 0});
  }
  if (run.allocated_peak > Bytes(0)) {
    one.measured.push_back({"memory.allocated_peak_bytes", run.allocated_peak.value()});
  }
  if (run.reserved_peak > Bytes(0)) {
    one.measured.push_back({"memory.reserved_peak_bytes", run.reserved_peak.value()});
  }
}

/// What a real run learned, and how stale its gradients were.
void take_curve(const CurveFiles& files, Map& map, const FittedModels& fits, ValidationCase& one) {
  one.learned = read_learned(files, map, fits, one.name);
  const Curve& real = one.learned->real;
  one.measured.push_back({kStalenessMean, real.staleness.mean});
  one.measured.push_back({kStalenessDistance, 0});
  if (!one.learned->failed) one.measured.push_back({kAccuracy, real.points.back().test_accuracy});
  one.measured.push_back({kDiverges, one.learned->failed ? 1.0 : 0.0});
}

/// What staleness cost the run, as a note.
std::string cost_of_staleness(const LearnedRun& run) {
  if (!run.fresh) return "";
  if (has_failed(*run.fresh, run.trained_error())) return "without staleness: diverges";
  return fmt::format("without staleness: {:.2f} %", 100 * run.fresh->points.back().test_accuracy);
}

/// `published: NUMBER` of a `metric`, or `{METRIC: NUMBER, ...}`.
void take_published(const Value& published, Map& map, ValidationCase& one) {
  if (!published.is_map()) {
    one.measured.push_back({map.require("metric").as_string(), published.as_positive_number()});
    return;
  }
  if (map.has("metric"))
    map.at_key("metric").fail("published names its metrics itself", "remove it");
  Map numbers = published.as_map();
  for (const std::string& metric : numbers.keys())
    one.measured.push_back({metric, numbers.require(metric).as_positive_number()});
}

/// `published` and `fits`, or `recorded: FILE`.
void read_measured(Map& map, const FittedModels& fits, ValidationCase& one) {
  const auto published = map.optional("published");
  const auto recorded = map.optional("recorded");
  if (published && recorded) {
    map.at_key("recorded").fail("a case is either published or recorded", "make two cases of it");
  }
  const auto it_fits = map.optional("fits");
  if (it_fits) one.measured.push_back({kFits, it_fits->as_bool() ? 1.0 : 0.0});
  if (it_fits && !published && !recorded) return;
  if (!published && !recorded) {
    map.where().fail("expected what was measured",
                     "add published: NUMBER and its metric, fits: BOOL, or recorded: FILE");
  }
  if (published) return take_published(*published, map, one);
  if (map.has("metric")) {
    map.at_key("metric").fail("a recorded run has its own metrics", "remove it");
  }
  one.recorded_at = *recorded;
  if (is_curve(named_file(*recorded)))
    return take_curve(curve_files(*recorded, map), map, fits, one);
  take_steps(*recorded, one);
}

std::string joined(const std::string& first, const std::string& second) {
  return first + (first.empty() || second.empty() ? "" : "; ") + second;
}

/// `input: WHAT` (what was chosen by the case) and `held_out: false` both take it out of the
/// summary.
void read_held_out(Map& map, ValidationCase& one) {
  const auto input = map.optional("input");
  if (input && map.has("held_out")) {
    map.at_key("held_out").fail("a case with an input is not held out", "remove one of both");
  }
  if (const auto held_out = map.optional("held_out")) one.held_out = held_out->as_bool();
  if (!input) return;
  one.held_out = false;
  one.input = true;
  one.note = joined("input: " + input->as_string(), one.note);
}

Relation read_relation(Map& root) {
  const auto value = root.optional("relation");
  if (!value) return Relation::never_seen;
  constexpr std::array kAll = {Relation::never_seen, Relation::left_out, Relation::input};
  std::vector<std::string> words;
  for (const Relation one : kAll) words.push_back(to_string(one));
  const std::string word = value->as_choice(words);
  return kAll.at(static_cast<std::size_t>(std::ranges::find(words, word) - words.begin()));
}

/// What all cases of a file have in common.
struct CaseDefaults {
  std::string group;
  std::vector<std::string> metrics;  ///< of recorded runs; empty: all
  FittedModels fits;
};

/// `metrics: [NAME, ...]`: a run may be a measurement of only some of what it recorded, as of
/// memory while other programs had the processor.
std::vector<std::string> read_metrics(Map& map) {
  std::vector<std::string> metrics;
  const auto list = map.optional("metrics");
  if (!list) return metrics;
  for (const Value& metric : list->as_list()) metrics.push_back(metric.as_string());
  if (metrics.empty()) list->fail("expected at least one metric", "remove it: all count then");
  return metrics;
}

void keep_metrics(const std::vector<std::string>& metrics, ValidationCase& one) {
  if (metrics.empty() || !one.recorded_at) return;
  std::erase_if(one.measured, [&](const Measurement& measurement) {
    return std::ranges::find(metrics, measurement.metric) == metrics.end();
  });
  if (!one.measured.empty()) return;
  one.recorded_at->fail(fmt::format("this run recorded none of {}", fmt::join(metrics, ", ")),
                        "name another run, or other metrics");
}

std::string unique(const Value& name, std::set<std::string>& seen) {
  if (!seen.insert(name.as_string()).second)
    name.fail(fmt::format("two cases are called \"{}\"", name.as_string()));
  return name.as_string();
}

/// What cases of both kinds end with.
void read_rest(Map& map, const CaseDefaults& defaults, ValidationCase& one) {
  if (const auto overrides = map.optional("set")) {
    for (const Value& assignment : overrides->as_list()) {
      one.overrides.push_back(assignment.as_string());
    }
  }
  keep_metrics(defaults.metrics, one);
  one.group = map.string_or("group", defaults.group);
  one.rivals = map.string_or("rivals", "");
  one.note = map.string_or("note", "");
  if (one.learned) one.note = joined(one.note, cost_of_staleness(*one.learned));
  read_held_out(map, one);
  map.finish();
}

ValidationCase read_case(const Value& value, const CaseDefaults& defaults,
                         std::set<std::string>& seen) {
  Map map = value.as_map();
  ValidationCase one;
  one.name = unique(map.require("name"), seen);
  one.scenario = (value.folder() / map.require("scenario").as_string()).lexically_normal();
  read_measured(map, defaults.fits, one);
  read_rest(map, defaults, one);
  return one;
}

/// The place of a case: in the list itself, or in a list of runs there.
struct CasePlace {
  Value at;
  std::optional<Value> run = {};

  bool is_recorded() const { return run || at.as_map().has("recorded"); }
};

std::vector<CasePlace> places_of(const Value& cases) {
  std::vector<CasePlace> places;
  for (const Value& at : cases.as_list()) {
    if (!at.as_map().has("runs")) {
      places.push_back({at});
      continue;
    }
    const Value list = at.as_map().require("runs");
    const std::vector<Value> runs = list.as_list();
    if (runs.empty()) list.fail("expected the names of some runs");
    for (const Value& run : runs) places.push_back({at, run});
  }
  return places;
}

/// Every second, third ... one, so that at most `most` are left.
std::vector<CasePlace> spread(const std::vector<CasePlace>& places, std::size_t most) {
  const std::size_t step = (places.size() + most - 1) / most;
  std::vector<CasePlace> kept;
  for (std::size_t i = 0; i < places.size(); i += step) kept.push_back(places[i]);
  return kept;
}

/// A run of `{runs: [NAME, ...], records: SET}`, by the names of its records: its scenario
/// NAME.yaml and its curves (curve_files).
ValidationCase read_run(const CasePlace& place, const CaseDefaults& defaults,
                        std::set<std::string>& seen) {
  Map map = place.at.as_map();
  const Value records = map.require("records"), run = *place.run;
  map.require("runs");
  const std::filesystem::path folder = (place.at.folder() / records.as_string()).lexically_normal();
  if (!is_input_folder(folder)) {
    records.fail(fmt::format("no set of records and no folder \"{}\"", folder.string()),
                 "tests/validation/record_set.py packs one");
  }
  ValidationCase one;
  one.name = unique(run, seen);
  one.recorded_at = run;
  one.scenario = folder / (one.name + ".yaml");
  take_curve(curve_files(run, folder), map, defaults.fits, one);
  read_rest(map, defaults, one);
  return one;
}

/// `not_predicted: {why: TEXT, cases: [{name, metric, published, why}, ...]}`.
NotPredicted read_not_predicted(const Value& value) {
  Map map = value.as_map();
  NotPredicted result{.why = map.require("why").as_string(), .cases = {}};
  for (const Value& item : map.require("cases").as_list()) {
    Map one = item.as_map();
    result.cases.push_back({.name = one.require("name").as_string(),
                            .metric = one.require("metric").as_string(),
                            .published = one.require("published").as_positive_number(),
                            .why = one.string_or("why", "")});
    one.finish();
  }
  map.finish();
  return result;
}

}  // namespace

ErrorKind error_kind(const std::string& metric) {
  if (metric == kStalenessDistance) return ErrorKind::distance;
  if (metric == kAccuracy) return ErrorKind::points;
  if (metric == kDiverges || metric == kFits) return ErrorKind::verdict;
  return metric == kStalenessMean ? ErrorKind::difference : ErrorKind::relative;
}

std::string to_string(Relation relation) {
  switch (relation) {
    case Relation::never_seen:
      return "never seen";
    case Relation::left_out:
      return "left out";
    case Relation::input:
      break;
  }
  return "input";
}

CaseFile read_case_file(const std::filesystem::path& file, const CaseChoice& choice) {
  const auto document = Document::load(file);
  Map root = document->root().as_map();
  CaseFile result;
  result.name = set_name(file);
  result.source = root.require("source").as_string();
  result.calibrated = root.string_or("calibrated", "");
  result.relation = read_relation(root);
  result.takes_long = root.bool_or("takes_long", result.takes_long);
  const Value cases = root.require("cases");
  std::vector<CasePlace> places = places_of(cases);
  if (result.takes_long && !choice.takes_long) {
    result.left_out = places.size();
    return result;
  }
  if (choice.recorded && places.size() > *choice.recorded &&
      std::ranges::any_of(places, &CasePlace::is_recorded)) {
    std::vector<CasePlace> kept = spread(places, *choice.recorded);
    result.left_out = places.size() - kept.size();
    places = std::move(kept);
  }
  const CaseDefaults defaults{.group = root.string_or("group", file.stem().string()),
                              .metrics = read_metrics(root),
                              .fits = read_fits(root)};
  std::set<std::string> seen;
  for (const CasePlace& place : places) {
    result.cases.push_back(place.run ? read_run(place, defaults, seen)
                                     : read_case(place.at, defaults, seen));
  }
  if (std::ranges::none_of(result.cases, &ValidationCase::held_out) && result.left_out == 0)
    cases.fail("expected at least one case that is not an input");
  if (const auto others = root.optional("not_predicted")) {
    result.not_predicted = read_not_predicted(*others);
  }
  root.finish();
  return result;
}

std::vector<CaseFile> only_metrics(std::vector<CaseFile> files,
                                   const std::vector<std::string>& metrics) {
  if (metrics.empty()) return files;
  std::set<std::string> known;
  for (CaseFile& file : files) {
    for (ValidationCase& one : file.cases) {
      for (const Measurement& measurement : one.measured) known.insert(measurement.metric);
      std::erase_if(one.measured, [&](const Measurement& measurement) {
        return std::ranges::find(metrics, measurement.metric) == metrics.end();
      });
    }
    std::erase_if(file.cases, [](const ValidationCase& one) { return one.measured.empty(); });
  }
  for (const std::string& metric : metrics) {
    if (known.contains(metric)) continue;
    throw InputError(fmt::format("error: --metric: no case has \"{}\"\nremedy: known: {}", metric,
                                 fmt::join(known, ", ")));
  }
  std::erase_if(files, [](const CaseFile& file) { return file.cases.empty(); });
  return files;
}

std::vector<CaseFile> only_cases(std::vector<CaseFile> files,
                                 const std::vector<std::string>& names) {
  if (names.empty()) return files;
  std::set<std::string> known;
  std::vector<bool> used(names.size(), false);
  const auto is_asked_for = [&](const ValidationCase& one) {
    bool asked = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] != one.name && fnmatch(names[i].c_str(), one.name.c_str(), 0) != 0) continue;
      asked = used[i] = true;
    }
    return asked;
  };
  for (CaseFile& file : files) {
    for (const ValidationCase& one : file.cases) known.insert(one.name);
    std::erase_if(file.cases, [&](const ValidationCase& one) { return !is_asked_for(one); });
  }
  if (const auto unused = std::ranges::find(used, false); unused != used.end()) {
    const std::string& name = names[static_cast<std::size_t>(unused - used.begin())];
    const std::string near = nearest(name, {known.begin(), known.end()});
    throw InputError(fmt::format(
        "error: --case: no case of these sets is called \"{}\"\nremedy: {}--format csv lists them "
        "all",
        name, near.empty() ? "" : fmt::format("did you mean \"{}\"? else ", near)));
  }
  std::erase_if(files, [](const CaseFile& file) { return file.cases.empty(); });
  return files;
}

}  // namespace rehearse::inline validation
