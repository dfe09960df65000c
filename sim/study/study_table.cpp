#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "report/memory_verdict.hpp"
#include "report/page.hpp"
#include "study/study_view.hpp"

namespace rehearse {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kWidth = 160;
constexpr std::size_t kGap = 2;

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

struct Line {
  std::vector<std::string> cells;  ///< number, labels, then kColumns; without these for an error
  std::string failure;
};

Line line_of(std::size_t point, const std::vector<std::string>& labels,
             const std::optional<Outcome>& outcome) {
  Line line{.cells = {std::to_string(point)}, .failure = ""};
  line.cells.insert(line.cells.end(), labels.begin(), labels.end());
  if (!outcome) {
    line.failure = "not there yet";
  } else if (outcome->code != ExitCode::success) {
    line.failure = "failed: " + first_line(outcome->text);
  } else {
    const Json report = Json::parse(outcome->text);
    for (const Column& column : kColumns) line.cells.push_back(column.text(report));
  }
  return line;
}

/// Of each column's widest cell; 0 for one of kColumns that is empty throughout.
std::vector<std::size_t> widths_of(const std::vector<std::string>& titles, std::size_t fixed,
                                   const std::vector<Line>& lines) {
  std::vector<std::size_t> widths(titles.size(), 0);
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.cells.size(); ++i) {
      widths[i] = std::max(widths[i], columns(line.cells[i]));
    }
  }
  for (std::size_t i = 0; i < titles.size(); ++i) {
    if (i < fixed || widths[i] > 0) widths[i] = std::max(widths[i], columns(titles[i]));
  }
  return widths;
}

/// Labels to the left, numbers to the right.
std::string joined(const Line& line, const std::vector<std::size_t>& widths, std::size_t fixed) {
  std::string text;
  for (std::size_t i = 0; i < line.cells.size(); ++i) {
    if (widths[i] == 0) continue;
    if (!text.empty()) text += std::string(kGap, ' ');
    const bool label = i > 0 && i < fixed;
    text += label ? left(line.cells[i], widths[i]) : right(line.cells[i], widths[i]);
  }
  if (!line.failure.empty()) text += std::string(kGap, ' ') + line.failure;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string study_table(const ResultStore& store, bool color) {
  const StudyIdentity study = store.identity().value();
  std::vector<std::string> titles = {"point"};
  titles.insert(titles.end(), study.axes.begin(), study.axes.end());
  const std::size_t fixed = titles.size();
  for (const Column& column : kColumns) titles.push_back(column.title);
  std::vector<Line> lines;
  for (const StudyPoint& point : store.points()) {
    const std::size_t number = lines.size() + 1;
    try {
      lines.push_back(line_of(number, point.labels, store.find(point.key)));
    } catch (const Json::exception& error) {
      fail_as_damaged(store.file(), fmt::format("the report of point {}", number), error.what());
    }
  }
  const std::vector<std::size_t> widths = widths_of(titles, fixed, lines);
  Page page(kWidth, color);
  page.paragraph(Ink::strong, study.description.empty() ? study.study : study.description);
  page.blank();
  page.line(page.ink(Ink::faint, joined({titles, ""}, widths, fixed)));
  for (const Line& line : lines) {
    page.line(page.ink(line.failure.empty() ? Ink::plain : Ink::bad, joined(line, widths, fixed)));
  }
  return page.text();
}

}  // namespace rehearse
