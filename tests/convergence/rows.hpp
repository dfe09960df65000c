#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/data_folder.hpp"
#include "config/whole_file.hpp"

namespace rehearse {

using Row = std::map<std::string, std::string>;

inline std::vector<std::string> csv_cells(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

/// Published values of the sources whose name begins so.
inline std::vector<Row> rows_of(const std::string& source) {
  std::istringstream lines(read_whole_file(platforms_path("convergence/rows.csv")));
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> names = csv_cells(line);
  std::vector<Row> rows;
  while (std::getline(lines, line)) {
    const std::vector<std::string> cells = csv_cells(line);
    if (!cells.at(0).starts_with(source)) continue;
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells.at(i);
  }
  return rows;
}

inline double number(const Row& row, const char* column) { return std::stod(row.at(column)); }

}  // namespace rehearse
