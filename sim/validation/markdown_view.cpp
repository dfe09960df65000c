#include <fmt/format.h>

#include "validation/cells.hpp"
#include "validation/tables.hpp"
#include "validation/views.hpp"

namespace rehearse::inline validation {
namespace {

void add_file(const ComparedFile& compared, std::string& text) {
  const CaseFile& file = compared.file;
  text += fmt::format("**{}**", file.source);
  if (!file.calibrated.empty()) text += fmt::format("; calibrated on {}", file.calibrated);
  if (const std::string runs = measured_on(file); !runs.empty()) text += "; measured: " + runs;
  text += "\n\n" + table_of(compared, CaseTable::markdown).markdown() + "\n";
}

}  // namespace

std::string to_markdown(const Validation& validation) {
  std::string text;
  for (const ComparedFile& file : validation) add_file(file, text);
  const Summary summary = summarize(validation);
  for (const Table& table : tables_of(summary)) text += table.markdown() + "\n";
  text += "Errors in parentheses: something unknown was chosen by the case; not counted.";
  if (summary.coverage.intervals > 0) {
    text += fmt::format(" Of all 90 % intervals {} hold what was measured.",
                        coverage_words(summary.coverage.inside, summary.coverage.intervals));
  }
  if (summary.failed > 0) text += fmt::format(" Cases without a prediction: {}.", summary.failed);
  return text + "\n";
}

}  // namespace rehearse::inline validation
