#include "validation/tables.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "validation/cells.hpp"

namespace rehearse::inline validation {
namespace {

/// The first `words` columns hold words, the others numbers.
Table table_with(std::vector<std::string> titles, std::size_t words) {
  Table table;
  for (std::size_t i = 0; i < titles.size(); ++i)
    table.column(std::move(titles[i]),
                 i < words ? TableColumn::Side::left : TableColumn::Side::right);
  return table;
}

/// An interval does not hold what was measured, or a verdict is wrong.
bool is_missed(const ComparedMetric& metric) {
  return !metric.inside().value_or(true) ||
         (metric.kind() == ErrorKind::verdict && metric.error != 0);
}

std::string share_words(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string two_decimals(double value) { return fmt::format("{:.2f}", value); }

/// "3 of 4"; "-" of none.
std::string part_of(std::size_t part, std::size_t all) {
  return all == 0 ? kNothing : fmt::format("{} of {}", part, all);
}

Table relative_errors(const std::vector<ErrorSummary>& lines) {
  Table table =
      table_with({"absolute error", "strategy", "numbers", "mean", "median", "most", "inside"}, 2);
  for (const ErrorSummary& one : lines) {
    table.row({{one.group, one.strategy, std::to_string(one.cases), share_words(one.mean),
                share_words(one.median), share_words(one.max),
                coverage_words(one.coverage.inside, one.coverage.intervals)}});
  }
  return table;
}

Table staleness_errors(const std::vector<ErrorSummary>& lines) {
  Table table = table_with(
      {"staleness, in updates", "strategy", "numbers", "mean off by", "most", "most KS", "inside"},
      2);
  for (const ErrorSummary& one : lines) {
    const bool any = one.cases > 0;
    table.row({{one.group, one.strategy, std::to_string(one.cases),
                any ? two_decimals(one.mean) : kNothing, any ? two_decimals(one.max) : kNothing,
                one.largest_distance ? two_decimals(*one.largest_distance) : kNothing,
                coverage_words(one.coverage.inside, one.coverage.intervals)}});
  }
  return table;
}

Table rankings(const std::vector<RankingSummary>& lines) {
  Table table = table_with({"order of", "cases", "tau-b", "regret", "predicted best", "best"}, 1);
  for (const RankingSummary& one : lines) {
    table.row({{one.rivals, std::to_string(one.cases), two_decimals(one.tau),
                share_words(one.regret), one.first, one.best}});
  }
  return table;
}

Table fits(const std::vector<FitSummary>& lines) {
  Table table = table_with({"memory suffices", "fit, and said so", "out of memory, and said so",
                            "F1 fits", "F1 out of memory"},
                           1);
  for (const FitSummary& one : lines) {
    table.row({{one.set, part_of(one.fit_right, one.fit_right + one.fit_wrong),
                part_of(one.oom_right, one.oom_right + one.oom_wrong),
                fmt::format("{:.3f}", one.f1_fits()), fmt::format("{:.3f}", one.f1_oom())}});
  }
  return table;
}

Table accuracy(const std::vector<AccuracySummary>& lines) {
  Table table = table_with({"accuracy, in points", "by", "runs", "mean off by", "most",
                            "worst setting", "ends in", "points in", "right"},
                           2);
  for (const AccuracySummary& one : lines) {
    const bool any = one.runs > 0;
    table.row(
        {{one.group, one.by, std::to_string(one.runs), any ? two_decimals(one.mean) : kNothing,
          any ? two_decimals(one.max) : kNothing,
          any ? signed_words(one.worst_setting, 2) : kNothing,
          part_of(one.coverage.inside, one.coverage.intervals),
          part_of(one.points.inside, one.points.intervals), part_of(one.right, one.verdicts)}});
  }
  return table;
}

Table failures(const std::vector<FailureSummary>& lines) {
  Table table = table_with({"verdict of forecasts", "runs", "expected to fail", "fail"}, 1);
  for (const FailureSummary& one : lines) {
    table.row({{one.verdict, std::to_string(one.runs),
                fmt::format("{:.1f} ± {:.1f}", one.expected, one.deviation),
                std::to_string(one.failed)}});
  }
  return table;
}

/// "83.10 ± 2.01"; of one run or cluster the mean alone.
std::string mean_words(const MeanEnd& end) {
  if (end.runs == 0) return kNothing;
  const std::string mean = two_decimals(100 * end.mean);
  return end.error ? fmt::format("{} ± {:.2f}", mean, 100 * *end.error) : mean;
}

/// What the replays are off by, in points.
std::string off_words(const MeanEnd& replays, const MeanEnd& real) {
  if (replays.runs == 0 || real.runs == 0) return kNothing;
  const std::string off = signed_words(100 * (replays.mean - real.mean), 2);
  if (!replays.error || !real.error) return off;
  return fmt::format("{} ± {:.2f}", off, 100 * std::hypot(*replays.error, *real.error));
}

/// Real runs and replays that fail, with the odds that this is chance; mean ends in percent with
/// standard errors, of all runs and of those that train; real ends within their own replays.
Table settings(const std::vector<SettingSummary>& lines) {
  Table table = table_with({"ends by setting, in %", "real fail", "replays fail", "p", "real ends",
                            "replays end", "off by", "trained real", "replays", "off by", "within"},
                           1);
  for (const SettingSummary& one : lines) {
    const Coverage& within = one.within;
    table.row({{one.setting, fmt::format("{} of {}", one.real.failed.some, one.real.failed.all),
                fmt::format("{} of {}", one.replays.failed.some, one.replays.failed.all),
                fmt::format("{:.2g}", one.same_failures), mean_words(one.real.all),
                mean_words(one.replays.all), off_words(one.replays.all, one.real.all),
                mean_words(one.real.trained), mean_words(one.replays.trained),
                off_words(one.replays.trained, one.real.trained),
                within.intervals == 0
                    ? kNothing
                    : fmt::format("{} ({:.1f})", part_of(within.inside, within.intervals),
                                  one.expected_within)}});
  }
  return table;
}

}  // namespace

Table reliability_table(const std::vector<FitBin>& bins) {
  Table table = table_with({"said to fit with", "runs", "expected to fit", "fit"}, 1);
  for (const FitBin& one : bins) {
    table.row(
        {{fmt::format("{:.0f} to {:.0f} %", 100 * one.said.low, 100 * one.said.high),
          std::to_string(one.runs), fmt::format("{:.1f}", one.expected), std::to_string(one.fit)}});
  }
  return table;
}

Table table_of(const ComparedFile& compared, CaseTable form) {
  const bool page = form == CaseTable::page;
  using enum TableColumn::Side;
  Table table({{"case", left},
               {"metric", left},
               {"predicted"},
               {"90 % interval"},
               {"measured"},
               {"error "},
               {"inside", page ? right : left}});
  if (!page) table.column("note", left);
  for (std::size_t i = 0; i < compared.cases.size(); ++i) {
    const ValidationCase& one = compared.file.cases[i];
    const ComparedCase& told = compared.cases[i];
    if (const std::string failed = "failed: " + first_line(told.failure); !told.failure.empty())
      table.row({.cells = {one.name}, .running_on = failed, .ink = Ink::bad});
    for (const ComparedMetric& metric : told.metrics) {
      const bool named = !page || &metric == told.metrics.data();
      const std::string error = error_words(metric);
      TableRow row{
          .cells = {named ? one.name : "", metric_words(metric), predicted_words(metric),
                    interval_words(metric), measured_words(metric),
                    one.held_out ? error + " " : fmt::format("({})", error), inside_words(metric)},
          .ink = is_missed(metric) ? Ink::bad : Ink::plain};
      if (!page) row.cells.push_back(one.note);
      table.row(std::move(row));
    }
  }
  return table;
}

std::vector<Table> tables_of(const Summary& summary) {
  std::vector<Table> tables = {relative_errors(summary.relative),
                               staleness_errors(summary.staleness),
                               rankings(summary.rankings),
                               fits(summary.fits),
                               reliability_table(summary.reliability),
                               accuracy(summary.accuracy),
                               failures(summary.failures),
                               settings(summary.settings)};
  std::erase_if(tables, [](const Table& table) { return table.empty(); });
  return tables;
}

}  // namespace rehearse::inline validation
