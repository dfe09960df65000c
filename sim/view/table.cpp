#include "view/table.hpp"

#include <algorithm>
#include <string_view>

#include "base/number.hpp"

namespace rehearse::inline view {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kNarrowestName = 24;

/// Cut to `width` columns, at a whole character.
std::string cut(const std::string& text, std::size_t width) {
  if (columns(text) <= width) return text;
  std::size_t bytes = text.size();
  while (columns(text.substr(0, bytes)) > width - 3) --bytes;
  return text.substr(0, bytes) + "...";
}

std::string without_blanks_behind(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

/// Spreadsheets take a cell that begins so for a formula.
bool looks_like_a_formula(const std::string& text) {
  return !text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos &&
         !decimal_number(text);
}

std::string csv_field(const std::string& given) {
  const std::string text = looks_like_a_formula(given) ? "'" + given : given;
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += csv_field(cell) + ',';
  line.back() = '\n';  // not RFC 4180's CR LF: what Unix tools read by lines
  return line;
}

/// Bars would end a cell.
std::string markdown_line(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) {
    line += ' ';
    for (const char letter : without_blanks_behind(cell))
      line += letter == '|' ? "\\|" : std::string(1, letter);
    line += " |";
  }
  return line + "\n";
}

}  // namespace

std::vector<std::size_t> Table::widths(std::size_t page) const {
  std::vector<std::size_t> widths;
  std::size_t others = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = 0;
    for (const TableRow& row : rows_)
      if (i < row.cells.size()) width = std::max(width, columns(row.cells[i]));
    if (width > 0 || !columns_[i].only_if_filled)
      width = std::max(width, columns(columns_[i].title));
    widths.push_back(width);
    if (i > 0 && (width > 0 || !columns_[i].only_if_filled)) others += kGap + width;
  }
  const std::size_t left_over = others < page ? page - others : 0;
  widths[0] = std::min(widths[0], std::max(left_over, kNarrowestName));
  return widths;
}

std::string Table::line(const TableRow& row, const std::vector<std::size_t>& widths) const {
  std::string text;
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    if (widths[i] == 0 && columns_[i].only_if_filled) continue;
    if (i > 0) text += std::string(kGap, ' ');
    const bool words = columns_[i].side == TableColumn::Side::left;
    text += words ? left(row.cells[i], widths[i]) : right(row.cells[i], widths[i]);
  }
  return without_blanks_behind(text + std::string(kGap, ' ') + row.running_on);
}

void Table::print(Page& page) const {
  const std::vector<std::size_t> widths = this->widths(page.width());
  std::size_t whole = kGap * (widths.size() - 1);
  for (const std::size_t width : widths) whole += width;
  whole = std::max(whole, page.width());
  TableRow titles{.cells = {}, .ink = Ink::faint};
  for (const TableColumn& column : columns_) titles.cells.push_back(column.title);
  page.line(page.ink(titles.ink, line(titles, widths)));
  for (TableRow row : rows_) {
    if (columns(row.cells[0]) > widths[0]) {
      page.line(page.ink(row.ink, cut(row.cells[0], page.width())));
      row.cells[0].clear();
    }
    page.line(page.ink(row.ink, cut(line(row, widths), whole)));
  }
}

std::string Table::csv() const {
  std::vector<std::string> titles;
  for (const TableColumn& column : columns_) titles.push_back(column.title);
  std::string text = csv_line(titles);
  for (const TableRow& row : rows_) {
    std::vector<std::string> cells = row.cells;
    cells.resize(columns_.size());
    text += csv_line(cells);
  }
  return text;
}

std::string Table::markdown() const {
  std::vector<std::string> titles;
  for (const TableColumn& column : columns_) titles.push_back(column.title);
  std::string text = markdown_line(titles) + "|";
  for (const TableColumn& column : columns_)
    text += column.side == TableColumn::Side::left ? "---|" : "---:|";
  text += "\n";
  for (const TableRow& row : rows_) {
    std::vector<std::string> cells = row.cells;
    cells.resize(columns_.size());
    if (!row.running_on.empty()) cells.back() = row.running_on;
    text += markdown_line(cells);
  }
  return text;
}

}  // namespace rehearse::inline view
