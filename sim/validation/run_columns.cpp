#include "validation/run_columns.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/number.hpp"
#include "config/document.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline validation {
namespace {

/// Columns of published tables. Those behind `notes` say what no scenario needs.
constexpr std::array<std::string_view, 49> kColumns = {"row_id",
                                                       "source_id",
                                                       "scenario",
                                                       "model",
                                                       "layers",
                                                       "hidden",
                                                       "heads",
                                                       "kv_heads",
                                                       "ffn",
                                                       "vocab",
                                                       "gpu",
                                                       "cluster",
                                                       "gpus",
                                                       "gpus_per_node",
                                                       "framework",
                                                       "precision",
                                                       "seq_len",
                                                       "micro_batch",
                                                       "global_batch",
                                                       "tp",
                                                       "pp",
                                                       "vp",
                                                       "cp",
                                                       "ep",
                                                       "shard",
                                                       "sequence_parallel",
                                                       "recompute",
                                                       "compile",
                                                       "step_time_s",
                                                       "tokens_per_s_per_gpu",
                                                       "peak_mem",
                                                       "peak_mem_unit",
                                                       "peak_mem_kind",
                                                       "outcome",
                                                       "notes",
                                                       "measured",
                                                       "moe",
                                                       "params_b",
                                                       "gpu_mem_gb",
                                                       "dp",
                                                       "overlap",
                                                       "step_time_lo_s",
                                                       "step_time_hi_s",
                                                       "step_time_n",
                                                       "model_tflops_per_gpu",
                                                       "mfu_pct",
                                                       "derived",
                                                       "quality",
                                                       "where"};

using Cell = RunRow::Cell;

/// Cells of a line as RFC 4180 has them, each on this line.
std::vector<Cell> cells_of(const std::shared_ptr<const TextSource>& source, std::size_t line) {
  const std::string& text = source->lines[line];
  std::vector<Cell> cells;
  std::size_t at = 0;
  while (true) {
    Cell cell{.text = {}, .at = {source, line, at}};
    if (at < text.size() && text[at] == '"') {
      for (++at;; ++at) {
        if (at >= text.size())
          fail_at(cell.at, "a quote that nothing closes", "close it on the same line");
        if (text[at] != '"') {
          cell.text += text[at];
        } else if (at + 1 < text.size() && text[at + 1] == '"') {
          cell.text += text[at++];
        } else {
          break;
        }
      }
      ++at;
    }
    const std::size_t end = std::min(text.find(',', at), text.size());
    cell.text += text.substr(at, end - at);
    cells.push_back(std::move(cell));
    if (end == text.size()) return cells;
    at = end + 1;
  }
}

std::vector<std::string> columns_of(const std::vector<Cell>& head) {
  const std::vector<std::string> known(kColumns.begin(), kColumns.end());
  std::vector<std::string> columns;
  for (const Cell& cell : head) {
    if (std::ranges::find(known, cell.text) == known.end()) {
      const std::string near = nearest(cell.text, known);
      fail_at(cell.at, fmt::format("no column \"{}\" of runs is known", cell.text),
              near.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                           : fmt::format("did you mean \"{}\"?", near));
    }
    if (std::ranges::find(columns, cell.text) != columns.end())
      fail_at(cell.at, fmt::format("a second column \"{}\"", cell.text), "remove one of both");
    columns.push_back(cell.text);
  }
  return columns;
}

bool is_comment(const std::string& line) { return line.empty() || line.front() == '#'; }

}  // namespace

std::string RunRow::text(const std::string& column) const {
  const auto found = cells_.find(column);
  return found == cells_.end() ? "" : found->second.text;
}

std::optional<double> RunRow::number(const std::string& column) const {
  const std::string cell = text(column);
  if (cell.empty()) return std::nullopt;
  const auto value = decimal_number(cell);
  if (!value || !std::isfinite(*value) || *value <= 0)
    fail(column, fmt::format("expected a number above 0, not \"{}\"", cell),
         "leave unknowns empty");
  return value;
}

std::optional<std::int64_t> RunRow::whole(const std::string& column) const {
  const auto value = number(column);
  if (!value) return std::nullopt;
  constexpr double kMost = 1e15;
  if (std::floor(*value) != *value || *value > kMost)
    fail(column, fmt::format("expected a whole number, not \"{}\"", text(column)), "");
  return static_cast<std::int64_t>(*value);
}

std::string RunRow::choice(const std::string& column, const std::vector<std::string>& words) const {
  const std::string cell = text(column);
  if (cell.empty() || std::ranges::find(words, cell) != words.end()) return cell;
  fail(column, fmt::format("expected {}, not \"{}\"", fmt::join(words, " or "), cell),
       "leave unknowns empty");
}

void RunRow::fail(const std::string& column, const std::string& message,
                  const std::string& remedy) const {
  const auto found = cells_.find(column);
  fail_at(found == cells_.end() ? begin_ : found->second.at,
          found == cells_.end() ? message : fmt::format("{}: {}", column, message), remedy);
}

std::vector<RunRow> read_run_rows(const std::filesystem::path& file) {
  const auto source = make_text_source(read_whole_file(file), file.string(), file.parent_path());
  std::vector<std::string> columns;
  std::vector<RunRow> rows;
  for (std::size_t line = 0; line < source->lines.size(); ++line) {
    if (is_comment(source->lines[line])) continue;
    const std::vector<Cell> cells = cells_of(source, line);
    if (columns.empty()) {
      columns = columns_of(cells);
      continue;
    }
    if (cells.size() != columns.size())
      fail_at({source, line, 0},
              fmt::format("{} cells under {} columns", cells.size(), columns.size()),
              "quote a cell that holds a comma");
    std::map<std::string, Cell> named;
    for (std::size_t i = 0; i < cells.size(); ++i) named[columns[i]] = cells[i];
    rows.emplace_back(std::move(named), TextPosition{source, line, 0});
  }
  if (rows.empty())
    throw InputError(
        fmt::format("{}: error: no runs\nremedy: a line of columns, such as "
                    "scenario,step_time_s, and a line for each run",
                    file.string()));
  return rows;
}

}  // namespace rehearse::inline validation
