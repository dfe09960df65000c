#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace rehearse::inline view {

/// Column name and text, in order.
using CsvRow = std::vector<std::pair<std::string, std::string>>;

/// A report (`rehearse.report/1`) as one row: nested keys joined by dots, lists by semicolons.
CsvRow csv_row(const nlohmann::ordered_json& report);

/// A header line and the rows, by the names of their columns: every column that a report can have,
/// and what the rows have besides, in the order in which they come. `first` names columns that
/// stand before all.
std::string csv_table(const std::vector<std::string>& first, const std::vector<CsvRow>& rows);

}  // namespace rehearse::inline view
