#pragma once

#include <string>
#include <vector>

#include "report/page.hpp"

namespace rehearse {

/// Columns of a validation's pages.
inline constexpr std::size_t kTableWidth = 120;

/// A line of a table: cells under their titles, or a text that runs on behind the first cell.
struct TableLine {
  std::vector<std::string> cells;
  std::string running_on = {};
  Ink ink = Ink::plain;
};

/// The first `words` columns to the left, numbers to the right. A line is as wide as its columns
/// where those need more than the page: no number is cut.
void add_table(Page& page, const std::vector<std::string>& titles,
               const std::vector<TableLine>& lines, std::size_t words);

}  // namespace rehearse
