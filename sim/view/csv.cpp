#include <algorithm>
#include <set>

#include "config/json/json_text.hpp"
#include "report/prediction_interval.hpp"
#include "view/csv_table.hpp"
#include "view/json_view.hpp"
#include "view/table.hpp"
#include "view/views.hpp"

namespace rehearse::inline view {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& value);

/// "layer1.0 activations 4194304 2": the members of one item of a list.
std::string members_of(const Json& item) {
  std::string text;
  for (const auto& [key, member] : item.items())
    text += (text.empty() ? "" : " ") + text_of(member);
  return text;
}

std::string text_of(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_object()) return members_of(value);
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

/// "first; second"
std::string joined(const Json& list) {
  std::string text;
  for (const Json& item : list) text += (text.empty() ? "" : "; ") + text_of(item);
  return text;
}

/// "0: 12; 1: 3": one cell, for every report has other stalenesses.
std::string histogram_text(const Json& histogram) {
  std::string text;
  for (const auto& [staleness, updates] : histogram.items()) {
    text += (text.empty() ? "" : "; ") + staleness + ": " + json_text(updates);
  }
  return text;
}

/// Two cells; empty where there is no interval.
void add_bounds(const std::string& prefix, const Json& ends, CsvRow& row) {
  row.emplace_back(prefix + "low", ends.is_null() ? "" : text_of(ends.at(0)));
  row.emplace_back(prefix + "high", ends.is_null() ? "" : text_of(ends.at(1)));
}

void flatten(const std::string& name, const Json& value, CsvRow& row) {
  if (name == "accuracy.curve") return;  // a table of its own: rehearse forecast --format csv
  if (name == "answer") return;          // sentences on the other columns
  if (name == "staleness.histogram") {
    row.emplace_back(name, histogram_text(value));
  } else if (name == "intervals") {
    for (const auto& [key, ends] : value.items()) add_bounds(key + "_", ends, row);
  } else if (name == "step_time_interval_s" || name.ends_with("_spread_s")) {
    add_bounds(name + ".", value, row);
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.items())
      flatten(name.empty() ? key : name + "." + key, member, row);
  } else {
    row.emplace_back(name, value.is_array() ? joined(value) : text_of(value));
  }
}

/// Every column that a report can have, whatever the given ones lack; `versions` adds what they
/// name.
std::vector<std::string> columns_of(const std::vector<std::string>& first,
                                    const std::vector<CsvRow>& rows) {
  Report whole;
  whole.memory.emplace().out_of_memory.emplace();
  whole.staleness.emplace();
  whole.steady.emplace();
  whole.cost.emplace().usd_by_part.emplace();
  whole.energy.emplace();
  whole.goodput.emplace();
  whole.start.emplace();
  for (const std::string& key : interval_keys()) whole.intervals.push_back({key, {}});
  std::vector<std::string> columns = first;
  for (const auto& [name, text] : csv_row(json_view(whole))) columns.push_back(name);
  for (const CsvRow& row : rows) {
    for (const auto& [name, text] : row) {
      static const std::set<std::string> kAbsent = {
          "memory", "memory.out_of_memory", "accuracy.target", "staleness",
          "cost",   "cost.usd_by_part",     "energy",          "goodput",
          "start",  "steady_state"};
      if (!kAbsent.contains(name) && std::ranges::find(columns, name) == columns.end())
        columns.push_back(name);
    }
  }
  return columns;
}

std::vector<std::string> cells_of(const CsvRow& row, const std::vector<std::string>& columns) {
  std::vector<std::string> cells;
  for (const std::string& column : columns) {
    const auto cell = std::ranges::find(row, column, [](const auto& pair) { return pair.first; });
    cells.push_back(cell == row.end() ? "" : cell->second);
  }
  return cells;
}

}  // namespace

CsvRow csv_row(const Json& report) {
  CsvRow row;
  flatten("", report, row);
  return row;
}

std::string csv_table(const std::vector<std::string>& first, const std::vector<CsvRow>& rows) {
  const std::vector<std::string> columns = columns_of(first, rows);
  Table table;
  for (const std::string& column : columns) table.column(column, TableColumn::Side::left);
  for (const CsvRow& row : rows) table.row({cells_of(row, columns)});
  return table.csv();
}

std::string to_csv(const std::vector<Report>& reports) {
  std::vector<CsvRow> rows;
  rows.reserve(reports.size());
  for (const Report& report : reports) rows.push_back(csv_row(json_view(report)));
  return csv_table({}, rows);
}

}  // namespace rehearse::inline view
