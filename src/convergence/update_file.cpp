#include "convergence/update_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/number.hpp"
#include "config/text_source.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline convergence {
namespace {

constexpr std::string_view kSchema = "# rehearse.updates/1";
constexpr std::string_view kColumns =
    "worker,iteration,version_read,version_applied,staleness,applied_s";
constexpr std::uint64_t kMostWorkers = 1'000'000;
constexpr std::uint64_t kMostLocalSteps = 1'000'000;

class UpdatesReader {
 public:
  UpdatesReader(std::string text, const std::filesystem::path& file)
      : file_(file), text_(std::move(text)) {}

  RunUpdates read() {
    read_schema();
    next_line();
    if (line_ != kColumns) fail(0, fmt::format("expected the columns {}", kColumns));
    next_iteration_.assign(run_.workers, 0);
    while (next_line()) read_row();
    if (run_.updates.empty()) fail(0, "no update below the columns");
    return std::move(run_);
  }

 private:
  struct Cell {
    std::string_view text;
    std::size_t byte = 0;
  };

  /// False at the end of the text; the last line then stays, for its errors.
  bool next_line() {
    if (position_ >= text_.size()) return false;
    const std::size_t end = std::min(text_.find('\n', position_), text_.size());
    line_ = std::string_view(text_).substr(position_, end - position_);
    position_ = end + 1;
    ++number_;
    return true;
  }

  void read_schema() {
    next_line();
    if (!line_.starts_with(kSchema)) {
      fail(0, fmt::format("expected \"{} workers=...\"", kSchema),
           "rehearse run SCENARIO --updates FILE and rehearse-calibrate step write such files");
    }
    bool has_workers = false;
    for (std::size_t at = kSchema.size(); at < line_.size();) {
      if (line_[at] != ' ') fail(at, "expected a space before the next KEY=VALUE");
      const std::size_t end = std::min(line_.find(' ', at + 1), line_.size());
      has_workers |= read_key({line_.substr(at + 1, end - at - 1), at + 1});
      at = end;
    }
    if (!has_workers) fail(0, "workers=... is missing");
    if (outer_keys_ == 0) return;
    if (outer_keys_ != 3)
      fail(0, "outer_learning_rate, outer_momentum and outer_nesterov stand together");
    if (run_.mitigation.outer->nesterov && run_.mitigation.outer->momentum == 0)
      fail(0, "Nesterov's step needs a momentum");
  }

  /// True for the key `workers`.
  bool read_key(const Cell& pair) {
    const std::size_t equals = pair.text.find('=');
    if (equals == std::string_view::npos) fail(pair.byte, "expected KEY=VALUE");
    const std::string_view key = pair.text.substr(0, equals);
    const Cell value{pair.text.substr(equals + 1), pair.byte + equals + 1};
    if (key == "workers") {
      run_.workers = static_cast<std::uint32_t>(whole(value, 1, kMostWorkers));
    } else if (key == "warmup") {
      run_.warmup = whole(value);
    } else if (key == "staleness_bound") {
      run_.mitigation.staleness_bound = whole(value);
    } else if (key == "backup_workers") {
      run_.mitigation.backup_workers = static_cast<std::uint32_t>(whole(value, 0, kMostWorkers));
    } else if (key == "warmup_rounds") {
      run_.mitigation.warmup_rounds = whole(value);
    } else if (key == "local_steps") {
      run_.mitigation.local_steps = static_cast<std::uint32_t>(whole(value, 1, kMostLocalSteps));
    } else if (key.starts_with("outer_")) {
      read_outer_key(pair, key, value);
    } else {
      fail(pair.byte, fmt::format("unknown key \"{}\"", key));
    }
    return key == "workers";
  }

  void read_outer_key(const Cell& pair, std::string_view key, const Cell& value) {
    if (!run_.mitigation.outer) run_.mitigation.outer.emplace();
    OuterSgd& outer = *run_.mitigation.outer;
    ++outer_keys_;
    if (key == "outer_learning_rate") {
      outer.learning_rate = number(value, "a number above 0", [](double x) { return x > 0; });
    } else if (key == "outer_momentum") {
      outer.momentum =
          number(value, "a number from 0 to less than 1", [](double x) { return x >= 0 && x < 1; });
    } else if (key == "outer_nesterov") {
      outer.nesterov = whole(value, 0, 1) == 1;
    } else {
      fail(pair.byte, fmt::format("unknown key \"{}\"", key));
    }
  }

  void read_row() {
    const auto cells = cells_of();
    AppliedUpdate row;
    row.worker = static_cast<std::uint32_t>(whole(cells[0], 0, run_.workers - 1));
    row.iteration = whole(cells[1]);
    row.version_read = whole(cells[2]);
    row.version_applied = whole(cells[3]);
    const std::uint64_t staleness = whole(cells[4]);
    row.applied = time(cells[5]);
    check_order(row, cells);
    if (row.version_read > row.version_applied)
      fail(cells[2].byte, "read a version that was not there yet");
    if (staleness != row.staleness())
      fail(cells[4].byte, fmt::format("expected version_applied - version_read = {}; got {}",
                                      row.staleness(), staleness));
    run_.updates.push_back(row);
  }

  void check_order(const AppliedUpdate& row, const std::array<Cell, 6>& cells) {
    std::uint64_t& next = next_iteration_[row.worker];
    if (row.iteration < next) {
      fail(cells[1].byte,
           fmt::format("worker {} was in iteration {} before", row.worker, next - 1));
    }
    next = row.iteration + 1;
    const bool first = run_.updates.empty();
    const std::uint64_t last = first ? 0 : run_.updates.back().version_applied;
    if (row.version_applied != last && (first || row.version_applied != last + 1)) {
      fail(cells[3].byte,
           first ? std::string("expected 0, as the first update's")
                 : fmt::format("expected {} or {}, as updates are in order", last, last + 1));
    }
    if (!first && row.applied < run_.updates.back().applied)
      fail(cells[5].byte, "applied before the update above it");
  }

  std::array<Cell, 6> cells_of() const {
    std::array<Cell, 6> cells;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::size_t comma = std::min(line_.find(',', begin), line_.size());
      if ((comma == line_.size()) != (i + 1 == cells.size()))
        fail(std::min(begin, line_.size()), fmt::format("expected {} cells", cells.size()));
      cells[i] = {line_.substr(begin, comma - begin), begin};
      begin = comma + 1;
    }
    return cells;
  }

  std::uint64_t whole(const Cell& cell, std::uint64_t low = 0,
                      std::uint64_t high = std::uint64_t{1} << 53) const {
    std::uint64_t value = 0;
    const char* end = cell.text.data() + cell.text.size();
    const auto [stopped, error] = std::from_chars(cell.text.data(), end, value);
    if (cell.text.empty() || error != std::errc() || stopped != end || value < low ||
        value > high) {
      fail(cell.byte,
           fmt::format("expected a whole number from {} to {}; got \"{}\"", low, high, cell.text));
    }
    return value;
  }

  double number(const Cell& cell, const char* expected, bool (*fits)(double)) const {
    const auto value = decimal_number(cell.text);
    if (!value || !fits(*value))
      fail(cell.byte, fmt::format("expected {}; got \"{}\"", expected, cell.text));
    return *value;
  }

  Seconds time(const Cell& cell) const {
    return Seconds(number(cell, "seconds, 0 or more", [](double x) { return x >= 0; }));
  }

  /// Only the line of the error is kept as a source: logs may be larger than what people write.
  [[noreturn]] void fail(std::size_t byte, const std::string& message,
                         const std::string& remedy = "") const {
    const std::size_t line = std::max<std::size_t>(number_, 1) - 1;
    auto source = std::make_shared<TextSource>(
        TextSource{file_.string(), file_.parent_path(), std::vector<std::string>(line + 1)});
    const auto shown = make_text_source(line_, fmt::format("{}:{}", file_.string(), line + 1), {});
    source->lines[line] = shown->lines[0];
    fail_at({source, line, std::min(byte, source->lines[line].size())}, message, remedy);
  }

  std::filesystem::path file_;
  std::string text_;
  std::size_t position_ = 0;
  std::size_t number_ = 0;  ///< of the line, from 1
  std::string_view line_;
  int outer_keys_ = 0;                         ///< of the outer optimizer, that were read
  std::vector<std::uint64_t> next_iteration_;  ///< by worker: the least that may follow
  RunUpdates run_;
};

}  // namespace

std::string to_csv(const RunUpdates& run) {
  std::string text = fmt::format("{} workers={} warmup={}", kSchema, run.workers, run.warmup);
  const Mitigation& by = run.mitigation;
  if (by.staleness_bound) text += fmt::format(" staleness_bound={}", *by.staleness_bound);
  if (by.backup_workers > 0) text += fmt::format(" backup_workers={}", by.backup_workers);
  if (by.warmup_rounds > 0) text += fmt::format(" warmup_rounds={}", by.warmup_rounds);
  if (by.local_steps > 1) text += fmt::format(" local_steps={}", by.local_steps);
  if (by.outer)
    text += fmt::format(" outer_learning_rate={} outer_momentum={} outer_nesterov={:d}",
                        by.outer->learning_rate, by.outer->momentum, by.outer->nesterov);
  text += fmt::format("\n{}\n", kColumns);
  for (const AppliedUpdate& update : run.updates) {
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{:.9f}\n", update.worker,
                   update.iteration, update.version_read, update.version_applied,
                   update.staleness(), update.applied.value());
  }
  return text;
}

RunUpdates read_updates(const std::filesystem::path& file) {
  return UpdatesReader(read_whole_file(file), file).read();
}

}  // namespace rehearse::inline convergence
