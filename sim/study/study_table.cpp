#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/quantity.hpp"
#include "config/json/json_text.hpp"
#include "report/memory_verdict.hpp"
#include "study/conclusion.hpp"
#include "study/study_view.hpp"
#include "view/cost_views.hpp"
#include "view/table.hpp"

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
  return money(spent.at("usd").get<double>());
}

const std::vector<Column> kColumns = {{"step time", step_time},
                                      {"90 % interval", interval},
                                      {"samples/s", samples},
                                      {"memory", memory},
                                      {"staleness", staleness},
                                      {"training", training},
                                      {"USD", cost}};

/// More points than these are told in brief, by the fastest of them.
constexpr std::size_t kFew = 16, kTold = 10;

/// "fastest, cheapest", "knee"; and "*" where the report rests on what no measurement has.
std::string mark_of(std::size_t point, const Conclusion& told, const Json& report) {
  std::string text = report.at("outside_calibration").empty() ? "" : "*";
  const auto add = [&](const std::optional<std::size_t>& which, const char* word) {
    if (which && *which + 1 == point) text += (text.empty() ? "" : " ") + std::string(word);
  };
  add(told.fastest, "fastest");
  add(told.cheapest, "cheapest");
  add(told.knee, "knee");
  return text;
}

/// Numbers of the points to be shown: all, or in brief those that the conclusion names, then the
/// fastest that fit.
std::vector<std::size_t> points_shown(const ResultStore& store, const Conclusion& told,
                                      Detail detail) {
  const std::vector<StudyPoint> points = store.points();
  std::vector<std::size_t> shown(points.size());
  std::iota(shown.begin(), shown.end(), 0);
  if (detail == Detail::all || points.size() <= kFew) return shown;
  std::vector<double> badness;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto outcome = store.find(points[i].key);
    const bool named = told.fastest == i || told.cheapest == i || told.knee == i;
    double rate = -1;
    if (outcome && outcome->code == ExitCode::success) {
      const Json report = parsed_json(outcome->text);
      const auto fit = memory_fit(report);
      if (!fit || fit->verdict != MemoryVerdict::does_not_fit) rate = report.at("samples_per_s");
    }
    badness.push_back(named ? -std::numeric_limits<double>::infinity() : -rate);
  }
  std::ranges::stable_sort(shown, {}, [&](std::size_t i) { return badness[i]; });
  shown.resize(kTold);
  return shown;
}

/// Number, labels, then kColumns and a mark; without these for an error.
TableRow line_of(std::size_t point, const std::vector<std::string>& labels,
                 const std::optional<Outcome>& outcome, const Conclusion& told) {
  TableRow line{.cells = {std::to_string(point)}};
  line.cells.insert(line.cells.end(), labels.begin(), labels.end());
  if (!outcome) {
    line.running_on = "not there yet";
  } else if (outcome->code != ExitCode::success) {
    line.running_on = "failed: " + first_line(outcome->text);
  } else {
    const Json report = parsed_json(outcome->text);
    for (const Column& column : kColumns) line.cells.push_back(column.text(report));
    line.cells.push_back(mark_of(point, told, report));
  }
  if (!line.running_on.empty()) line.ink = Ink::bad;
  return line;
}

}  // namespace

std::string study_table(const ResultStore& store, bool color, Detail detail) {
  const StudyIdentity study = store.identity().value();
  const Conclusion told = conclude(store);
  using enum TableColumn::Side;
  Table table({{"point"}});
  for (const std::string& axis : study.axes) table.column(axis, left);
  for (const Column& column : kColumns) table.column(column.title, right, true);
  table.column("", left, true);
  const std::vector<StudyPoint> points = store.points();
  const std::vector<std::size_t> shown = points_shown(store, told, detail);
  for (const std::size_t i : shown) {
    try {
      table.row(line_of(i + 1, points[i].labels, store.find(points[i].key), told));
    } catch (const Json::exception& error) {
      fail_as_damaged(store.file(), fmt::format("the report of point {}", i + 1), error.what());
    }
  }
  const auto is_doubtful = [&](std::size_t i) {
    const auto outcome = store.find(points[i].key);
    return outcome && outcome->code == ExitCode::success &&
           !parsed_json(outcome->text).at("outside_calibration").empty();
  };
  Page page(kWidth, color);
  for (const std::string& sentence : told.words)
    page.paragraph(&sentence == &told.words.front() ? Ink::strong : Ink::plain, sentence);
  page.blank();
  page.paragraph(Ink::faint, study.description.empty() ? study.study : study.description);
  page.blank();
  table.print(page);
  if (std::ranges::any_of(shown, is_doubtful))
    page.line(page.ink(Ink::faint, "* rests on costs that were measured for nothing like it"));
  if (shown.size() < points.size())
    page.line(page.ink(Ink::faint, fmt::format("and {} more: -v", points.size() - shown.size())));
  return page.text();
}

}  // namespace rehearse::inline study
