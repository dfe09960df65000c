#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report/page.hpp"
#include "validation/cells.hpp"
#include "validation/page_table.hpp"
#include "validation/views.hpp"

namespace rehearse {
namespace {

/// An interval does not hold what was measured, or a verdict is wrong.
bool is_missed(const ComparedMetric& metric) {
  return !metric.inside().value_or(true) ||
         (metric.kind() == ErrorKind::verdict && metric.error != 0);
}

TableLine line_of(const ValidationCase& one, const ComparedMetric& metric, bool first) {
  const std::string error = error_words(metric);
  return {.cells = {first ? one.name : "", metric_words(metric), predicted_words(metric),
                    interval_words(metric), measured_words(metric),
                    one.held_out ? error + " " : fmt::format("({})", error), inside_words(metric)},
          .ink = is_missed(metric) ? Ink::bad : Ink::plain};
}

void add_file(Page& page, const ComparedFile& compared) {
  const CaseFile& file = compared.file;
  page.paragraph(Ink::strong, file.source);
  if (!file.calibrated.empty()) page.paragraph(Ink::plain, "calibrated on: " + file.calibrated);
  if (const std::string runs = measured_on(file); !runs.empty())
    page.paragraph(Ink::plain, "measured: " + runs);
  std::vector<TableLine> lines;
  for (std::size_t i = 0; i < file.cases.size(); ++i) {
    const ComparedCase& one = compared.cases[i];
    if (!one.failure.empty()) {
      lines.push_back({.cells = {file.cases[i].name},
                       .running_on = "failed: " + first_line(one.failure),
                       .ink = Ink::bad});
    }
    for (const ComparedMetric& metric : one.metrics) {
      lines.push_back(line_of(file.cases[i], metric, &metric == one.metrics.data()));
    }
  }
  add_table(page, {"case", "", "predicted", "90 % interval", "measured", "error ", "inside"}, lines,
            2);
  if (const NotPredicted& others = file.not_predicted; !others.cases.empty()) {
    page.paragraph(Ink::faint, fmt::format("not predicted: {} published numbers; {}",
                                           others.cases.size(), others.why));
  }
  page.blank();
}

void add_summary(Page& page, const Summary& summary) {
  std::vector<TableLine> lines;
  for (const ErrorSummary& one : summary.relative) {
    lines.push_back(
        {{one.group, one.strategy, std::to_string(one.cases),
          fmt::format("{:.1f} %", 100 * one.mean), fmt::format("{:.1f} %", 100 * one.median),
          fmt::format("{:.1f} %", 100 * one.max),
          coverage_words(one.coverage.inside, one.coverage.intervals)}});
  }
  if (!lines.empty()) {
    add_table(page, {"absolute error", "strategy", "numbers", "mean", "median", "most", "inside"},
              lines, 2);
    page.blank();
  }
  lines.clear();
  for (const ErrorSummary& one : summary.staleness) {
    const auto in_updates = [&](double value) {
      return one.cases == 0 ? std::string("-") : fmt::format("{:.2f}", value);
    };
    lines.push_back(
        {{one.group, one.strategy, std::to_string(one.cases), in_updates(one.mean),
          in_updates(one.max),
          one.largest_distance ? fmt::format("{:.2f}", *one.largest_distance) : std::string("-"),
          coverage_words(one.coverage.inside, one.coverage.intervals)}});
  }
  if (!lines.empty()) {
    add_table(page,
              {"staleness, in updates", "strategy", "numbers", "mean off by", "most", "most KS",
               "inside"},
              lines, 2);
    page.blank();
  }
}

/// Lines that each begin with the name of what they are of; nothing where there are none.
class NamedTable {
 public:
  void add(const std::string& name, std::vector<std::string> cells) {
    cells.insert(cells.begin(), name);
    lines_.push_back({.cells = std::move(cells)});
  }

  /// `names`: what the names are of. The first `words` columns are to the left.
  void print(Page& page, const std::string& names, std::vector<std::string> titles,
             std::size_t words) const {
    if (lines_.empty()) return;
    titles.insert(titles.begin(), names);
    add_table(page, titles, lines_, words);
    page.blank();
  }

 private:
  std::vector<TableLine> lines_;
};

void add_learned(Page& page, const Summary& summary) {
  NamedTable accuracy, failures, settings;
  for (const AccuracySummary& one : summary.accuracy) accuracy.add(one.group, accuracy_cells(one));
  for (const FailureSummary& one : summary.failures) failures.add(one.verdict, failure_cells(one));
  for (const SettingSummary& one : summary.settings) settings.add(one.setting, setting_cells(one));
  accuracy.print(page, "accuracy, in points", kAccuracyTitles, 2);
  failures.print(page, "verdict of forecasts", kFailureTitles, 1);
  settings.print(page, "ends by setting, in %", kSettingTitles, 1);
}

void add_rankings(Page& page, const Summary& summary) {
  NamedTable rankings;
  for (const RankingSummary& one : summary.rankings) rankings.add(one.rivals, ranking_cells(one));
  rankings.print(page, "order of", kRankingTitles, 1);
  NamedTable fits;
  for (const FitSummary& one : summary.fits) fits.add(one.set, fit_cells(one));
  fits.print(page, "memory suffices", kFitTitles, 1);
}

}  // namespace

std::string to_table(const Validation& validation, bool color) {
  Page page(kTableWidth, color);
  for (const ComparedFile& file : validation) add_file(page, file);
  const Summary summary = summarize(validation);
  add_summary(page, summary);
  add_rankings(page, summary);
  add_learned(page, summary);
  if (summary.coverage.intervals > 0) {
    page.paragraph(Ink::plain, fmt::format("Of all 90 % intervals {} hold what was measured.",
                                           coverage_words(summary.coverage.inside,
                                                          summary.coverage.intervals)));
  }
  page.paragraph(Ink::plain,
                 "Errors in parentheses: something unknown was chosen by the case; not counted.");
  if (summary.failed > 0) {
    page.paragraph(Ink::bad, failed_words(summary.failed));
  }
  return page.text();
}

}  // namespace rehearse
