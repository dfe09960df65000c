#include "validation/cells.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "report/common_errors.hpp"
#include "view/page.hpp"

namespace rehearse::inline validation {
namespace {

std::string number_words(double value) {
  return std::abs(value) < 1000 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

}  // namespace

std::string signed_words(double value, int decimals) {
  const double unit = std::pow(10, -decimals);
  return fmt::format("{:+.{}f}", std::abs(value) < unit / 2 ? 0.0 : value, decimals);
}

std::string metric_words(const std::string& metric) {
  static const std::map<std::string, std::string> words = {
      {"step_time_s", "step time"},
      {"epoch_time_s", "epoch"},
      {"train_time_s", "training"},
      {"samples_per_s", "throughput"},
      {"memory.allocated_peak_bytes", "peak memory"},
      {"memory.reserved_peak_bytes", "peak reserved"},
      {kStalenessMean, "staleness"},
      {kDiverges, "verdict"},
      {kFits, "fit"},
      {"memory.used_bytes", "used memory"},
      {kStalenessDistance, "staleness KS"}};
  const auto found = words.find(metric);
  return found == words.end() ? metric : found->second;
}

std::string metric_words(const ComparedMetric& metric) {
  const std::string words = metric_words(metric.metric);
  return metric.by.empty() ? words : fmt::format("{}, {}", words, metric.by);
}

std::string value_words(const std::string& metric, double value) {
  if (metric == kAccuracy) return fmt::format("{:.2f} %", 100 * value);
  if (metric == kDiverges) return value > 0 ? "diverges" : "trains";
  if (metric == kFits) return value > 0 ? "fits" : "no";
  if (metric == "samples_per_s") return number_words(value) + " samples/s";
  if (metric == kStalenessMean) return fmt::format("{:.{}f} updates", value, value < 10 ? 2 : 1);
  if (metric == "cost.usd") return fmt::format("{:.2f} USD", value);
  if (metric.ends_with("_bytes")) return format(Bytes(value));
  if (metric.ends_with("_s") && !metric.ends_with("_per_s")) return format(Seconds(value));
  return number_words(value);
}

std::string predicted_words(const ComparedMetric& metric) {
  if (metric.kind() == ErrorKind::distance) return kNothing;
  return metric.odds ? metric.odds->verdict : value_words(metric.metric, metric.predicted);
}

std::string measured_words(const ComparedMetric& metric) {
  if (metric.kind() == ErrorKind::distance) return kNothing;
  return value_words(metric.metric, metric.measured);
}

std::string interval_words(const ComparedMetric& metric) {
  if (metric.odds) return percent(metric.odds->failure_probability) + " fail";
  if (metric.fits_chance) return fmt::format("fits with {}", chance_words(*metric.fits_chance));
  if (!metric.interval) return kNothing;
  const std::string low = value_words(metric.metric, metric.interval->low);
  const std::string high = value_words(metric.metric, metric.interval->high);
  // A unit that both share is said once.
  const auto space = low.find(' ');
  const bool shared = space != std::string::npos && space == low.rfind(' ') &&
                      high.ends_with(low.substr(space)) && high.find(' ') == high.rfind(' ');
  return fmt::format("{} to {}", shared ? low.substr(0, space) : low, high);
}

std::string error_words(const ComparedMetric& metric) {
  switch (metric.kind()) {
    case ErrorKind::relative:
      return signed_words(100 * metric.error, 1) + " %";
    case ErrorKind::difference:
      return signed_words(metric.error, 2);
    case ErrorKind::distance:
      return fmt::format("{:.2f}", metric.error);
    case ErrorKind::points:
      return signed_words(metric.error, 2) + " points";
    case ErrorKind::verdict:
      return metric.error == 0 ? "right" : "wrong";
  }
  return kNothing;
}

std::string inside_words(const ComparedMetric& metric) {
  const std::optional<bool> inside = metric.inside();
  if (!inside) return kNothing;
  return *inside ? "yes" : "no";
}

std::string coverage_words(std::size_t inside, std::size_t intervals) {
  if (intervals == 0) return kNothing;
  return fmt::format("{:.0f} % ({} of {})",
                     100 * static_cast<double>(inside) / static_cast<double>(intervals), inside,
                     intervals);
}

std::string failed_words(std::size_t failed) {
  return fmt::format("{} {} no prediction.", failed, failed == 1 ? "case has" : "cases have");
}

std::string measured_on(const CaseFile& file) {
  constexpr std::size_t kDay = 10;  // "2026-11-20"
  std::set<std::string> hardware, days;
  std::size_t runs = 0;
  for (const ValidationCase& one : file.cases) {
    if (!one.recorded) continue;
    ++runs;
    hardware.insert(one.recorded->hardware);
    days.insert(one.recorded->date.substr(0, kDay));
  }
  if (runs == 0) return "";
  const std::string period =
      days.size() == 1 ? *days.begin() : fmt::format("{} to {}", *days.begin(), *days.rbegin());
  return fmt::format("{} {} on {}, {}", runs, runs == 1 ? "run" : "runs",
                     fmt::join(hardware, " and "), period);
}

}  // namespace rehearse::inline validation
