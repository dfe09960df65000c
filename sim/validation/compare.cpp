#include "validation/compare.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/child_pool.hpp"
#include "config/json/json_text.hpp"
#include "report/memory_verdict.hpp"
#include "validation/facets.hpp"
#include "validation/foretold.hpp"

namespace rehearse::inline validation {
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
std::optional<Ends<double>> interval_of(const Json& report, const std::string& metric) {
  const auto intervals = report.find("intervals");
  if (intervals == report.end() || !intervals->is_object()) return std::nullopt;
  const auto interval = intervals->find(metric);
  if (interval == intervals->end() || interval->is_null()) return std::nullopt;
  return Ends<double>{interval->at(0).get<double>(), interval->at(1).get<double>()};
}

/// Of the metric's interval; where it has none, nothing.
std::vector<Mechanism> mechanisms_of(const Json& report, const std::string& metric) {
  std::string of = "time";
  if (metric == "memory.used_bytes") of = "memory.used";
  if (metric == "memory.allocated_peak_bytes") of = "memory.allocated";
  if (of == "time" && metric.starts_with("memory.")) return {};
  std::vector<Mechanism> mechanisms;
  for (const Json& one : at_key(report, "interval_basis." + of))
    mechanisms.push_back({.name = one.at("name").get<std::string>(),
                          .share = one.at("share").get<double>(),
                          .error = one.at("half_width").get<double>()});
  return mechanisms;
}

/// The calibrator's name of a report's strategy.
std::string real_strategy(const std::string& strategy) {
  if (strategy.starts_with("fsdp")) return "fsdp";
  if (strategy.starts_with("ps bsp")) return "ps-sync";
  if (strategy.starts_with("ps ssp")) return "ps-ssp";
  return strategy.starts_with("ps asp") ? "ps-async" : strategy;
}

/// Two runs of different things have no error.
void check_same_run(const ValidationCase& one, const Json& report) {
  const auto same = [&](const char* what, const auto& predicted, const auto& measured) {
    if (predicted == measured) return;
    one.recorded_at->fail(fmt::format("the scenario's {} is {}, that of the recorded run {}", what,
                                      predicted, measured),
                          "change the scenario with set:, or name a run of this scenario");
  };
  if (one.recorded) {
    same("strategy", real_strategy(report.at("strategy")), one.recorded->strategy);
    same("precision", report.at("precision").get<std::string>(), one.recorded->precision);
  }
  const auto& [model, batch, ranks] =
      one.recorded
          ? std::tuple(one.recorded->model, one.recorded->batch, one.recorded->ranks)
          : std::tuple(one.learned->real.model, static_cast<std::int64_t>(one.learned->real.batch),
                       std::size_t{one.learned->real.workers});
  same("model", report.at("model").get<std::string>(), model);
  same("batch per GPU", report.at("batch_per_gpu").get<std::int64_t>(), batch);
  same("number of ranks", report.at("ranks").get<std::size_t>(), ranks);
}

StalenessHistogram measured_staleness(const ValidationCase& one) {
  if (one.recorded) return one.recorded->staleness;
  return one.learned->real.staleness.histogram;
}

ComparedMetric compare_metric(const ValidationCase& one, const Measurement& measurement,
                              const Json& report) {
  const std::string& metric = measurement.metric;
  ComparedMetric result{.metric = metric, .group = one.group, .interval = std::nullopt};
  if (metric.starts_with("memory.")) result.group += ", memory";
  if (error_kind(metric) == ErrorKind::distance) {
    const Json histogram = at_key(report, "staleness.histogram");
    if (!histogram.is_object()) throw InputError("error: the report has no staleness");
    result.error = distance(read_histogram(histogram), measured_staleness(one));
    return result;
  }
  if (metric == kFits) {
    const Json fits = at_key(report, metric);
    if (!fits.is_boolean()) throw InputError("error: the report does not say whether it fits");
    result.measured = measurement.value;
    result.predicted = fits.get<bool>() ? 1 : 0;
    result.error = result.predicted == result.measured ? 0 : 1;
    if (at_key(report, "memory.capacity_bytes").is_number())
      if (const auto fit = memory_fit(report)) result.fits_chance = probability_of_fitting(*fit);
    return result;
  }
  // A real worker times its own steps, which of an asynchronous server's are no global batch.
  const bool own =
      one.recorded && metric == "step_time_s" && at_key(report, "worker_step_time_s").is_number();
  const std::string key = own ? "worker_step_time_s" : metric;
  result.measured = measurement.value;
  result.predicted = number_at(report, key);
  result.interval = interval_of(report, key);
  result.mechanisms = mechanisms_of(report, key);
  result.error = result.predicted - result.measured;
  if (error_kind(metric) == ErrorKind::relative) result.error /= result.measured;
  return result;
}

/// A row for each that foretold it: replays, then the forecast.
void compare_learned(const ValidationCase& one, const Measurement& measurement,
                     const std::vector<Foretold>& all, std::vector<ComparedMetric>& rows) {
  for (const Foretold& told : all) {
    // A failed run has no accuracy to be off by, on either side.
    if (measurement.metric == kAccuracy && told.failed) continue;
    ComparedMetric row{.metric = measurement.metric,
                       .group = one.group,
                       .measured = measurement.value,
                       .interval = std::nullopt,
                       .by = told.by,
                       .means = told.means,
                       .setting = one.learned->setting};
    if (measurement.metric == kDiverges) {
      row.predicted = told.failed ? 1 : 0;
      row.error = row.predicted == row.measured ? 0 : 1;
      row.odds = told.odds;
    } else {
      row.predicted = told.accuracy;
      row.error = 100 * (row.predicted - row.measured);
      row.interval = told.interval;
      row.mean = told.mean;
      row.points = told.points;
      row.points_inside = told.points_inside;
    }
    rows.push_back(std::move(row));
  }
}

}  // namespace

std::optional<bool> ComparedMetric::inside() const {
  if (!interval) return std::nullopt;
  return interval->low <= measured && measured <= interval->high;
}

ComparedCase compare(const ValidationCase& one, const std::string& report_text) {
  const Json report = parsed_json(report_text);
  ComparedCase result;
  result.strategy = report.at("strategy");
  result.facets = facets_of(report);
  if (one.recorded_at) check_same_run(one, report);
  const std::vector<Foretold> told =
      one.learned ? foretold(*one.learned, report_text) : std::vector<Foretold>{};
  for (const Measurement& measurement : one.measured) {
    if (measurement.metric == kAccuracy || measurement.metric == kDiverges)
      compare_learned(one, measurement, told, result.metrics);
    else
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
      one = {.strategy = "",
             .metrics = {},
             .code = error.code(),
             .failure = error.what(),
             .facets = {}};
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

}  // namespace rehearse::inline validation
