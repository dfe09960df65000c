#include "study/study_view.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "config/json/json_record.hpp"
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

/// A point as the document of a study has it; nothing where it is still to do.
struct PointPart {
  std::size_t number = 0;  ///< from 1
  JsonEntries<std::string> vary;
  std::optional<int> exit_code;
  std::optional<std::string> error;
  Ordered report;  ///< `rehearse.report/1`, or null
};
Ordered report_of(const PointPart& point) { return point.report; }
Ordered report_reference() {
  return or_null({{"type", "object"}, {"description", "rehearse.report/1"}});
}
constexpr auto json_fields(const PointPart*) {
  using One = PointPart;
  return std::tuple(field("point", &One::number), field("vary", &One::vary),
                    field("exit_code", &One::exit_code), field("error", &One::error),
                    made<One>("report", report_of, report_reference));
}

std::vector<PointPart> points_of(const ResultStore& store, const StudyIdentity& study) {
  std::vector<PointPart> points;
  for (const StudyPoint& point : store.points()) {
    PointPart& one = points.emplace_back();
    one.number = points.size();
    for (std::size_t i = 0; i < study.axes.size(); ++i)
      one.vary.all.emplace_back(study.axes[i], point.labels[i]);
    if (const auto outcome = store.find(point.key)) {
      one.exit_code = static_cast<int>(outcome->code);
      if (outcome->code == ExitCode::success)
        one.report = parsed_ordered_json(outcome->text);
      else
        one.error = outcome->text;
    }
  }
  return points;
}

/// A study with what its points come to.
struct StudyDocument {
  StudyIdentity study;
  Conclusion told;
  std::vector<PointPart> points;
};
template <auto kMember>
constexpr auto of_study(const char* key) {
  return derived<StudyDocument>(key, [](const StudyDocument& one) { return one.study.*kMember; });
}
/// A point's number, from 1.
template <auto kMember>
constexpr auto point_of(const char* key) {
  return derived<StudyDocument>(key, [](const StudyDocument& one) {
    std::optional<std::size_t> point = one.told.*kMember;
    if (point) ++*point;
    return point;
  });
}
constexpr auto json_fields(const StudyDocument*) {
  using One = StudyDocument;
  return std::tuple(
      constant<One>("schema", "rehearse.study/1"), of_study<&StudyIdentity::study>("study"),
      of_study<&StudyIdentity::description>("description"),
      derived<One>("answer", [](const One& one) { return one.told.answer(); }),
      derived<One>("conclusions", [](const One& one) { return one.told.words; }),
      point_of<&Conclusion::fastest>("fastest"), point_of<&Conclusion::cheapest>("cheapest"),
      point_of<&Conclusion::knee>("knee"), of_study<&StudyIdentity::scenario>("scenario"),
      of_study<&StudyIdentity::program>("program"), of_study<&StudyIdentity::axes>("axes"),
      field("points", &One::points));
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
  return json_text(to_json_value(StudyDocument{study, conclude(store), points_of(store, study)}),
                   2) +
         "\n";
}

Ordered study_schema() {
  return titled_schema("What a study came to (rehearse.study/1)", json_schema<StudyDocument>());
}

}  // namespace rehearse::inline study
