#include "profile/rccl_tests_records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/error.hpp"
#include "base/number.hpp"
#include "config/json/json_text.hpp"

namespace rehearse::inline profile {
namespace {

/// A record's fields as text, by their names in lower case.
using Record = std::map<std::string, std::string>;

std::string lower_trimmed(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0 && c != '#')
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

std::vector<Record> json_records(const std::string& text, const std::string& file) {
  const nlohmann::json root = tried_json(text);
  if (!root.is_array())
    throw InputError(fmt::format("{}: error: not a whole JSON list of rccl-tests", file));
  std::vector<Record> records;
  for (const nlohmann::json& one : root) {
    Record record;
    if (one.is_object()) {
      for (const auto& [key, value] : one.items())
        record[lower_trimmed(key)] =
            value.is_string() ? value.get<std::string>() : json_text(value);
    }
    records.push_back(std::move(record));
  }
  return records;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) {
    const std::size_t first = cell.find_first_not_of(" \t\r\""),
                      last = cell.find_last_not_of(" \t\r\"");
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

std::vector<Record> csv_records(const std::string& text) {
  std::vector<Record> records;
  std::vector<std::string> head;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const std::vector<std::string> cells = cells_of(line);
    if (lower_trimmed(line).starts_with("numcycle")) {
      head.clear();
      for (const std::string& cell : cells) head.push_back(lower_trimmed(cell));
    } else if (!head.empty() && !cells.empty()) {
      Record record;
      for (std::size_t i = 0; i < std::min(head.size(), cells.size()); ++i)
        record[head[i]] = cells[i];
      records.push_back(std::move(record));
    }
  }
  return records;
}

std::optional<CollectiveKind> kind_of(const std::string& name) {
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
        CollectiveKind::broadcast, CollectiveKind::send_recv}) {
    std::string plain(to_string(kind));
    std::erase(plain, '_');
    if (plain == lower_trimmed(name)) return kind;
  }
  return std::nullopt;
}

class RecordReader {
 public:
  RecordReader(std::vector<Record> records, std::string file, const NcclTestsOptions& options)
      : records_(std::move(records)), file_(std::move(file)), options_(options) {}

  CommPoints read() {
    CommPoints result;
    result.file = file_;
    result.source = "rccl-tests";
    std::string skipped;
    for (at_ = 0; at_ < records_.size(); ++at_) {
      if (number("size") == 0 || (number("inplace") != 0) != options_.in_place) continue;
      const auto kind = options_.collective ? options_.collective : kind_of(field("name"));
      if (kind)
        result.points.push_back(point(*kind));
      else
        skipped = field("name");
    }
    if (!result.points.empty()) return result;
    throw InputError(fmt::format(
        "{}: error: {}", file_,
        skipped.empty() ? "no record of a size above 0"
                        : fmt::format("only records of {}, which no profile holds", skipped)));
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(fmt::format("{}: error: record {}: {}", file_, at_ + 1, message));
  }

  std::string field(const std::string& name) const {
    const auto found = records_[at_].find(name);
    if (found == records_[at_].end()) fail(fmt::format("{} is missing", name));
    return found->second;
  }

  double number(const std::string& name) const {
    const auto value = decimal_number(field(name));
    if (!value || !(*value >= 0))
      fail(fmt::format("{}: expected a number; got \"{}\"", name, field(name)));
    return *value;
  }

  CommPoint point(CollectiveKind kind) const {
    if (const auto wrong = decimal_number(field("wrong")); wrong && *wrong > 0)
      fail("the results of this record are wrong, so is its time");
    if (!(number("time") > 0)) fail("time: expected a time above 0");
    const int nodes = options_.nodes.value_or(static_cast<int>(number("nodes")));
    const int ranks = options_.ranks.value_or(ranks_of(kind));
    if (ranks < 2) fail("one rank communicates with nobody");
    if (nodes < 1 || nodes > ranks) fail("expected from one node to as many as ranks");
    return {kind, ranks, nodes, Bytes(number("size")), Seconds(number("time") * 1e-6)};
  }

  /// `ranks` counts processes in one version and GPUs in another: busbw tells which.
  int ranks_of(CollectiveKind kind) const {
    const double processes = number("ranks"), all = processes * number("gpusperrank");
    if (!(all >= 1) || all > 1e7) fail("ranks: expected a number of ranks");
    const double algbw = number("algbw");
    if (algbw < 1) return static_cast<int>(all);
    const double got = number("busbw") / algbw;
    for (const double ranks : {all, processes}) {
      if (std::abs(got / bus_factor(kind, ranks) - 1) < 0.025) return static_cast<int>(ranks);
    }
    fail(fmt::format("busbw is {:.3g} times algbw, but {} over {:.0f} ranks makes it {:.3g}", got,
                     to_string(kind), all, bus_factor(kind, all)));
  }

  std::vector<Record> records_;
  std::string file_;
  NcclTestsOptions options_;
  std::size_t at_ = 0;
};

bool is_csv(const std::string& text) {
  return lower_trimmed(text.substr(0, text.find('\n'))).starts_with("numcycle,");
}

}  // namespace

bool is_rccl_tests_records(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return is_csv(text) || (first != std::string::npos && text[first] == '[' &&
                          text.find("\"numCycle\"") != std::string::npos);
}

CommPoints read_rccl_tests_records(const std::string& text, const std::string& file,
                                   const NcclTestsOptions& options) {
  return RecordReader(is_csv(text) ? csv_records(text) : json_records(text, file), file, options)
      .read();
}

}  // namespace rehearse::inline profile
