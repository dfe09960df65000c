#include "validation/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>

#include "view/page.hpp"

namespace rehearse::inline validation {
namespace {

/// Chance below which misses of inputs are no accident.
constexpr double kUnlikely = 0.01;

const char* const kAll = "all";

/// Calls `take(case, compared case, metric)` for every held-out number that has a prediction.
template <class Take>
void for_each_held_out(const Validation& validation, Take&& take) {
  for (const ComparedFile& compared : validation) {
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      const ValidationCase& one = compared.file.cases[i];
      if (!one.held_out) continue;
      for (const ComparedMetric& metric : compared.cases[i].metrics) {
        take(one, compared.cases[i], metric);
      }
    }
  }
}

void count(const ComparedMetric& metric, Coverage& coverage) {
  const std::optional<bool> inside = metric.inside();
  if (!inside) return;
  ++coverage.intervals;
  if (*inside) ++coverage.inside;
}

/// The errors of one line, before they are summed up.
struct Collected {
  ErrorSummary line;
  std::vector<double> sizes;

  void add(const ComparedMetric& metric) {
    if (metric.kind() == ErrorKind::distance) {
      line.largest_distance = std::max(line.largest_distance.value_or(0), metric.error);
      return;
    }
    sizes.push_back(std::abs(metric.error));
    count(metric, line.coverage);
  }

  ErrorSummary summed() {
    std::ranges::sort(sizes);
    line.cases = sizes.size();
    if (sizes.empty()) return line;
    for (const double size : sizes) line.mean += size / static_cast<double>(sizes.size());
    line.median = (sizes[(sizes.size() - 1) / 2] + sizes[sizes.size() / 2]) / 2;
    const double rank = 0.9 * static_cast<double>(sizes.size());
    line.p90 = sizes[static_cast<std::size_t>(std::ceil(rank)) - 1];
    line.max = sizes.back();
    return line;
  }
};

/// Lines of one table: each group's strategies, then all of them together.
class Lines {
 public:
  void add(const std::string& strategy, const ComparedMetric& metric) {
    std::vector<Collected>& group = group_of(metric.group);
    group.front().add(metric);
    const auto own = std::ranges::find_if(
        group, [&](const Collected& one) { return one.line.strategy == strategy; });
    if (own != group.end()) return own->add(metric);
    group.push_back({.line = {.group = metric.group, .strategy = strategy}, .sizes = {}});
    group.back().add(metric);
  }

  std::vector<ErrorSummary> summed() {
    std::vector<ErrorSummary> lines;
    for (std::vector<Collected>& group : groups_) {
      for (std::size_t i = 1; i < group.size(); ++i) lines.push_back(group[i].summed());
      if (group.size() > 2) lines.push_back(group.front().summed());
    }
    return lines;
  }

 private:
  /// Its first line is that over all strategies.
  std::vector<Collected>& group_of(const std::string& name) {
    for (std::vector<Collected>& group : groups_) {
      if (group.front().line.group == name) return group;
    }
    groups_.push_back({{.line = {.group = name, .strategy = kAll}, .sizes = {}}});
    return groups_.back();
  }

  std::vector<std::vector<Collected>> groups_;
};

/// The lines of groups whose mean is beyond the bound: of all strategies where there are several.
void add_means(const Validation& validation, double bound, std::vector<std::string>& lines) {
  const std::vector<ErrorSummary> groups = summarize(validation).relative;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const bool last = i + 1 == groups.size() || groups[i + 1].group != groups[i].group;
    if (!last || groups[i].mean <= bound) continue;
    lines.push_back(fmt::format("group \"{}\": mean error {}, more than {}", groups[i].group,
                                percent(groups[i].mean), percent(bound)));
  }
}

void add_settings(const Validation& validation, double bound, std::vector<std::string>& lines) {
  for (const AccuracySummary& one : summarize_accuracy(validation)) {
    if (std::abs(one.worst_setting) <= bound) continue;
    lines.push_back(
        fmt::format("group \"{}\", {}: the runs of {} end {:+.2f} points off on average, "
                    "more than {:g}",
                    one.group, one.by, one.setting, one.worst_setting, bound));
  }
}

/// What is wrong with one number; empty if nothing is.
std::string excess(const ComparedMetric& metric, const ErrorBounds& bounds) {
  const double size = std::abs(metric.error);
  switch (metric.kind()) {
    case ErrorKind::relative:
      if (!bounds.max || size <= *bounds.max) return "";
      return fmt::format("error {:+.1f} %, more than {}", 100 * metric.error, percent(*bounds.max));
    case ErrorKind::difference:
      if (!bounds.staleness || size <= *bounds.staleness) return "";
      return fmt::format("off by {:+.2f} updates, more than {:g}", metric.error, *bounds.staleness);
    case ErrorKind::distance:
      if (!bounds.distance || size <= *bounds.distance) return "";
      return fmt::format("distance {:.3f}, more than {:g}", size, *bounds.distance);
    case ErrorKind::points:
      return "";  // settings have a bound, not single runs
    case ErrorKind::verdict:
      if (!bounds.accuracy || metric.error == 0 || metric.metric == kFits) return "";
      return fmt::format("the {} is wrong", metric.by);
  }
  return "";
}

}  // namespace

Summary summarize(const Validation& validation) {
  Summary summary;
  Lines relative, staleness;
  for_each_held_out(validation, [&](const ValidationCase&, const ComparedCase& compared,
                                    const ComparedMetric& metric) {
    count(metric, summary.coverage);
    if (metric.of_accuracy() || metric.metric == kFits) return;
    (metric.kind() == ErrorKind::relative ? relative : staleness).add(compared.strategy, metric);
  });
  summary.relative = relative.summed();
  summary.staleness = staleness.summed();
  summary.accuracy = summarize_accuracy(validation);
  summary.failures = summarize_failures(validation);
  summary.settings = summarize_settings(validation);
  summary.rankings = summarize_rankings(validation);
  summary.fits = summarize_fits(validation);
  summary.reliability = reliability_of_fits(validation);
  summary.failed = failed_cases(validation);
  return summary;
}

std::size_t failed_cases(const Validation& validation) {
  std::size_t failed = 0;
  for (const ComparedFile& compared : validation) {
    failed += static_cast<std::size_t>(std::ranges::count_if(
        compared.cases, [](const ComparedCase& one) { return !one.failure.empty(); }));
  }
  return failed;
}

std::vector<std::string> inputs_outside(const Validation& validation) {
  std::vector<std::string> lines;
  std::size_t inputs = 0;
  for (const ComparedFile& compared : validation) {
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      const ValidationCase& one = compared.file.cases[i];
      if (!one.input) continue;
      for (const ComparedMetric& metric : compared.cases[i].metrics) {
        if (metric.kind() != ErrorKind::relative || !metric.inside()) continue;
        ++inputs;
        if (*metric.inside()) continue;
        lines.push_back(fmt::format("{}: case \"{}\", {}: error {:+.1f} %", compared.file.name,
                                    one.name, metric.metric, 100 * metric.error));
      }
    }
  }
  if (lines.empty()) return lines;
  // The chance that as many or more of 90 % intervals miss.
  const boost::math::binomial_distribution<> misses(static_cast<double>(inputs), 0.1);
  const double chance =
      boost::math::cdf(boost::math::complement(misses, static_cast<double>(lines.size()) - 1));
  return chance < kUnlikely ? lines : std::vector<std::string>();
}

std::vector<std::string> beyond(const Validation& validation, const ErrorBounds& bounds) {
  std::vector<std::string> lines;
  if (bounds.mean) add_means(validation, *bounds.mean, lines);
  if (bounds.accuracy) add_settings(validation, *bounds.accuracy, lines);
  for_each_held_out(validation, [&](const ValidationCase& one, const ComparedCase&,
                                    const ComparedMetric& metric) {
    const std::string text = excess(metric, bounds);
    if (!text.empty()) {
      lines.push_back(fmt::format("case \"{}\", {}: {}", one.name, metric.metric, text));
    }
  });
  return lines;
}

std::vector<std::string> without_numbers(const Validation& validation, const ErrorBounds& bounds) {
  bool relative = false, difference = false, distance = false, accuracy = false;
  for_each_held_out(validation,
                    [&](const ValidationCase&, const ComparedCase&, const ComparedMetric& metric) {
                      relative = relative || metric.kind() == ErrorKind::relative;
                      difference = difference || metric.kind() == ErrorKind::difference;
                      distance = distance || metric.kind() == ErrorKind::distance;
                      accuracy = accuracy || metric.of_accuracy();
                    });
  std::vector<std::string> missing;
  if ((bounds.mean || bounds.max) && !relative) missing.emplace_back("relative error");
  if (bounds.staleness && !difference) missing.emplace_back("mean staleness");
  if (bounds.distance && !distance) missing.emplace_back("distribution of staleness");
  if (bounds.accuracy && !accuracy) missing.emplace_back("accuracy");
  return missing;
}

}  // namespace rehearse::inline validation
