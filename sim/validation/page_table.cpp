#include "validation/page_table.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {
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

/// Columns as wide as they must be; the first, with names, gives way where the page is too narrow.
std::vector<std::size_t> widths_of(const std::vector<std::string>& titles,
                                   const std::vector<TableLine>& lines) {
  std::vector<std::size_t> widths;
  std::size_t others = 0;
  for (std::size_t i = 0; i < titles.size(); ++i) {
    widths.push_back(columns(titles[i]));
    for (const TableLine& line : lines) {
      if (i < line.cells.size()) widths[i] = std::max(widths[i], columns(line.cells[i]));
    }
    if (i > 0) others += kGap + widths[i];
  }
  const std::size_t left_over = others < kTableWidth ? kTableWidth - others : 0;
  widths[0] = std::min(widths[0], std::max(left_over, kNarrowestName));
  return widths;
}

}  // namespace

void add_table(Page& page, const std::vector<std::string>& titles, const std::vector<TableLine>& lines,
               std::size_t words) {
  const std::vector<std::size_t> widths = widths_of(titles, lines);
  std::size_t whole = kGap * (widths.size() - 1);
  for (const std::size_t width : widths) whole += width;
  const auto add = [&](TableLine line) {
    if (columns(line.cells[0]) > widths[0]) {  // a name too long for its column stands above it
      page.line(page.ink(line.ink, cut(line.cells[0], kTableWidth)));
      line.cells[0].clear();
    }
    std::string text;
    for (std::size_t i = 0; i < line.cells.size(); ++i) {
      text += i < words ? left(line.cells[i], widths[i]) : right(line.cells[i], widths[i]);
      if (i + 1 < line.cells.size() || !line.running_on.empty()) text += std::string(kGap, ' ');
    }
    text += line.running_on;
    text.erase(text.find_last_not_of(' ') + 1);
    page.line(page.ink(line.ink, cut(text, std::max(kTableWidth, whole))));
  };
  add({.cells = titles, .ink = Ink::faint});
  for (const TableLine& line : lines) add(line);
}

}  // namespace rehearse
