#include "profile/points_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/number.hpp"
#include "config/document.hpp"
#include "config/text_source.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline profile {
namespace {

struct Cell {
  std::string text;
  std::size_t byte = 0;  ///< where it starts in its line
};

class TableReader {
 public:
  explicit TableReader(std::shared_ptr<const TextSource> source) : source_(std::move(source)) {}

  CommPoints read() {
    result_.file = source_->name;
    for (line_ = 0; line_ < source_->lines.size(); ++line_) {
      const std::string& line = source_->lines[line_];
      if (line.empty() || line[0] == '#') continue;
      std::vector<Cell> cells = cells_of(line);
      if (head_.empty()) {
        read_head(std::move(cells));
      } else {
        read_row(cells);
      }
    }
    line_ = 0;
    if (head_.empty()) fail(0, "no head: hardware,ranks,nodes,collective,bytes,time_us");
    if (result_.points.empty()) fail(0, "no row below the head");
    return std::move(result_);
  }

 private:
  /// One line's cells; a doubled quote inside quotes is a quote.
  std::vector<Cell> cells_of(const std::string& line) const {
    std::vector<Cell> cells(1);
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
        cells.back().text += line[++i];
      } else if (c == '"') {
        quoted = !quoted;
      } else if (c == ',' && !quoted) {
        cells.push_back({"", i + 1});
      } else {
        cells.back().text += c;
      }
    }
    if (quoted) fail(cells.back().byte, "a quote that is not closed");
    return cells;
  }

  void read_head(std::vector<Cell> cells) {
    static const std::vector<std::string> kColumns = {"hardware", "ranks",   "nodes", "collective",
                                                      "bytes",    "time_us", "source"};
    for (auto cell = cells.begin(); cell != cells.end(); ++cell) {
      if (std::find(kColumns.begin(), kColumns.end(), cell->text) == kColumns.end()) {
        const std::string near = nearest(cell->text, kColumns);
        fail(cell->byte, fmt::format("unknown column \"{}\"", cell->text),
             near.empty() ? "" : fmt::format("did you mean {}?", near));
      }
      const auto same = [&](const Cell& other) { return other.text == cell->text; };
      if (std::any_of(cells.begin(), cell, same))
        fail(cell->byte, fmt::format("a second column {}", cell->text));
    }
    head_ = std::move(cells);
    for (const std::string& name : kColumns) {
      if (name != "source" && !column(name)) fail(0, fmt::format("the column {} is missing", name));
    }
  }

  std::optional<std::size_t> column(const std::string& name) const {
    const auto found =
        std::find_if(head_.begin(), head_.end(), [&](const Cell& c) { return c.text == name; });
    if (found == head_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - head_.begin());
  }

  void read_row(const std::vector<Cell>& cells) {
    if (cells.size() != head_.size()) {
      fail(cells.back().byte,
           fmt::format("expected {} cells, as in the head; got {}", head_.size(), cells.size()));
    }
    const auto cell = [&](const char* name) -> const Cell& { return cells[*column(name)]; };
    CommPoint point;
    point.ranks = whole(cell("ranks"), 2);
    point.nodes = whole(cell("nodes"), 1);
    if (point.nodes > point.ranks) fail(cell("nodes").byte, "more nodes than ranks");
    point.kind = kind(cell("collective"));
    point.size = Bytes(positive(cell("bytes")));
    point.time = Seconds(positive(cell("time_us")) * 1e-6);
    result_.points.push_back(point);
    same_for_all(result_.hardware, cell("hardware"), "hardware");
    if (column("source")) same_for_all(result_.source, cell("source"), "source");
  }

  /// A profile is of one kind of machine, so is the table that it is made from.
  void same_for_all(std::string& seen, const Cell& cell, const char* name) const {
    if (cell.text.empty()) fail(cell.byte, fmt::format("expected a {}", name));
    if (seen.empty()) seen = cell.text;
    if (seen != cell.text) fail(cell.byte, fmt::format("expected one {} in the whole table", name));
  }

  CollectiveKind kind(const Cell& cell) const {
    std::vector<std::string> names;
    for (const CollectiveKind candidate : kCollectiveKinds) {
      if (to_string(candidate) == cell.text) return candidate;
      names.push_back(to_string(candidate));
    }
    const std::string near = nearest(cell.text, names);
    fail(cell.byte, fmt::format("expected a collective; got \"{}\"", cell.text),
         near.empty() ? "" : fmt::format("did you mean {}?", near));
  }

  double positive(const Cell& cell) const {
    const auto value = decimal_number(cell.text);
    if (!value || !(*value > 0))
      fail(cell.byte, fmt::format("expected a number above 0; got \"{}\"", cell.text));
    return *value;
  }

  int whole(const Cell& cell, int low) const {
    const auto value = decimal_number(cell.text);
    if (!value || *value < low || *value > 1e6 || *value != std::floor(*value)) {
      fail(cell.byte,
           fmt::format("expected a whole number of {} or more; got \"{}\"", low, cell.text));
    }
    return static_cast<int>(*value);
  }

  [[noreturn]] void fail(std::size_t byte, const std::string& message,
                         const std::string& remedy = "") const {
    fail_at({source_, line_, byte}, message, remedy);
  }

  std::shared_ptr<const TextSource> source_;
  std::size_t line_ = 0;
  std::vector<Cell> head_;
  CommPoints result_;
};

}  // namespace

CommPoints read_points(const std::filesystem::path& file) {
  return TableReader(make_text_source(read_whole_file(file), file.string(), file.parent_path()))
      .read();
}

}  // namespace rehearse::inline profile
