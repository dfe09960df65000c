#include <fmt/format.h>

#include <map>

#include "base/printable.hpp"
#include "study/study_view.hpp"
#include "study/sweep.hpp"
#include "view/table.hpp"

namespace rehearse::inline study {

std::string study_outline(const PreparedStudy& prepared) {
  constexpr std::size_t kColumns = 160;
  std::map<std::string, std::size_t> first;  // the first point with a content
  Table table({{"point"}});
  for (const std::string& axis : prepared.identity.axes)
    table.column(axis, TableColumn::Side::left);
  for (std::size_t i = 0; i < prepared.points.size(); ++i) {
    const StudyPoint& point = prepared.points[i];
    TableRow row{.cells = {std::to_string(i + 1)}};
    row.cells.insert(row.cells.end(), point.labels.begin(), point.labels.end());
    const auto [same, is_new] = first.emplace(point.key, i + 1);
    if (!is_new) row.running_on = fmt::format("as point {}", same->second);
    if (const auto wrong = prepared.unreadable.find(point.key); wrong != prepared.unreadable.end())
      row.running_on = first_line(wrong->second.text);
    table.row(std::move(row));
  }
  Page page(kColumns, false);
  table.print(page);
  return page.text() + fmt::format("{} points, {} simulations\n", prepared.points.size(),
                                   first.size() - prepared.unreadable.size());
}

}  // namespace rehearse::inline study
