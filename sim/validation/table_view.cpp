#include <fmt/format.h>

#include "validation/cells.hpp"
#include "validation/tables.hpp"
#include "validation/views.hpp"
#include "view/page.hpp"

namespace rehearse::inline validation {
namespace {

void add_file(Page& page, const ComparedFile& compared) {
  const CaseFile& file = compared.file;
  page.paragraph(Ink::strong, file.source);
  if (!file.calibrated.empty()) page.paragraph(Ink::plain, "calibrated on: " + file.calibrated);
  if (const std::string runs = measured_on(file); !runs.empty())
    page.paragraph(Ink::plain, "measured: " + runs);
  table_of(compared, CaseTable::page).print(page);
  if (const NotPredicted& others = file.not_predicted; !others.cases.empty()) {
    page.paragraph(Ink::faint, fmt::format("not predicted: {} published numbers; {}",
                                           others.cases.size(), others.why));
  }
  page.blank();
}

}  // namespace

std::string to_table(const Validation& validation, bool color) {
  Page page(kTableWidth, color);
  page.paragraph(Ink::strong, answer(validation));
  page.blank();
  for (const ComparedFile& file : validation) add_file(page, file);
  const Summary summary = summarize(validation);
  for (const Table& table : tables_of(summary)) {
    table.print(page);
    page.blank();
  }
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

}  // namespace rehearse::inline validation
