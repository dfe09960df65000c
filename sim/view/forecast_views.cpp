#include "view/forecast_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "config/json/json_text.hpp"
#include "view/table.hpp"

namespace rehearse::inline view {
namespace {

using Json = nlohmann::ordered_json;

// --- terminal ------------------------------------------------------------------------------------

constexpr std::size_t kWidest = 110;
constexpr std::size_t kVerdictCount = 3;

std::string samples_text(double samples) {
  return std::isfinite(samples) ? fmt::format("{:.0f}", samples) : "never";
}

std::string estimate_text(const Estimate<double>& estimate, std::string (*text)(double)) {
  return fmt::format("{} to {}", text(estimate.low), text(estimate.high));
}

Ink ink_of(Verdict verdict) { return verdict == Verdict::converges ? Ink::good : Ink::bad; }

void add_fit(const ForecastReport& report, Page& page) {
  const ConvergenceModel& model = report.model;
  page.paragraph(Ink::strong, report.curves.subject);
  if (!report.curves.differences.empty()) page.paragraph(Ink::bad, report.curves.words());
  page.paragraph(
      Ink::faint,
      fmt::format("fitted to {} {} of {} {}, {} of which failed; {}", model.runs,
                  model.runs == 1 ? "run" : "runs", model.settings,
                  model.settings == 1 ? "setting" : "settings", model.failed_runs,
                  model.held_out_error
                      ? fmt::format("settings left out are forecast to {:.1f} points on average",
                                    100 * *model.held_out_error)
                      : "none can be left out to try the fit on: add curves of other settings"));
}

void add_target(const StrategyForecast& told, Page& page) {
  const Estimate<double>& samples = told.samples_to_target;
  std::string text = samples_text(samples.value) + " samples";
  if (std::isfinite(samples.value)) {
    text += fmt::format(" ({})", estimate_text(samples, samples_text));
    if (told.time_to_target) text += ", " + format(*told.time_to_target);
    if (told.samples_multiplier)
      text += fmt::format(", {:.3g} times those of fresh gradients", *told.samples_multiplier);
  }
  page.wrapped_field("to " + percent(*told.target), Ink::plain, text);
}

void add_strategy(const StrategyForecast& told, Page& page) {
  page.blank();
  page.paragraph(Ink::strong, told.name);
  page.field("accuracy", page.ink(Ink::strong, left(percent(told.accuracy.value), 18)) +
                             estimate_text(told.accuracy, percent) + " (90 % interval)");
  std::string when = fmt::format("after {:.0f} samples", told.samples);
  if (told.time) when += ", " + format(*told.time);
  page.wrapped_field(
      "", Ink::plain,
      fmt::format("{}; {:+.1f} points by staleness", when, -100 * told.staleness_loss));
  if (told.verdict != Verdict::diverges)
    page.wrapped_field(
        "", Ink::plain,
        "the median of runs that train; their mean is " + percent(told.mean_accuracy));
  if (told.target) add_target(told, page);
  page.field("verdict", page.ink(ink_of(told.verdict), to_string(told.verdict)) +
                            fmt::format(" (fails with {:.1f} %; at {:.2f} of the stability edge)",
                                        100 * told.failure_probability, told.stability_index));
  std::string setting = fmt::format(
      "staleness mean {:.2f}, 99 % up to {}; learning rate {:.4g}, momentum {:.4g}, {:.0f} samples "
      "per update",
      told.mean_staleness, told.p99_staleness, told.learning_rate, told.momentum,
      told.samples_per_update);
  if (told.delay_compensation > 0)
    setting += fmt::format(", delay compensation {:.4g}", told.delay_compensation);
  page.wrapped_field("setting", Ink::faint, setting);
  std::string outside;
  for (const Doubt& doubt : told.outside_calibration)
    outside += (outside.empty() ? "" : "; ") + doubt.text;
  if (!outside.empty()) page.wrapped_field("uncalibrated", Ink::bad, outside);
}

/// Many strategies side by side, a line each; red where training fails.
void add_comparison(const ForecastReport& report, Page& page) {
  using enum TableColumn::Side;
  Table table({{"strategy", left},
               {"stale"},
               {"samples/s", right, true},
               {"accuracy"},
               {"90 % interval", left},
               {"fails"},
               {"target after", right, true}});
  for (const StrategyForecast& told : report.strategies) {
    const std::optional<Seconds>& time = told.time_to_target;
    table.row({.cells = {told.name, fmt::format("{:.2f}", told.mean_staleness),
                         told.pace ? fmt::format("{:.4g}", told.pace->samples_per_s) : "",
                         percent(told.accuracy.value), estimate_text(told.accuracy, percent),
                         percent(told.failure_probability),
                         !time                          ? ""
                         : std::isfinite(time->value()) ? format(*time)
                                                        : "never"},
               .ink = told.verdict == Verdict::converges ? Ink::plain : Ink::bad});
  }
  page.blank();
  table.print(page);
}

/// What each doubt is about, "mean staleness", and the first of its kind.
void add_doubts(const ForecastReport& report, Page& page) {
  std::vector<std::string> subjects;
  std::string text;
  for (const StrategyForecast& told : report.strategies) {
    for (const Doubt& doubt : told.outside_calibration) {
      if (std::ranges::find(subjects, doubt.subject) != subjects.end()) continue;
      subjects.push_back(doubt.subject);
      text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", doubt.text, told.name);
    }
  }
  if (!text.empty()) page.wrapped_field("uncalibrated", Ink::bad, text);
}

std::string best_text(const ForecastReport& report) {
  const std::optional<std::size_t> best = best_of(report.strategies);
  if (!best) return "none of them gets there";
  const StrategyForecast& told = report.strategies[*best];
  if (!told.target)
    return fmt::format("{}: {} after {}", told.name, percent(told.accuracy.value),
                       told.time ? format(*told.time) : samples_text(told.samples) + " samples");
  return fmt::format("{}: {} after {}", told.name, percent(*told.target),
                     told.time_to_target ? format(*told.time_to_target)
                                         : samples_text(told.samples_to_target.value) + " samples");
}

/// Says in a sentence, which stands first, what it comes to.
std::string answer_of(const ForecastReport& report) {
  if (report.strategies.empty()) return "";
  const std::string by = report.curves.differences.empty()
                             ? ""
                             : fmt::format("By curves of {}: ", report.curves.subject);
  if (report.compared) return fmt::format("{}Best: {}.", by, best_text(report));
  const StrategyForecast& told = report.strategies.front();
  return fmt::format("{}{} accuracy ({}, 90 %) after {} samples{}: {}, fails with {}.", by,
                     percent(told.accuracy.value), estimate_text(told.accuracy, percent),
                     samples_text(told.samples), told.time ? ", " + format(*told.time) : "",
                     to_string(told.verdict), percent(told.failure_probability));
}

// --- data ----------------------------------------------------------------------------------------

/// Infinity is no number in JSON.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }
Json seconds(const std::optional<Seconds>& time) { return time ? number(time->value()) : Json(); }
template <class Value>
Json optional(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}
Json bounds(const Estimate<double>& estimate) {
  return Json::array({number(estimate.low), number(estimate.high)});
}

Json model_object(const ForecastReport& report) {
  const ConvergenceModel& model = report.model;
  return {{"network", report.network},
          {"dataset", report.dataset},
          {"differs", report.curves.differences.empty() ? Json() : Json(report.curves.words())},
          {"runs", model.runs},
          {"settings", model.settings},
          {"failed_runs", model.failed_runs},
          {"held_out_error", optional(model.held_out_error)},
          {"interval_inflation", model.inflation},
          {"curvature_noise", model.curvature_noise},
          {"fails_half_at_index", model.odds.index_at(0.5)}};
}

Json curve_list(const StrategyForecast& told) {
  Json list = Json::array();
  for (const ForecastPoint& point : told.curve) {
    list.push_back({{"time_s", seconds(point.time)},
                    {"samples", point.samples},
                    {"accuracy", point.accuracy.value},
                    {"accuracy_interval", bounds(point.accuracy)}});
  }
  return list;
}

Json target_object(const StrategyForecast& told) {
  if (!told.target) return nullptr;
  const Estimate<double>& samples = told.samples_to_target;
  return {{"accuracy", *told.target},
          {"samples", number(samples.value)},
          {"samples_interval", bounds(samples)},
          {"time_s", seconds(told.time_to_target)},
          {"samples_multiplier", optional(told.samples_multiplier)}};
}

// --- data, read ----------------------------------------------------------------------------------

double read_number(const JsonPlace& json) { return json.number(); }
/// Null is infinite.
double read_unbounded(const JsonPlace& json) {
  return json.number_or_null().value_or(std::numeric_limits<double>::infinity());
}
std::optional<Seconds> read_time(const JsonPlace& json) {
  return json.or_null([](const JsonPlace& time) { return Seconds(time.number()); });
}

Estimate<double> read_accuracy(const JsonPlace& json) {
  const Ends<double> interval = json.at("accuracy_interval").ends(read_number);
  return {json.at("accuracy").number(), interval.low, interval.high};
}

ForecastPoint read_point(const JsonPlace& json) {
  return {.samples = json.at("samples").number(),
          .time = read_time(json.at("time_s")),
          .accuracy = read_accuracy(json)};
}

void read_target(const JsonPlace& json, StrategyForecast& told) {
  told.target = json.at("accuracy").number();
  const Ends<double> interval = json.at("samples_interval").ends(read_unbounded);
  told.samples_to_target = {read_unbounded(json.at("samples")), interval.low, interval.high};
  told.samples_multiplier = json.at("samples_multiplier").number_or_null();
  told.time_to_target = read_time(json.at("time_s"));
  if (!told.time_to_target && told.pace)
    told.time_to_target = Seconds(std::numeric_limits<double>::infinity());
}

}  // namespace

Json json_view(const StrategyForecast& told) {
  Json doubts = Json::array();
  for (const Doubt& doubt : told.outside_calibration) doubts.push_back(doubt.text);
  return {{"name", told.name},
          {"staleness", {{"mean", told.mean_staleness}, {"p99", told.p99_staleness}}},
          {"learning_rate", told.learning_rate},
          {"momentum", told.momentum},
          {"delay_compensation", told.delay_compensation},
          {"samples_per_update", told.samples_per_update},
          {"samples_per_s", told.pace ? Json(told.pace->samples_per_s) : Json(nullptr)},
          {"stability_index", told.stability_index},
          {"failure_probability", told.failure_probability},
          {"verdict", to_string(told.verdict)},
          {"samples", told.samples},
          {"time_s", seconds(told.time)},
          {"accuracy", told.accuracy.value},
          {"accuracy_interval", bounds(told.accuracy)},
          {"accuracy_mean", told.mean_accuracy},
          {"staleness_loss", told.staleness_loss},
          {"target", target_object(told)},
          {"curve", curve_list(told)},
          {"outside_calibration", doubts}};
}

StrategyForecast strategy_forecast(const JsonPlace& json) {
  StrategyForecast told;
  told.name = json.at("name").text();
  told.mean_staleness = json.at("staleness").at("mean").number();
  told.p99_staleness = json.at("staleness").at("p99").whole<std::size_t>();
  told.learning_rate = json.at("learning_rate").number();
  told.momentum = json.at("momentum").number();
  told.delay_compensation = json.at("delay_compensation").number();
  told.samples_per_update = json.at("samples_per_update").number();
  if (const auto rate = json.at("samples_per_s").number_or_null())
    told.pace = Pace{.samples_per_s = *rate, .samples_per_update = told.samples_per_update};
  told.stability_index = json.at("stability_index").number();
  told.failure_probability = json.at("failure_probability").number();
  told.verdict = json.at("verdict").named<Verdict>(kVerdictCount);
  told.samples = json.at("samples").number();
  told.time = read_time(json.at("time_s"));
  told.accuracy = read_accuracy(json);
  told.mean_accuracy = json.at("accuracy_mean").number();
  told.staleness_loss = json.at("staleness_loss").number();
  json.at("target").or_null([&](const JsonPlace& target) {
    read_target(target, told);
    return true;
  });
  told.curve = json.at("curve").list(read_point);
  for (const JsonPlace& doubt : json.at("outside_calibration").list())
    told.outside_calibration.push_back({.subject = "", .text = doubt.text()});
  return told;
}

std::string to_table(const ForecastReport& report, int width, bool color) {
  Page page(std::clamp<std::size_t>(static_cast<std::size_t>(width), 60, kWidest), color);
  page.paragraph(Ink::strong, answer_of(report));
  page.blank();
  add_fit(report, page);
  if (!report.compared) {
    for (const StrategyForecast& told : report.strategies) add_strategy(told, page);
    return page.text();
  }
  add_comparison(report, page);
  page.blank();
  add_doubts(report, page);
  page.wrapped_field("best", Ink::strong, best_text(report));
  return page.text();
}

std::string to_json(const ForecastReport& report) {
  Json json;
  json["schema"] = "rehearse.forecast/1";
  json["answer"] = answer_of(report);
  json["model"] = model_object(report);
  json["strategies"] = Json::array();
  for (const StrategyForecast& told : report.strategies)
    json["strategies"].push_back(json_view(told));
  const std::optional<std::size_t> best = best_of(report.strategies);
  json["best"] = report.compared && best ? Json(report.strategies[*best].name) : Json();
  return json_text(json, 2) + "\n";
}

std::string to_csv(const ForecastReport& report) {
  std::string csv = "strategy,time_s,samples,accuracy,accuracy_low,accuracy_high\n";
  for (const StrategyForecast& told : report.strategies) {
    for (const ForecastPoint& point : told.curve) {
      csv +=
          fmt::format("\"{}\",{},{:.10g},{:.6f},{:.6f},{:.6f}\n", told.name,
                      point.time ? fmt::format("{:.10g}", point.time->value()) : "", point.samples,
                      point.accuracy.value, point.accuracy.low, point.accuracy.high);
    }
  }
  return csv;
}

}  // namespace rehearse::inline view
