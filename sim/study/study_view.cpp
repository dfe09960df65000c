#include "study/study_view.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/json/json_text.hpp"
#include "study/conclusion.hpp"
#include "view/csv_table.hpp"
#include "view/page.hpp"

namespace rehearse::inline study {
namespace {

using Ordered = nlohmann::ordered_json;

void append(CsvRow& row, const CsvRow& more) { row.insert(row.end(), more.begin(), more.end()); }

CsvRow row_of(std::size_t number, const StudyIdentity& study, const StudyPoint& point,
              const Outcome& outcome) {
  CsvRow row = {{"point", std::to_string(number)}};
  for (std::size_t i = 0; i < study.axes.size(); ++i) {
    row.emplace_back("vary." + study.axes[i], point.labels[i]);
  }
  row.emplace_back("exit_code", std::to_string(static_cast<int>(outcome.code)));
  row.emplace_back("scenario", study.scenario);
  row.emplace_back("description", study.description);
  if (outcome.code == ExitCode::success) {
    append(row, csv_row(parsed_ordered_json(outcome.text)));
  } else {
    row.emplace_back("error", first_line(outcome.text));
  }
  return row;
}

std::vector<std::string> first_columns(const StudyIdentity& study) {
  std::vector<std::string> columns = {"point"};
  for (const std::string& axis : study.axes) columns.push_back("vary." + axis);
  columns.insert(columns.end(), {"exit_code", "error"});
  return columns;
}

/// What `read` takes from the report of a point.
template <class Read>
auto from_report(const ResultStore& store, std::size_t number, const Read& read) {
  try {
    return read();
  } catch (const Ordered::exception& error) {
    fail_as_damaged(store.file(), fmt::format("the report of point {}", number), error.what());
  }
}

Ordered labels_json(const StudyIdentity& study, const StudyPoint& point) {
  Ordered labels = Ordered::object();
  for (std::size_t i = 0; i < study.axes.size(); ++i) labels[study.axes[i]] = point.labels[i];
  return labels;
}

}  // namespace

StudyCount count_points(const ResultStore& store) {
  StudyCount count;
  for (const StudyPoint& point : store.points()) {
    const auto outcome = store.find(point.key);
    ++count.points;
    if (!outcome) ++count.missing;
    if (!outcome || !outcome->is_final()) ++count.to_do;
    if (outcome && outcome->code != ExitCode::success) ++count.failed;
  }
  return count;
}

std::string study_csv(const ResultStore& store) {
  const StudyIdentity study = store.identity().value();
  std::vector<CsvRow> rows;
  std::size_t number = 0;
  for (const StudyPoint& point : store.points()) {
    ++number;
    if (const auto outcome = store.find(point.key)) {
      rows.push_back(
          from_report(store, number, [&] { return row_of(number, study, point, *outcome); }));
    }
  }
  return csv_table(first_columns(study), rows);
}

std::string study_json(const ResultStore& store) {
  const StudyIdentity study = store.identity().value();
  Ordered points = Ordered::array();
  for (const StudyPoint& point : store.points()) {
    Ordered one = {{"point", points.size() + 1},
                   {"vary", labels_json(study, point)},
                   {"exit_code", nullptr},
                   {"error", nullptr},
                   {"report", nullptr}};
    if (const auto outcome = store.find(point.key)) {
      one["exit_code"] = static_cast<int>(outcome->code);
      if (outcome->code == ExitCode::success) {
        one["report"] = parsed_ordered_json(outcome->text);
      } else {
        one["error"] = outcome->text;
      }
    }
    points.push_back(std::move(one));
  }
  const Conclusion told = conclude(store);
  const auto number = [](const std::optional<std::size_t>& point) {
    return point ? Ordered(*point + 1) : Ordered();
  };
  const Ordered json = {{"schema", "rehearse.study/1"},
                        {"study", study.study},
                        {"description", study.description},
                        {"answer", told.answer()},
                        {"conclusions", told.words},
                        {"fastest", number(told.fastest)},
                        {"cheapest", number(told.cheapest)},
                        {"knee", number(told.knee)},
                        {"scenario", study.scenario},
                        {"program", study.program},
                        {"axes", study.axes},
                        {"points", points}};
  return json_text(json, 2) + "\n";
}

}  // namespace rehearse::inline study
