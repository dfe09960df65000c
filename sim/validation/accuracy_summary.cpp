#include <algorithm>
#include <cmath>
#include <utility>

#include "validation/summary.hpp"

namespace rehearse::inline validation {
namespace {

/// In points.
struct RunErrors {
  double value = 0;  ///< of what was said of the run
  double mean = 0;   ///< of the mean that was said of runs like it
};

/// A median says nothing of the mean of many runs: a forecast says both.
RunErrors errors_of(const ComparedMetric& metric) {
  return {metric.error, metric.mean ? 100 * (*metric.mean - metric.measured) : metric.error};
}

/// One line, before it is summed up.
struct Collected {
  AccuracySummary line;
  std::vector<std::pair<std::string, std::vector<RunErrors>>> errors;  ///< by setting

  void add(const ComparedMetric& metric) {
    if (metric.kind() == ErrorKind::verdict) {
      ++line.verdicts;
      if (metric.error == 0) ++line.right;
      return;
    }
    const auto known =
        std::ranges::find(errors, metric.setting, &decltype(errors)::value_type::first);
    if (known != errors.end()) {
      known->second.push_back(errors_of(metric));
    } else {
      errors.push_back({metric.setting, {errors_of(metric)}});
    }
    if (const auto inside = metric.inside()) {
      ++line.coverage.intervals;
      line.coverage.inside += *inside ? 1 : 0;
    }
    line.points.intervals += metric.points;
    line.points.inside += metric.points_inside;
  }

  AccuracySummary summed() {
    double sum = 0;
    for (const auto& [setting, of_runs] : errors) {
      double own = 0;
      for (const RunErrors& error : of_runs) {
        ++line.runs;
        own += error.mean;
        sum += std::abs(error.value);
        line.max = std::max(line.max, std::abs(error.value));
      }
      own /= static_cast<double>(of_runs.size());
      if (!line.setting.empty() && std::abs(own) <= std::abs(line.worst_setting)) continue;
      line.worst_setting = own;
      line.setting = setting;
    }
    if (line.runs > 0) line.mean = sum / static_cast<double>(line.runs);
    return line;
  }
};

Collected& line_of(std::vector<Collected>& lines, const ComparedMetric& metric) {
  const auto known = std::ranges::find_if(lines, [&](const Collected& one) {
    return one.line.group == metric.group && one.line.by == metric.by;
  });
  if (known != lines.end()) return *known;
  lines.push_back({.line = {.group = metric.group, .by = metric.by, .setting = {}}, .errors = {}});
  return lines.back();
}

}  // namespace

std::vector<AccuracySummary> summarize_accuracy(const Validation& validation) {
  std::vector<Collected> lines;
  for (const ComparedFile& compared : validation) {
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      if (!compared.file.cases[i].held_out) continue;
      for (const ComparedMetric& metric : compared.cases[i].metrics) {
        if (metric.of_accuracy()) line_of(lines, metric).add(metric);
      }
    }
  }
  std::vector<AccuracySummary> summed;
  summed.reserve(lines.size());
  for (Collected& one : lines) summed.push_back(one.summed());
  return summed;
}

}  // namespace rehearse::inline validation
