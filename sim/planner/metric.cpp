#include "planner/metric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/quantity.hpp"
#include "report/memory_verdict.hpp"
#include "view/cost_views.hpp"

namespace rehearse::inline planner {
namespace {

using Json = nlohmann::json;

/// From here on, digits behind the point say nothing.
constexpr double kLarge = 1000;

/// The value at a path of keys; null where one of them is missing.
const Json& at(const Json& report, const std::vector<std::string>& path) {
  static const Json none;
  const Json* value = &report;
  for (const std::string& key : path) {
    if (!value->is_object() || !value->contains(key)) return none;
    value = &value->at(key);
  }
  return *value;
}

std::optional<double> number_at(const Json& report, const std::vector<std::string>& path) {
  const Json& value = at(report, path);
  if (!value.is_number()) return std::nullopt;
  return value.get<double>();
}

/// The ends that a pair holds; the value itself where there is none.
Estimate<double> with_ends(double value, const Json& pair) {
  const bool whole =
      pair.is_array() && pair.size() == 2 && pair.at(0).is_number() && pair.at(1).is_number();
  if (!whole) return {value, value, value};
  return {value, pair.at(0).get<double>(), pair.at(1).get<double>()};
}

/// A number with the interval of its own key; else, as it takes as long as the training, in
/// proportion to that one's.
std::optional<Estimate<double>> timed_figure(const Json& report,
                                             const std::vector<std::string>& path,
                                             const std::string& key,
                                             const std::optional<Estimate<double>>& training) {
  const std::optional<double> value = number_at(report, path);
  if (!value) return std::nullopt;
  const Json& own = at(report, {"intervals", key});
  if (own.is_array() || !training || training->value <= 0) return with_ends(*value, own);
  return Estimate<double>{*value, *value * training->low / training->value,
                          *value * training->high / training->value};
}

/// The verdict of a whole report.
std::optional<MemoryFit> fit_of(const Json& report) {
  if (!at(report, {"memory", "allocated_peak_bytes"}).is_number()) return std::nullopt;
  return memory_fit(report);
}

/// The value is what is used; its ends are those of what is needed.
Estimate<double> memory_figure(const Json& report, const std::optional<MemoryFit>& fit) {
  const double used = report.at("memory").at("used_bytes").get<double>();
  if (!fit || !fit->interval) return {used, used, used};
  return {used, fit->interval->low.value(), fit->interval->high.value()};
}

}  // namespace

const std::vector<MetricInfo>& metrics() {
  static const std::vector<MetricInfo> all = {
      {Metric::step_time, "step_time_s", "step time", "s", "slower", "faster"},
      {Metric::train_time, "train_time_s", "time to train", "s", "slower", "faster"},
      {Metric::samples_per_s, "samples_per_s", "throughput", "samples/s", "slower", "faster", true},
      {Metric::usd, "usd", "cost", "USD", "dearer", "cheaper"},
      {Metric::energy, "energy_kwh", "energy", "kWh", "more energy", "less energy"},
      {Metric::co2, "co2_kg", "CO2", "kg", "more CO2", "less CO2"},
      {Metric::memory, "memory_bytes", "memory", "B", "more memory", "less memory"},
      {Metric::accuracy, "accuracy", "accuracy", "", "less accurate", "more accurate", true},
      {Metric::gpus, "gpus", "GPUs", "", "more GPUs", "fewer GPUs"},
      {Metric::global_batch, "global_batch", "global batch", "samples", "larger batch",
       "smaller batch"}};
  return all;
}

const MetricInfo& info(Metric metric) {
  const auto found = std::ranges::find(metrics(), metric, &MetricInfo::metric);
  check(found != metrics().end(), "every metric is described");
  return *found;
}

std::string format(Metric metric, double value) {
  switch (metric) {
    case Metric::step_time:
    case Metric::train_time:
      return format(Seconds(value));
    case Metric::memory:
      return format(Bytes(value));
    case Metric::accuracy:
      return fmt::format("{:.2f} %", 100 * value);
    case Metric::usd:
      return money(value) + " USD";
    case Metric::gpus:
      return fmt::format("{:.0f} GPU{}", value, value == 1 ? "" : "s");
    case Metric::global_batch:
      return fmt::format("{:.0f} samples", value);
    case Metric::samples_per_s:
    case Metric::energy:
    case Metric::co2:
      break;
  }
  const std::string number =
      value < kLarge ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
  return number + " " + info(metric).unit;
}

double badness(Metric metric, double value) { return info(metric).more_is_better ? -value : value; }

double best_end(Metric metric, const Estimate<double>& figure) {
  return std::min(badness(metric, figure.low), badness(metric, figure.high));
}

double worst_end(Metric metric, const Estimate<double>& figure) {
  return std::max(badness(metric, figure.low), badness(metric, figure.high));
}

Figures figures_of(const Json& report) {
  Figures figures;
  const auto put = [&](Metric metric, const std::optional<Estimate<double>>& figure) {
    if (figure) figures[metric] = *figure;
  };
  const auto training = timed_figure(report, {"train_time_s"}, "train_time_s", std::nullopt);
  const auto expected =
      timed_figure(report, {"goodput", "expected_time_s"}, "goodput.expected_time_s", training);
  put(Metric::step_time, timed_figure(report, {"step_time_s"}, "step_time_s", std::nullopt));
  put(Metric::train_time, expected ? expected : training);
  put(Metric::samples_per_s, timed_figure(report, {"samples_per_s"}, "samples_per_s", {}));
  put(Metric::usd, timed_figure(report, {"cost", "usd"}, "cost.usd", training));
  put(Metric::energy, timed_figure(report, {"cost", "energy_kwh"}, "cost.energy_kwh", training));
  put(Metric::co2, timed_figure(report, {"cost", "co2_kg"}, "cost.co2_kg", training));
  if (number_at(report, {"memory", "used_bytes"})) {
    const std::optional<MemoryFit> fit = fit_of(report);
    put(Metric::memory, memory_figure(report, fit));
    if (fit) figures.chance_of_fitting = probability_of_fitting(*fit);
  }
  if (const auto accuracy = number_at(report, {"accuracy", "accuracy"})) {
    put(Metric::accuracy, with_ends(*accuracy, at(report, {"accuracy", "accuracy_interval"})));
  }
  return figures;
}

}  // namespace rehearse::inline planner
