#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/json/json_text.hpp"
#include "validation/cells.hpp"
#include "validation/scoreboard_json.hpp"
#include "validation/views.hpp"
#include "view/table.hpp"

namespace rehearse::inline validation {
namespace {

using Json = nlohmann::ordered_json;

/// The error under the column or key of its kind.
const char* error_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::relative:
      return "relative_error";
    case ErrorKind::difference:
      return "difference";
    case ErrorKind::distance:
      return "distance";
    case ErrorKind::points:
      return "points";
    case ErrorKind::verdict:
      return "right";
  }
  return "";
}

/// Empty where `value` does not stand in this column.
template <class Value>
std::string cell(bool here, const Value& value) {
  return here ? fmt::to_string(value) : std::string();
}

TableRow csv_row(const CaseFile& file, const ValidationCase& one, const ComparedCase& compared,
                 const ComparedMetric& metric) {
  const ErrorKind kind = metric.kind();
  const bool verdict = kind == ErrorKind::verdict, numbers = kind != ErrorKind::distance;
  const std::optional<bool> inside = metric.inside();
  const Ends<double> range = metric.interval.value_or(Ends<double>{});
  const bool bounded = metric.interval.has_value();
  return {{file.source,
           metric.group,
           one.name,
           compared.strategy,
           metric.metric,
           verdict ? cell(true, metric.predicted > 0) : cell(numbers, metric.predicted),
           verdict ? cell(true, metric.measured > 0) : cell(numbers, metric.measured),
           cell(bounded, range.low),
           cell(bounded, range.high),
           cell(kind == ErrorKind::relative, metric.error),
           cell(kind == ErrorKind::difference, metric.error),
           cell(kind == ErrorKind::distance, metric.error),
           cell(inside.has_value(), inside.value_or(false)),
           cell(true, one.held_out),
           one.note,
           "",
           metric.by,
           cell(kind == ErrorKind::points, metric.error),
           cell(verdict, metric.error == 0),
           metric.odds ? fmt::to_string(metric.odds->failure_probability) : ""}};
}

/// Of a case without a prediction.
TableRow csv_row(const CaseFile& file, const ValidationCase& one, const std::string& failure) {
  std::vector<std::string> cells = {file.source, one.group, one.name};
  cells.resize(13);
  cells.insert(cells.end(), {fmt::to_string(one.held_out), one.note, first_line(failure)});
  return {std::move(cells)};
}

Json metric_object(const ComparedMetric& metric) {
  Json object = {{"metric", metric.metric}, {"group", metric.group}};
  if (!metric.by.empty()) object["by"] = metric.by;
  if (metric.kind() == ErrorKind::verdict) {
    object["predicted"] = metric.predicted > 0;
    object["measured"] = metric.measured > 0;
    object["right"] = metric.error == 0;
    if (metric.fits_chance) object["fits_probability"] = *metric.fits_chance;
    if (metric.odds) {
      object["verdict"] = metric.odds->verdict;
      object["failure_probability"] = metric.odds->failure_probability;
    }
    return object;
  }
  if (metric.kind() != ErrorKind::distance) {
    object["predicted"] = metric.predicted;
    object["measured"] = metric.measured;
    object["interval"] =
        metric.interval ? Json::array({metric.interval->low, metric.interval->high}) : Json();
    object["inside"] = metric.inside() ? Json(*metric.inside()) : Json();
    for (const Mechanism& one : metric.mechanisms)
      object["mechanisms"][one.name] = {{"share", one.share}, {"half_width", one.error}};
  }
  if (metric.mean) object["predicted_mean"] = *metric.mean;
  object[error_name(metric.kind())] = metric.error;
  if (metric.points > 0)
    object["curve"] = {{"inside", metric.points_inside}, {"intervals", metric.points}};
  return object;
}

Json case_object(const ValidationCase& one, const ComparedCase& compared) {
  Json metrics = Json::array();
  for (const ComparedMetric& metric : compared.metrics) metrics.push_back(metric_object(metric));
  return {{"name", one.name},         {"strategy", compared.strategy},
          {"held_out", one.held_out}, {"note", one.note},
          {"metrics", metrics},       {"failure", compared.failure}};
}

Json not_predicted_object(const NotPredicted& others) {
  if (others.cases.empty()) return nullptr;
  Json cases = Json::array();
  for (const NotPredicted::Case& one : others.cases) {
    cases.push_back({{"name", one.name}, {"metric", one.metric}, {"published", one.published}});
    if (!one.why.empty()) cases.back()["why"] = one.why;
  }
  return {{"why", others.why}, {"cases", cases}};
}

Json coverage_object(const Coverage& coverage) {
  return {{"inside", coverage.inside}, {"intervals", coverage.intervals}};
}

Json summary_objects(const std::vector<ErrorSummary>& lines) {
  Json objects = Json::array();
  for (const ErrorSummary& one : lines) {
    objects.push_back({{"group", one.group},
                       {"strategy", one.strategy},
                       {"numbers", one.cases},
                       {"mean", one.mean},
                       {"median", one.median},
                       {"p90", one.p90},
                       {"max", one.max},
                       {"coverage", coverage_object(one.coverage)}});
    if (one.largest_distance) objects.back()["largest_distance"] = *one.largest_distance;
  }
  return objects;
}

Json accuracy_objects(const std::vector<AccuracySummary>& lines) {
  Json objects = Json::array();
  for (const AccuracySummary& one : lines) {
    objects.push_back(
        {{"group", one.group},
         {"by", one.by},
         {"runs", one.runs},
         {"mean_points", one.mean},
         {"max_points", one.max},
         {"worst_setting", {{"setting", one.setting}, {"mean_points", one.worst_setting}}},
         {"coverage", coverage_object(one.coverage)},
         {"curve_coverage", coverage_object(one.points)},
         {"verdicts", {{"right", one.right}, {"all", one.verdicts}}}});
  }
  return objects;
}

Json failure_objects(const std::vector<FailureSummary>& lines) {
  Json objects = Json::array();
  for (const FailureSummary& one : lines) {
    objects.push_back({{"verdict", one.verdict},
                       {"runs", one.runs},
                       {"expected_to_fail", one.expected},
                       {"standard_deviation", one.deviation},
                       {"failed", one.failed}});
  }
  return objects;
}

Json mean_object(const MeanEnd& end) {
  if (end.runs == 0) return nullptr;
  return {{"runs", end.runs},
          {"mean", end.mean},
          {"standard_error", end.error ? Json(*end.error) : Json()}};
}

Json ends_object(const EndsSummary& ends) {
  return {{"failed", {{"some", ends.failed.some}, {"all", ends.failed.all}}},
          {"all", mean_object(ends.all)},
          {"trained", mean_object(ends.trained)}};
}

Json setting_objects(const std::vector<SettingSummary>& lines) {
  Json objects = Json::array();
  for (const SettingSummary& one : lines) {
    objects.push_back({{"group", one.group},
                       {"setting", one.setting},
                       {"real", ends_object(one.real)},
                       {"replays", ends_object(one.replays)},
                       {"same_failures", one.same_failures},
                       {"within", coverage_object(one.within)},
                       {"expected_within", one.expected_within}});
  }
  return objects;
}

Json ranking_objects(const std::vector<RankingSummary>& lines) {
  Json objects = Json::array();
  for (const RankingSummary& one : lines) {
    objects.push_back({{"rivals", one.rivals},
                       {"cases", one.cases},
                       {"kendall_tau_b", one.tau},
                       {"regret", one.regret},
                       {"predicted_best", one.first},
                       {"measured_best", one.best}});
  }
  return objects;
}

Json fit_objects(const std::vector<FitSummary>& lines) {
  Json objects = Json::array();
  for (const FitSummary& one : lines) {
    objects.push_back({{"set", one.set},
                       {"fit", {{"right", one.fit_right}, {"wrong", one.fit_wrong}}},
                       {"out_of_memory", {{"right", one.oom_right}, {"wrong", one.oom_wrong}}},
                       {"f1_fits", one.f1_fits()},
                       {"f1_out_of_memory", one.f1_oom()}});
  }
  return objects;
}

Json reliability_objects(const std::vector<FitBin>& bins) {
  Json objects = Json::array();
  for (const FitBin& one : bins) {
    objects.push_back({{"from", one.said.low},
                       {"to", one.said.high},
                       {"runs", one.runs},
                       {"expected_to_fit", one.expected},
                       {"fit", one.fit}});
  }
  return objects;
}

}  // namespace

std::string to_csv(const Validation& validation) {
  Table table({{"source"},     {"group"},    {"case"},   {"strategy"}, {"metric"},
               {"predicted"},  {"measured"}, {"low"},    {"high"},     {"relative_error"},
               {"difference"}, {"distance"}, {"inside"}, {"held_out"}, {"note"},
               {"failure"},    {"by"},       {"points"}, {"right"},    {"failure_probability"}});
  for (const ComparedFile& compared : validation) {
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      const ValidationCase& one = compared.file.cases[i];
      const ComparedCase& told = compared.cases[i];
      for (const ComparedMetric& metric : told.metrics)
        table.row(csv_row(compared.file, one, told, metric));
      if (!told.failure.empty()) table.row(csv_row(compared.file, one, told.failure));
    }
  }
  return table.csv();
}

std::string to_json(const Validation& validation) {
  Json files = Json::array();
  for (const ComparedFile& compared : validation) {
    Json cases = Json::array();
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      cases.push_back(case_object(compared.file.cases[i], compared.cases[i]));
    }
    files.push_back({{"set", compared.file.name},
                     {"source", compared.file.source},
                     {"calibrated", compared.file.calibrated},
                     {"measured", measured_on(compared.file)},
                     {"cases", cases},
                     {"not_predicted", not_predicted_object(compared.file.not_predicted)}});
  }
  const Summary summary = summarize(validation);
  const Json all = {{"schema", "rehearse.validation/2"},
                    {"answer", answer(validation)},
                    {"files", files},
                    {"relative_errors", summary_objects(summary.relative)},
                    {"staleness_differences", summary_objects(summary.staleness)},
                    {"accuracy", accuracy_objects(summary.accuracy)},
                    {"failures", failure_objects(summary.failures)},
                    {"settings", setting_objects(summary.settings)},
                    {"rankings", ranking_objects(summary.rankings)},
                    {"fits", fit_objects(summary.fits)},
                    {"fits_reliability", reliability_objects(summary.reliability)},
                    {"coverage", coverage_object(summary.coverage)},
                    {"scoreboard", scoreboard_object(scoreboard_of(validation))},
                    {"failed", summary.failed}};
  return json_text(all, 2) + "\n";
}

}  // namespace rehearse::inline validation
