#include <fmt/format.h>

#include "validation/cells.hpp"
#include "validation/views.hpp"
#include "view/table.hpp"

namespace rehearse::inline validation {
namespace {

/// Empty where `value` does not stand in this column.
template <class Value>
std::string cell(bool here, const Value& value) {
  return here ? fmt::to_string(value) : std::string();
}

TableRow csv_row(const CaseFile& file, const ValidationCase& one, const ComparedCase& compared,
                 const ComparedMetric& metric) {
  const ErrorKind kind = metric.kind();
  const bool verdict = kind == ErrorKind::verdict, numbers = kind != ErrorKind::distance;
  const std::optional<bool> inside = metric.inside();
  const Ends<double> range = metric.interval.value_or(Ends<double>{});
  const bool bounded = metric.interval.has_value();
  return {{file.source,
           metric.group,
           one.name,
           compared.strategy,
           metric.metric,
           verdict ? cell(true, metric.predicted > 0) : cell(numbers, metric.predicted),
           verdict ? cell(true, metric.measured > 0) : cell(numbers, metric.measured),
           cell(bounded, range.low),
           cell(bounded, range.high),
           cell(kind == ErrorKind::relative, metric.error),
           cell(kind == ErrorKind::difference, metric.error),
           cell(kind == ErrorKind::distance, metric.error),
           cell(inside.has_value(), inside.value_or(false)),
           cell(true, one.held_out),
           one.note,
           "",
           metric.by,
           cell(kind == ErrorKind::points, metric.error),
           cell(verdict, metric.error == 0),
           metric.odds ? fmt::to_string(metric.odds->failure_probability) : ""}};
}

/// The row of a case without a prediction.
TableRow csv_row(const CaseFile& file, const ValidationCase& one, const std::string& failure) {
  std::vector<std::string> cells = {file.source, one.group, one.name};
  cells.resize(13);
  cells.insert(cells.end(), {fmt::to_string(one.held_out), one.note, first_line(failure)});
  return {std::move(cells)};
}

}  // namespace

std::string to_csv(const Validation& validation) {
  Table table({{"source"},     {"group"},    {"case"},   {"strategy"}, {"metric"},
               {"predicted"},  {"measured"}, {"low"},    {"high"},     {"relative_error"},
               {"difference"}, {"distance"}, {"inside"}, {"held_out"}, {"note"},
               {"failure"},    {"by"},       {"points"}, {"right"},    {"failure_probability"}});
  for (const ComparedFile& compared : validation) {
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      const ValidationCase& one = compared.file.cases[i];
      const ComparedCase& told = compared.cases[i];
      for (const ComparedMetric& metric : told.metrics)
        table.row(csv_row(compared.file, one, told, metric));
      if (!told.failure.empty()) table.row(csv_row(compared.file, one, told.failure));
    }
  }
  return table.csv();
}

}  // namespace rehearse::inline validation
