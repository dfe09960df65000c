#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "report/memory_verdict.hpp"
#include "report/table.hpp"
#include "study/study_view.hpp"

namespace rehearse::inline study {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kWidth = 160;

/// What stands under one title, from a report; empty where the report has none.
struct Column {
  std::string title;
  std::string (*text)(const Json& report);
};

std::string number(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string step_time(const Json& report) {
  return format(Seconds(report.at("step_time_s").get<double>()));
}

std::string samples(const Json& report) { return number(report.at("samples_per_s")); }

std::string interval(const Json& report) {
  const Json& ends = report.at("step_time_interval_s");
  if (ends.is_null()) return "";
  return fmt::format("{} to {}", format(Seconds(ends.at(0).get<double>())),
                     format(Seconds(ends.at(1).get<double>())));
}

/// "34.2 GiB", "39.3 GiB, at risk", "57.6 GiB, does not fit".
std::string memory(const Json& report) {
  const std::optional<MemoryFit> fit = memory_fit(report);
  if (!fit) return "";
  const bool fits = fit->verdict == MemoryVerdict::fits || fit->verdict == MemoryVerdict::unknown;
  return format(fit->used) + (fits ? "" : ", " + to_string(fit->verdict));
}

std::string staleness(const Json& report) {
  const Json& stale = report.at("staleness");
  return stale.is_null() ? "" : number(stale.at("mean"));
}

std::string training(const Json& report) {
  const Json& time = report.at("train_time_s");
  return time.is_null() ? "" : format(Seconds(time.get<double>()));
}

std::string cost(const Json& report) {
  const Json& spent = report.at("cost");
  if (spent.is_null() || spent.at("usd").is_null()) return "";
  return fmt::format("{:.2f}", spent.at("usd").get<double>());
}

const std::vector<Column> kColumns = {{"step time", step_time},
                                      {"90 % interval", interval},
                                      {"samples/s", samples},
                                      {"memory", memory},
                                      {"staleness", staleness},
                                      {"training", training},
                                      {"USD", cost}};

/// Number, labels, then kColumns; without these for an error.
TableRow line_of(std::size_t point, const std::vector<std::string>& labels,
                 const std::optional<Outcome>& outcome) {
  TableRow line{.cells = {std::to_string(point)}};
  line.cells.insert(line.cells.end(), labels.begin(), labels.end());
  if (!outcome) {
    line.running_on = "not there yet";
  } else if (outcome->code != ExitCode::success) {
    line.running_on = "failed: " + first_line(outcome->text);
  } else {
    const Json report = Json::parse(outcome->text);
    for (const Column& column : kColumns) line.cells.push_back(column.text(report));
  }
  if (!line.running_on.empty()) line.ink = Ink::bad;
  return line;
}

}  // namespace

std::string study_table(const ResultStore& store, bool color) {
  const StudyIdentity study = store.identity().value();
  using enum TableColumn::Side;
  Table table({{"point"}});
  for (const std::string& axis : study.axes) table.column(axis, left);
  for (const Column& column : kColumns) table.column(column.title, right, true);
  std::size_t number = 0;
  for (const StudyPoint& point : store.points()) {
    ++number;
    try {
      table.row(line_of(number, point.labels, store.find(point.key)));
    } catch (const Json::exception& error) {
      fail_as_damaged(store.file(), fmt::format("the report of point {}", number), error.what());
    }
  }
  Page page(kWidth, color);
  page.paragraph(Ink::strong, study.description.empty() ? study.study : study.description);
  page.blank();
  table.print(page);
  return page.text();
}

}  // namespace rehearse::inline study
