#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "validation/cells.hpp"
#include "validation/scoreboard.hpp"
#include "validation/tables.hpp"
#include "validation/views.hpp"
#include "view/page.hpp"

namespace rehearse::inline validation {
namespace {

/// A line of a document has so many columns at most.
constexpr std::size_t kMarkdownWidth = 100;

std::string share(double value) { return fmt::format("{:.1f} %", 100 * value); }

std::string inside(const Coverage& coverage) {
  if (coverage.intervals == 0) return kNothing;
  return fmt::format("{:.0f} %", 100 * static_cast<double>(coverage.inside) /
                                     static_cast<double>(coverage.intervals));
}

std::string width(const std::optional<double>& half_width) {
  return half_width ? "± " + share(*half_width) : kNothing;
}

std::string score(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : kNothing;
}

TableRow row_of(const ScoreLine& line) {
  return {{line.of.gpu, line.of.framework, line.of.work, std::to_string(line.cases),
           share(line.mean), share(line.median), share(line.p90), share(line.most),
           signed_words(100 * line.bias, 1) + " %", inside(line.coverage), width(line.half_width),
           score(line.score)}};
}

Table table_of(const char* title, const ScoreTable& scores) {
  using enum TableColumn::Side;
  Table table({{title, left},
               {"framework", left},
               {"strategy", left},
               {"cases"},
               {"mean"},
               {"median"},
               {"p90"},
               {"most"},
               {"bias"},
               {"inside"},
               {"half-width"},
               {"score"}});
  for (const ScoreLine& line : scores.lines) table.row(row_of(line));
  return table;
}

Table relations_of(const Scoreboard& board) {
  using enum TableColumn::Side;
  Table table({{"the fits and these rows", left},
               {"times"},
               {"mean"},
               {"bias"},
               {"inside"},
               {"half-width"},
               {"memory of"},
               {"mean"},
               {"bias"},
               {"inside"},
               {"half-width"}});
  for (const RelationLine& line : board.relations) {
    std::vector<std::string> cells = {to_string(line.relation)};
    for (const ScoreLine* one : {&line.time, &line.memory}) {
      const bool any = one->cases > 0;
      cells.push_back(std::to_string(one->cases));
      cells.push_back(any ? share(one->mean) : kNothing);
      cells.push_back(any ? signed_words(100 * one->bias, 1) + " %" : kNothing);
      cells.push_back(inside(one->coverage));
      cells.push_back(width(one->half_width));
    }
    table.row({std::move(cells)});
  }
  return table;
}

/// Precision and recall of "fits".
std::string fits_words(const FitSummary& fits) {
  const std::size_t ran = fits.fit_right + fits.fit_wrong, said = fits.fit_right + fits.oom_wrong;
  const std::size_t failed = fits.oom_right + fits.oom_wrong;
  return fmt::format(
      "Fits: {} runs fit and {} do not. Of those that are said to fit {} do (precision); of those "
      "that fit {} are said to (recall).",
      ran, failed, coverage_words(fits.fit_right, said), coverage_words(fits.fit_right, ran));
}

std::string layouts_words(const Scoreboard& board) {
  return fmt::format(
      "Order of layouts: {} choices; tau-b {:.2f}; the predicted best costs {} more than the "
      "measured best. Of pairs more than {:.0f} % apart {} are in order.",
      board.layouts, board.tau, share(board.regret), 100 * kClear,
      coverage_words(board.right_pairs, board.pairs));
}

std::string cpus_words(const Scoreboard& board) {
  std::vector<std::string> parts;
  const auto add = [&](const char* what, const std::optional<ScoreLine>& line) {
    if (!line) return;
    parts.push_back(fmt::format("{} {} are {} off on average and {} at most, {} inside",
                                line->cases, what, share(line->mean), share(line->most),
                                inside(line->coverage)));
  };
  add("times", board.time.cpus);
  add("peaks", board.memory.cpus);
  return parts.empty() ? "" : fmt::format("Testbeds of CPUs: {}.", fmt::join(parts, "; "));
}

std::string accuracy_words(const AccuracySummary& one) {
  return fmt::format(
      "Accuracy of {}, {}: {} runs end {:.2f} points off on average; {} of verdicts are right.",
      one.group, one.by, one.runs, one.mean, coverage_words(one.right, one.verdicts));
}

/// Accuracy by set, all forecasts of one as one.
std::vector<AccuracySummary> accuracy_by_set(Validation validation) {
  for (ComparedFile& compared : validation) {
    for (ComparedCase& one : compared.cases) {
      for (ComparedMetric& metric : one.metrics) {
        metric.group = compared.file.name;
        if (!metric.means.empty()) metric.by = metric.means;
      }
    }
  }
  return summarize_accuracy(validation);
}

/// Names the sets that were played in part.
std::vector<std::string> samples_words(const Validation& validation) {
  std::vector<std::string> spread, none, lines;
  for (const ComparedFile& compared : validation) {
    const std::size_t played = compared.cases.size(), all = played + compared.file.left_out;
    if (played == all) continue;
    if (played == 0) {
      none.push_back(fmt::format("{} ({})", compared.file.name, all));
    } else {
      spread.push_back(fmt::format("{} {} of {}", compared.file.name, played, all));
    }
  }
  if (!spread.empty())
    lines.push_back(fmt::format("Recorded runs, evenly spread: {}.", fmt::join(spread, ", ")));
  if (!none.empty())
    lines.push_back(
        fmt::format("Played by name alone, as they take long: {} cases.", fmt::join(none, ", ")));
  return lines;
}

std::vector<Table> tables_of(const Scoreboard& board) {
  std::vector<Table> tables = {table_of("time on", board.time), table_of("memory on", board.memory),
                               relations_of(board), reliability_table(board.reliability)};
  std::erase_if(tables, [](const Table& table) { return table.empty(); });
  return tables;
}

std::vector<std::string> sentences_of(const Scoreboard& board, const Validation& validation) {
  std::vector<std::string> lines;
  if (!board.time.lines.empty() && board.time.lines.back().score)
    lines.push_back(
        "Score: the mean of an interval's width in ln and 20 times what lies beyond its ends.");
  for (const RelationLine& line : board.relations)
    lines.push_back(fmt::format("{}: {}.", to_string(line.relation), fmt::join(line.sets, ", ")));
  if (board.fits.fit_right + board.fits.fit_wrong + board.fits.oom_right + board.fits.oom_wrong > 0)
    lines.push_back(fits_words(board.fits));
  if (board.layouts > 0) lines.push_back(layouts_words(board));
  if (const std::string cpus = cpus_words(board); !cpus.empty()) lines.push_back(cpus);
  for (const AccuracySummary& one : accuracy_by_set(validation))
    lines.push_back(accuracy_words(one));
  for (std::string& line : samples_words(validation)) lines.push_back(std::move(line));
  if (const std::size_t failed = failed_cases(validation); failed > 0)
    lines.push_back(failed_words(failed));
  return lines;
}

/// One sentence for all held-out numbers of GPUs of one kind; empty: there are none.
std::string all_words(const char* one, const char* many, const ScoreTable& scores) {
  if (scores.lines.empty()) return "";
  const ScoreLine& all = scores.lines.back();
  const bool single = all.cases == 1;
  const std::string held =
      all.coverage.intervals == 0 ? ""
      : single ? fmt::format("; {} is inside its 90 % interval", inside(all.coverage))
               : fmt::format("; {} are inside their 90 % intervals, whose score is {}",
                             inside(all.coverage), score(all.score));
  return fmt::format("{} {} {} off on average, {} in the median{}.", all.cases, single ? one : many,
                     share(all.mean), share(all.median), held);
}

std::string answer_of(const Scoreboard& board, const Validation& validation) {
  std::vector<std::string> words = {
      all_words("time is", "times are", board.time),
      all_words("peak of memory is", "peaks of memory are", board.memory), cpus_words(board)};
  if (board.pairs > 0)
    words.push_back(fmt::format(
        "Of {} pairs of layouts {} are in order.", board.pairs,
        share(static_cast<double>(board.right_pairs) / static_cast<double>(board.pairs))));
  std::erase(words, "");
  if (words.empty())
    for (const AccuracySummary& one : accuracy_by_set(validation))
      words.push_back(accuracy_words(one));
  return words.empty() ? "No number is both predicted and held out."
                       : fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

std::string answer(const Validation& validation) {
  return answer_of(scoreboard_of(validation), validation);
}

std::string to_scoreboard(const Validation& validation, bool color) {
  Page page(kTableWidth, color);
  const Scoreboard board = scoreboard_of(validation);
  page.paragraph(Ink::strong, answer_of(board, validation));
  page.blank();
  for (const Table& table : tables_of(board)) {
    table.print(page);
    page.blank();
  }
  for (const std::string& line : sentences_of(board, validation)) page.paragraph(Ink::plain, line);
  page.paragraph(Ink::plain,
                 "`rehearse validate SET` shows a set's cases, groups and 90 % intervals.");
  return page.text();
}

std::string to_scoreboard_markdown(const Validation& validation) {
  const Scoreboard board = scoreboard_of(validation);
  std::string text =
      fmt::format("{}\n\n", fmt::join(wrap(answer_of(board, validation), kMarkdownWidth), "\n"));
  for (const Table& table : tables_of(board)) text += table.markdown() + "\n";
  for (const std::string& line : sentences_of(board, validation))
    text += fmt::format("- {}\n", fmt::join(wrap(line, kMarkdownWidth - 2), "\n  "));
  return text;
}

}  // namespace rehearse::inline validation
