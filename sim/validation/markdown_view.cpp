#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/page.hpp"
#include "validation/cells.hpp"
#include "validation/views.hpp"

namespace rehearse {
namespace {

/// A cell of a Markdown table: bars would end it.
std::string cell(const std::string& text) {
  std::string safe;
  for (const char letter : text) safe += letter == '|' ? "\\|" : std::string(1, letter);
  return safe;
}

void add_file(const ComparedFile& compared, std::string& text) {
  const CaseFile& file = compared.file;
  text += fmt::format("**{}**", file.source);
  if (!file.calibrated.empty()) text += fmt::format("; calibrated on {}", file.calibrated);
  if (const std::string runs = measured_on(file); !runs.empty()) text += "; measured: " + runs;
  text += "\n\n| case | metric | predicted | 90 % interval | measured | error | inside | note |\n";
  text += "|---|---|---:|---:|---:|---:|---|---|\n";
  for (std::size_t i = 0; i < file.cases.size(); ++i) {
    const ValidationCase& one = file.cases[i];
    for (const ComparedMetric& metric : compared.cases[i].metrics) {
      const std::string error = error_words(metric);
      text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", cell(one.name),
                          metric_words(metric), predicted_words(metric), interval_words(metric),
                          measured_words(metric), one.held_out ? error : fmt::format("({})", error),
                          inside_words(metric), cell(one.note));
    }
    if (const std::string& failure = compared.cases[i].failure; !failure.empty()) {
      text += fmt::format("| {} | | | | | | | failed: {} |\n", cell(one.name),
                          cell(first_line(failure)));
    }
  }
  text += "\n";
}

void add_accuracy(const Summary& summary, std::string& text) {
  if (summary.accuracy.empty()) return;
  if (!summary.relative.empty()) text += "\n";
  text += fmt::format("| accuracy, in points | {} |\n", fmt::join(kAccuracyTitles, " | "));
  text += "|---|---|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const AccuracySummary& one : summary.accuracy) {
    text += "| " + cell(one.group);
    for (const std::string& words : accuracy_cells(one)) text += " | " + cell(words);
    text += " |\n";
  }
}

void add_failures(const Summary& summary, std::string& text) {
  if (summary.failures.empty()) return;
  text += fmt::format("\n| verdict of forecasts | {} |\n", fmt::join(kFailureTitles, " | "));
  text += "|---|---:|---:|---:|\n";
  for (const FailureSummary& one : summary.failures)
    text += fmt::format("| {} | {} |\n", one.verdict, fmt::join(failure_cells(one), " | "));
}

void add_settings(const Summary& summary, std::string& text) {
  if (summary.settings.empty()) return;
  text += fmt::format("\n| ends by setting, in % | {} |\n", fmt::join(kSettingTitles, " | "));
  text += "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const SettingSummary& one : summary.settings) {
    text += "| " + cell(one.setting);
    for (const std::string& words : setting_cells(one)) text += " | " + cell(words);
    text += " |\n";
  }
}

void add_summary(const Summary& summary, std::string& text) {
  if (!summary.relative.empty()) {
    text += "| absolute error | strategy | numbers | mean | median | most | inside |\n";
    text += "|---|---|---:|---:|---:|---:|---:|\n";
  }
  for (const ErrorSummary& one : summary.relative) {
    text += fmt::format("| {} | {} | {} | {:.1f} % | {:.1f} % | {:.1f} % | {} |\n", cell(one.group),
                        one.strategy, one.cases, 100 * one.mean, 100 * one.median, 100 * one.max,
                        coverage_words(one.coverage.inside, one.coverage.intervals));
  }
  add_accuracy(summary, text);
  add_failures(summary, text);
  add_settings(summary, text);
  if (summary.staleness.empty()) return;
  if (!summary.relative.empty() || !summary.accuracy.empty()) text += "\n";
  text +=
      "| staleness, in updates | strategy | numbers | mean off by | most | most KS | inside |\n";
  text += "|---|---|---:|---:|---:|---:|---:|\n";
  for (const ErrorSummary& one : summary.staleness) {
    text += fmt::format("| {} | {} | {} | {:.2f} | {:.2f} | {} | {} |\n", cell(one.group),
                        one.strategy, one.cases, one.mean, one.max,
                        one.largest_distance ? fmt::format("{:.2f}", *one.largest_distance) : "-",
                        coverage_words(one.coverage.inside, one.coverage.intervals));
  }
}

void add_rankings(const Summary& summary, std::string& text) {
  if (summary.rankings.empty()) return;
  text += fmt::format("\n| order of | {} |\n", fmt::join(kRankingTitles, " | "));
  text += "|---|---:|---:|---:|---|---|\n";
  for (const RankingSummary& one : summary.rankings)
    text += fmt::format("| {} | {} |\n", cell(one.rivals), fmt::join(ranking_cells(one), " | "));
}

void add_fits(const Summary& summary, std::string& text) {
  if (summary.fits.empty()) return;
  text += fmt::format("\n| memory suffices | {} |\n", fmt::join(kFitTitles, " | "));
  text += "|---|---:|---:|---:|---:|\n";
  for (const FitSummary& one : summary.fits)
    text += fmt::format("| {} | {} |\n", cell(one.set), fmt::join(fit_cells(one), " | "));
}

}  // namespace

std::string to_markdown(const Validation& validation) {
  std::string text;
  for (const ComparedFile& file : validation) add_file(file, text);
  const Summary summary = summarize(validation);
  add_summary(summary, text);
  add_rankings(summary, text);
  add_fits(summary, text);
  text += "\nErrors in parentheses: something unknown was chosen by the case; not counted.";
  if (summary.coverage.intervals > 0) {
    text += fmt::format(" Of all 90 % intervals {} hold what was measured.",
                        coverage_words(summary.coverage.inside, summary.coverage.intervals));
  }
  if (summary.failed > 0) text += fmt::format(" Cases without a prediction: {}.", summary.failed);
  return text + "\n";
}

}  // namespace rehearse
