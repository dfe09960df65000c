#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/text_source.hpp"

namespace rehearse::inline validation {

/// A run of a table, by the names of its columns. A cell that is empty, or whose column is not
/// there, is not stated.
class RunRow {
 public:
  struct Cell {
    std::string text;
    TextPosition at;
  };

  RunRow(std::map<std::string, Cell> cells, TextPosition begin)
      : cells_(std::move(cells)), begin_(std::move(begin)) {}

  std::filesystem::path folder() const { return begin_.source->folder; }
  /// The cell as it stands; empty: it is not stated.
  std::string text(const std::string& column) const;
  /// A number above 0, and a whole one.
  std::optional<double> number(const std::string& column) const;
  std::optional<std::int64_t> whole(const std::string& column) const;
  /// One of these words, or nothing.
  std::string choice(const std::string& column, const std::vector<std::string>& words) const;

  /// InputError at the cell, or at the row where there is none.
  [[noreturn]] void fail(const std::string& column, const std::string& message,
                         const std::string& remedy) const;

 private:
  std::map<std::string, Cell> cells_;
  TextPosition begin_;
};

/// The rows of a table in their order. InputError for columns or rows that are none.
std::vector<RunRow> read_run_rows(const std::filesystem::path& file);

/// The changes that columns make in a scenario, as `--set` has them.
std::vector<std::string> overrides_of(const RunRow& row);

/// The key of a report that a run's peak of memory is, and the bytes of its unit.
std::string memory_metric(const RunRow& row);
double memory_unit(const RunRow& row);

}  // namespace rehearse::inline validation
