#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "validation/cells.hpp"
#include "validation/tables.hpp"
#include "validation/views.hpp"

namespace rehearse::inline validation {
namespace {

constexpr std::string_view kMemory = ", memory";

/// Numbers alone, grouped by set, all forecasts as one: summarize() then has a line for each set.
Validation grouped_by_set(const Validation& validation) {
  Validation sets;
  for (const ComparedFile& compared : validation) {
    ComparedFile& set = sets.emplace_back();
    set.cases = compared.cases;
    for (const ValidationCase& one : compared.file.cases)
      set.file.cases.emplace_back().held_out = one.held_out;
    for (ComparedCase& one : set.cases) {
      for (ComparedMetric& metric : one.metrics) {
        const bool memory = metric.group.ends_with(kMemory) && compared.file.name != "memory";
        metric.group = compared.file.name + std::string(memory ? kMemory : "");
        metric.by = metric.by.substr(0, metric.by.find(" from "));
      }
    }
  }
  return sets;
}

/// Of each set the line over all of its strategies, which is its last.
std::vector<ErrorSummary> whole_sets(const std::vector<ErrorSummary>& lines) {
  std::vector<ErrorSummary> sets;
  for (const ErrorSummary& one : lines) {
    if (!sets.empty() && sets.back().group == one.group) sets.pop_back();
    sets.push_back(one);
  }
  return sets;
}

/// The set's line; nothing where it has no such numbers.
const ErrorSummary* line_of_set(const std::vector<ErrorSummary>& sets, const std::string& name) {
  const auto found = std::ranges::find(sets, name, &ErrorSummary::group);
  return found == sets.end() || found->cases == 0 ? nullptr : &*found;
}

std::vector<std::string> names_of(const std::vector<ErrorSummary>& relative,
                                  const std::vector<ErrorSummary>& staleness) {
  std::vector<std::string> names;
  for (const std::vector<ErrorSummary>* sets : {&relative, &staleness}) {
    for (const ErrorSummary& one : *sets) {
      std::string name = one.group;
      if (name.ends_with(kMemory)) name.resize(name.size() - kMemory.size());
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

void add_errors(Page& page, const Summary& summary) {
  const std::vector<ErrorSummary> relative = whole_sets(summary.relative);
  const std::vector<ErrorSummary> staleness = whole_sets(summary.staleness);
  const auto share = [](double error) { return fmt::format("{:.1f} %", 100 * error); };
  Table table({{"absolute error", TableColumn::Side::left},
               {"numbers"},
               {"mean"},
               {"median"},
               {"most"},
               {"memory of"},
               {"mean"},
               {"most"},
               {"staleness of"},
               {"off by"},
               {"most"}});
  for (const std::string& name : names_of(relative, staleness)) {
    std::vector<std::string> cells(11, kNothing);
    cells[0] = name;
    if (const ErrorSummary* one = line_of_set(relative, name)) {
      cells[1] = std::to_string(one->cases);
      cells[2] = share(one->mean);
      cells[3] = share(one->median);
      cells[4] = share(one->max);
    }
    if (const ErrorSummary* one = line_of_set(relative, name + std::string(kMemory))) {
      cells[5] = std::to_string(one->cases);
      cells[6] = share(one->mean);
      cells[7] = share(one->max);
    }
    if (const ErrorSummary* one = line_of_set(staleness, name)) {
      cells[8] = std::to_string(one->cases);
      cells[9] = fmt::format("{:.2f}", one->mean);
      cells[10] = fmt::format("{:.2f}", one->max);
    }
    table.row({std::move(cells)});
  }
  if (table.empty()) return;
  table.print(page);
  page.blank();
}

void add_accuracy(Page& page, const Summary& summary) {
  using enum TableColumn::Side;
  Table table({{"accuracy, in points", left},
               {"by", left},
               {"runs"},
               {"mean off by"},
               {"most"},
               {"verdicts right"}});
  for (const AccuracySummary& one : summary.accuracy) {
    const bool any = one.runs > 0;
    table.row({{one.group, one.by.empty() ? kNothing : one.by, std::to_string(one.runs),
                any ? fmt::format("{:.2f}", one.mean) : kNothing,
                any ? fmt::format("{:.2f}", one.max) : kNothing,
                coverage_words(one.right, one.verdicts)}});
  }
  if (table.empty()) return;
  table.print(page);
  page.blank();
}

/// Which sets were played in part.
void add_samples(Page& page, const Validation& validation) {
  std::vector<std::string> spread, none;
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
    page.paragraph(Ink::plain, fmt::format("Cases, evenly spread: {}.", fmt::join(spread, ", ")));
  if (!none.empty())
    page.paragraph(Ink::plain, fmt::format("Played by name alone, as they take long: {} cases.",
                                           fmt::join(none, ", ")));
}

}  // namespace

std::string to_overview(const Validation& validation, bool color) {
  Page page(kTableWidth, color);
  const Summary summary = summarize(grouped_by_set(validation));
  add_errors(page, summary);
  add_accuracy(page, summary);
  add_samples(page, validation);
  page.paragraph(Ink::plain,
                 "`rehearse validate SET` shows a set's cases, groups and 90 % intervals.");
  if (summary.failed > 0) page.paragraph(Ink::bad, failed_words(summary.failed));
  return page.text();
}

}  // namespace rehearse::inline validation
