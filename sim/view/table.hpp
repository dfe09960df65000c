#pragma once

#include <string>
#include <utility>
#include <vector>

#include "view/page.hpp"

namespace rehearse::inline view {

struct TableColumn {
  std::string title;
  enum class Side { left, right } side = Side::right;  ///< words to the left, numbers to the right
  bool only_if_filled = false;  ///< on a terminal: gone where all its cells are empty
};

struct TableRow {
  std::vector<std::string> cells;  ///< in the columns' order; those that are missing: empty
  std::string running_on = {};     ///< text behind the last of `cells`; cut where the page ends
  Ink ink = Ink::plain;
};

/// Cells under titles, the same in every view.
class Table {
 public:
  Table() = default;
  explicit Table(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  void column(std::string title, TableColumn::Side side, bool only_if_filled = false) {
    columns_.push_back({std::move(title), side, only_if_filled});
  }
  void row(TableRow row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }

  /// Columns as wide as they must be. Where the page is too narrow the first one gives way: a
  /// longer name stands on a line of its own. No number is cut.
  void print(Page& page) const;
  /// As RFC 4180 has it, but for line feeds alone: quoted where a cell holds a comma, a quote or a
  /// line break; quotes doubled. What a spreadsheet would take for a formula (`=`, `+`, `-`, `@` in
  /// front, and no number) begins with an apostrophe. `running_on` is left out.
  std::string csv() const;
  /// As GitHub has it; `running_on` stands in the last column.
  std::string markdown() const;

 private:
  std::vector<std::size_t> widths(std::size_t page) const;
  std::string line(const TableRow& row, const std::vector<std::size_t>& widths) const;

  std::vector<TableColumn> columns_;
  std::vector<TableRow> rows_;
};

}  // namespace rehearse::inline view
