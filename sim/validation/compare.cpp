#include "validation/compare.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/child_pool.hpp"

namespace rehearse {
namespace {

using Json = nlohmann::json;

/// The value at a dotted key of a report; null if there is none.
Json at_key(const Json& report, const std::string& metric) {
  const Json* at = &report;
  for (std::size_t begin = 0; begin <= metric.size();) {
    const std::size_t end = std::min(metric.find('.', begin), metric.size());
    const auto key = metric.substr(begin, end - begin);
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &at->at(key);
    begin = end + 1;
  }
  return *at;
}

double number_at(const Json& report, const std::string& metric) {
  const Json value = at_key(report, metric);
  if (value.is_number()) return value.get<double>();
  throw InputError(fmt::format("error: the report has no number \"{}\"", metric));
}

/// `intervals` has the metrics' whole names as keys.
std::optional<Range> interval_of(const Json& report, const std::string& metric) {
  const auto intervals = report.find("intervals");
  if (intervals == report.end() || !intervals->is_object()) return std::nullopt;
  const auto interval = intervals->find(metric);
  if (interval == intervals->end() || interval->is_null()) return std::nullopt;
  return Range{interval->at(0).get<double>(), interval->at(1).get<double>()};
}

/// The calibrator's name of a report's strategy.
std::string real_strategy(const std::string& strategy) {
  if (strategy.starts_with("fsdp")) return "fsdp";
  if (strategy.starts_with("ps bsp")) return "ps-sync";
  if (strategy.starts_with("ps ssp")) return "ps-ssp";
  return strategy == "ps asp" ? "ps-async" : strategy;
}

/// Two runs of different things have no error.
void check_same_run(const ValidationCase& one, const Json& report) {
  const RecordedRun& run = *one.recorded;
  const auto same = [&](const char* what, const auto& predicted, const auto& measured) {
    if (predicted == measured) return;
    one.recorded_at->fail(fmt::format("the scenario's {} is {}, that of the recorded run {}", what,
                                      predicted, measured),
                          "change the scenario with set:, or name a run of this scenario");
  };
  same("strategy", real_strategy(report.at("strategy")), run.strategy);
  same("model", report.at("model").get<std::string>(), run.model);
  same("precision", report.at("precision").get<std::string>(), run.precision);
  same("batch per GPU", report.at("batch_per_gpu").get<std::int64_t>(), run.batch);
  same("number of ranks", report.at("ranks").get<std::size_t>(), run.ranks);
}

ComparedMetric compare_metric(const ValidationCase& one, const Measurement& measurement,
                              const Json& report) {
  const std::string& metric = measurement.metric;
  ComparedMetric result{.metric = metric, .group = one.group, .interval = std::nullopt};
  if (metric.starts_with("memory.")) result.group += ", memory";
  if (error_kind(metric) == ErrorKind::distance) {
    const Json histogram = at_key(report, "staleness.histogram");
    if (!histogram.is_object()) throw InputError("error: the report has no staleness");
    result.error = distance(read_histogram(histogram), one.recorded->staleness);
    return result;
  }
  result.measured = measurement.value;
  result.predicted = number_at(report, metric);
  result.interval = interval_of(report, metric);
  result.error = result.predicted - result.measured;
  if (error_kind(metric) == ErrorKind::relative) result.error /= result.measured;
  return result;
}

}  // namespace

std::optional<bool> ComparedMetric::inside() const {
  if (!interval) return std::nullopt;
  return interval->low <= measured && measured <= interval->high;
}

ComparedCase compare(const ValidationCase& one, const std::string& report_text) {
  const Json report = Json::parse(report_text);
  ComparedCase result;
  result.strategy = report.at("strategy");
  if (one.recorded) check_same_run(one, report);
  for (const Measurement& measurement : one.measured) {
    result.metrics.push_back(compare_metric(one, measurement, report));
  }
  return result;
}

Validation compare(std::vector<CaseFile> files, const Predict& predict, std::size_t jobs,
                   const std::function<void(std::size_t, std::size_t)>& progress) {
  std::vector<const ValidationCase*> all;
  for (const CaseFile& file : files) {
    for (const ValidationCase& one : file.cases) all.push_back(&one);
  }
  const std::vector<ChildEnd> ends = in_child_processes(
      all.size(), jobs, [&](std::size_t i) { return predict(*all[i]); },
      [&](std::size_t done) {
        if (progress) progress(done, all.size());
      });
  std::vector<ComparedCase> compared(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    ComparedCase& one = compared[i];
    try {
      if (ends[i].code != ExitCode::success) throw Error(ends[i].code, ends[i].text);
      one = compare(*all[i], ends[i].text);
    } catch (const Error& error) {
      one = {.strategy = "", .metrics = {}, .code = error.code(), .failure = error.what()};
    }
  }
  Validation validation;
  auto next = std::make_move_iterator(compared.begin());
  for (CaseFile& file : files) {
    const auto end = next + static_cast<std::ptrdiff_t>(file.cases.size());
    validation.push_back({.file = std::move(file), .cases = {next, end}});
    next = end;
  }
  return validation;
}

void throw_failures(const Validation& validation) {
  std::string text;
  auto code = ExitCode::success;
  for (const ComparedFile& compared : validation) {
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      const ComparedCase& one = compared.cases[i];
      if (one.failure.empty()) continue;
      if (text.empty()) code = one.code;
      text += fmt::format("{}case \"{}\": {}", text.empty() ? "" : "\n",
                          compared.file.cases[i].name, one.failure);
    }
  }
  if (!text.empty()) throw Error(code, text);
}

}  // namespace rehearse
