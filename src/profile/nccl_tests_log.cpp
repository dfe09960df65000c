#include "profile/nccl_tests_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/number.hpp"
#include "config/foreign_file.hpp"
#include "profile/bus_factors.hpp"
#include "profile/log_words.hpp"
#include "profile/nccl_devices.hpp"

namespace rehearse::inline profile {
namespace {

/// NCCL's names of element types in the `type` column.
bool is_type(const std::string& text) {
  static constexpr std::array kTypes = {"int8",   "uint8",  "int32",    "uint32",  "int64",
                                        "uint64", "half",   "float",    "double",  "bfloat16",
                                        "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"};
  return std::find(kTypes.begin(), kTypes.end(), text) != kTypes.end();
}

/// Where `name` stands among the words, followed by at least `more` others.
std::optional<std::size_t> find_word(const std::vector<Word>& words, std::string_view name,
                                     std::size_t more) {
  for (std::size_t i = 0; i + more < words.size(); ++i) {
    if (words[i].text == name) return i;
  }
  return std::nullopt;
}

/// The number at a word's end, where a launcher's label is glued to it ("<stdout>:1048576").
Word without_label(const Word& word) {
  const std::size_t label = word.text.find_last_not_of("0123456789");
  if (label == std::string::npos ||
      std::string_view(">:|])").find(word.text[label]) == std::string_view::npos)
    return word;
  return {word.text.substr(label + 1), word.byte + label + 1};
}

/// The words of a row of the table: size, count, type and what follows them, whatever a launcher
/// put before. Empty for all other lines.
std::vector<Word> row_in(const std::vector<Word>& words) {
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (!is_type(words[i].text) || !whole_number(words[i - 1].text)) continue;
    const Word size = without_label(words[i - 2]);
    if (!whole_number(size.text)) continue;
    std::vector<Word> row{size};
    row.insert(row.end(), words.begin() + static_cast<std::ptrdiff_t>(i) - 1, words.end());
    return row;
  }
  return {};
}

/// One damaged line among many is left out: logs of many ranks get torn.
bool too_many(std::size_t torn, std::size_t rows) {
  return torn > std::max<std::size_t>(1, rows / 10);
}

class LogReader {
 public:
  LogReader(std::shared_ptr<const TextSource> source, const NcclTestsOptions& options)
      : source_(std::move(source)),
        options_(options),
        named_(program_in(std::filesystem::path(source_->name).filename().string())) {
    result_.file = source_->name;
  }

  CommPoints read() {
    for (line_ = 0; line_ < source_->lines.size(); ++line_) read_line(source_->lines[line_]);
    check_busbw();
    if (too_many(torn_.size(), result_.points.size())) {
      fail_line(torn_.front().line, torn_.front().byte, torn_.front().message);
    }
    if (result_.points.empty() && !skipped_.empty()) {
      fail_line(0, 0, fmt::format("only rows of {}, which no profile holds", skipped_));
    }
    if (result_.points.empty()) fail_without_rows();
    for (const Torn& torn : torn_)
      result_.left_out.push_back(fmt::format("line {}: {}", torn.line + 1, torn.message));
    return std::move(result_);
  }

 private:
  /// Launchers put what they like before a line (ranks, pods, times, colours); so its words are
  /// looked for and not expected at its begin.
  void read_line(const std::string& line) {
    const std::vector<Word> words = words_of(line, 0);
    if (const auto run = find_word(words, "nThread", 1)) return start_run(words, *run);
    if (find_word(words, "Rank", 1) && find_word(words, "device", 1)) return read_rank(line, words);
    if (const auto head = find_word(words, "size", 5); head && words[*head + 1].text == "count") {
      columns_.assign(words.begin() + static_cast<std::ptrdiff_t>(*head), words.end());
      return;
    }
    if (const std::vector<Word> row = row_in(words); !row.empty()) return read_row(row);
    for (const char* name : {"nccl-tests", "rccl-tests"}) {
      const auto at = find_word(words, name, 2);
      if (at && words[*at + 1].text == "version")
        result_.source = fmt::format("{} {}", name, words[*at + 2].text);
    }
    read_program(line);
  }

  /// "# Collective test starting: all_reduce_perf" since 2.17; before, a log may hold the command
  /// itself.
  void read_program(const std::string& line) {
    const std::size_t starts = line.find("Collective test starting:");
    if (starts == std::string::npos && named_by_itself_) return;
    const std::string program =
        program_in(starts == std::string::npos ? line : line.substr(starts));
    if (program.empty()) return;
    named_ = program;
    named_by_itself_ = starts != std::string::npos;
  }

  /// "# nThread 1 nGpus 8 minBytes ...": another run begins.
  void start_run(const std::vector<Word>& words, std::size_t at) {
    check_busbw();
    devices_ = NcclDevices();
    columns_.clear();
    const auto threads = whole_number(words[at + 1].text);
    const auto gpus = at + 3 < words.size() && words[at + 2].text == "nGpus"
                          ? whole_number(words[at + 3].text)
                          : std::nullopt;
    if (threads && gpus) devices_.set_ranks_per_process(static_cast<int>(*threads * *gpus));
  }

  /// "#  Rank  0 Group  0 Pid  54740 on  thanos device  0 [0x07] NVIDIA A100-SXM4-80GB" (no Group
  /// before 2.13).
  void read_rank(const std::string& line, const std::vector<Word>& words) {
    NcclDevices::Device device;
    const auto after = [&](const char* name) -> std::string {
      for (std::size_t i = 0; i + 1 < words.size(); ++i) {
        if (words[i].text == name) return words[i + 1].text;
      }
      return {};
    };
    const auto rank = whole_number(after("Rank"));
    if (!rank || after("device").empty()) return;  // NCCL's own messages begin with "Rank" too
    device.rank = static_cast<int>(*rank);
    device.group = static_cast<int>(whole_number(after("Group")).value_or(0));
    device.pid = whole_number(after("Pid")).value_or(0);
    device.host = after("on");
    device.device = after("device");
    const std::size_t named = line.find(" device ");
    const std::size_t open = named == std::string::npos ? named : line.find('[', named);
    const std::size_t bracket = open == std::string::npos ? open : line.find(']', open);
    if (bracket != std::string::npos) {
      const std::size_t model = line.find_first_not_of(' ', bracket + 1);
      device.device += line.substr(open, bracket - open);
      if (model != std::string::npos)
        device.model = line.substr(model, line.find_last_not_of(" \t") + 1 - model);
    }
    if (!devices_.add(device)) {
      fail_line(line_, words[*find_word(words, "Rank", 1)].byte,
                fmt::format("rank {} is listed twice: each process ran alone", device.rank),
                "build nccl-tests with MPI=1, so that its processes form one communicator");
    }
    if (result_.hardware.empty()) result_.hardware = device.model;
  }

  void read_row(std::vector<Word> words) {
    // Tests of other collectives (gather_perf, ...) may stand in the same log.
    if (!options_.collective && !named_.empty() && !collective_of_program(named_)) {
      skipped_ = named_;
      return;
    }
    if (columns_.empty())
      fail_line(line_, words[0].byte, "a row before the head of its table (size count type ...)");
    if (has_blank_operation(words)) fill_operation(words);
    if (const auto torn = damage(words)) return torn_.push_back(*torn);
    if (number(words[0]) == 0) return;
    if (const auto wrong = find_column("#wrong");
        wrong && words[*wrong].text != "N/A" && number(words[*wrong]) > 0) {
      fail_line(line_, words[*wrong].byte, "the results of this row are wrong, so is its time");
    }
    const CommPoint point{kind(words), ranks(words), nodes(words), Bytes(number(words[0])),
                          Seconds(number(words[column("time")]) * 1e-6)};
    result_.points.push_back(point);
    last_row_ = Row{point, number(words[column("algbw")]), number(words[column("busbw")]),
                    line_, words[column("busbw")].byte,    fitting(words)};
  }

  /// alltoall_perf of versions 2.8 to 2.10 leaves the column `redop` blank; no other test does.
  bool has_blank_operation(const std::vector<Word>& words) const {
    return columns_.size() > 3 && columns_[3].text == "redop" &&
           words.size() + 1 == columns_.size() && decimal_number(words[3].text);
  }

  void fill_operation(std::vector<Word>& words) {
    if (options_.collective && *options_.collective != CollectiveKind::all_to_all)
      fail_line(line_, words[3].byte,
                fmt::format("the blank redop column is alltoall's, and the log is said to be of {}",
                            to_string(*options_.collective)),
                "leave --collective out");
    words.insert(words.begin() + 3, {"none", words[3].byte});
    named_ = "alltoall_perf";
  }

  struct Torn {
    std::size_t line = 0, byte = 0;
    std::string message;
  };

  /// What is wrong with a row that another rank's output, or the end of the log, cut.
  std::optional<Torn> damage(const std::vector<Word>& words) const {
    if (words.size() < columns_.size()) {
      return Torn{line_, words.back().byte,
                  fmt::format("expected {} columns, as in the head of the table; got {}",
                              columns_.size(), words.size())};
    }
    for (const char* name : {"time", "algbw", "busbw"}) {
      const Word& word = words[column(name)];
      if (!decimal_number(word.text))
        return Torn{line_, word.byte, fmt::format("expected a number; got \"{}\"", word.text)};
    }
    const double size = number(words[0]), time = number(words[column("time")]),
                 algbw = number(words[column("algbw")]);
    if (size == 0) return std::nullopt;
    if (!(time > 0)) return Torn{line_, words[column("time")].byte, "expected a time above 0"};
    // Two decimals of GB/s are too few to tell below 1.
    if (algbw >= 1 && std::abs(size / time / 1e3 / algbw - 1) > 0.025) {
      return Torn{line_, words[column("algbw")].byte,
                  fmt::format("{:.0f} bytes in {} us are {:.3g} GB/s; got {:.3g}", size, time,
                              size / time / 1e3, algbw)};
    }
    return std::nullopt;
  }

  /// The position of a column of the chosen half of the table (out-of-place stands first).
  std::optional<std::size_t> find_column(const std::string& name) const {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& text = columns_[i].text;
      if (text != name && !(name == "time" && text == "cputime")) continue;
      found = i;
      if (!options_.in_place) break;
    }
    return found;
  }

  std::size_t column(const std::string& name) const {
    const auto found = find_column(name);
    if (!found) fail_line(line_, 0, fmt::format("the head of the table has no column {}", name));
    return *found;
  }

  double number(const Word& word) const {
    const auto value = decimal_number(word.text);
    if (!value)
      fail_line(line_, word.byte, fmt::format("expected a number; got \"{}\"", word.text));
    return *value;
  }

  CollectiveKind kind(const std::vector<Word>& words) {
    if (options_.collective) return *options_.collective;
    if (const auto kind = collective_of_program(named_)) return *kind;
    if (is_all_to_all(words)) {
      named_ = "alltoall_perf";
      result_.notes.push_back(fmt::format(
          "line {}: taken as all_to_all: redop none, #wrong N/A in place, and busbw (n-1)/n of "
          "algbw",
          line_ + 1));
      return CollectiveKind::all_to_all;
    }
    const std::string like = fitting(words);
    fail_line(
        line_, words[0].byte, "the log does not say which collective this is",
        like.empty()
            ? "name it: --collective all_reduce, or call the file all_reduce_perf.txt"
            : fmt::format("its busbw and redop are those of {}: name it with --collective", like));
  }

  /// Of all tests alltoall alone checks nothing in place, where it has no operation.
  bool is_all_to_all(const std::vector<Word>& words) const {
    std::string checked_last;
    for (std::size_t i = 0; i < std::min(columns_.size(), words.size()); ++i)
      if (columns_[i].text == "#wrong") checked_last = words[i].text;
    return checked_last == "N/A" && fitting(words).find("all_to_all") != std::string::npos;
  }

  std::string fitting(const std::vector<Word>& words) const {
    const auto text = [&](const char* name) { return words[column(name)].text; };
    return collectives_like({.algbw = number(words[column("algbw")]),
                             .busbw = number(words[column("busbw")]),
                             .operation = find_column("redop") ? text("redop") : "none",
                             .rooted = find_column("root") && text("root") != "-1"},
                            ranks(words));
  }

  int ranks(const std::vector<Word>& words) const {
    const int ranks = options_.ranks ? *options_.ranks : devices_.ranks();
    if (ranks >= 2) return ranks;
    if (!devices_.empty()) fail_line(line_, words[0].byte, "one rank communicates with nobody");
    fail_line(line_, words[0].byte, "the log has no \"# Rank\" lines", "give --ranks and --nodes");
  }

  int nodes(const std::vector<Word>& words) const {
    if (!options_.nodes && devices_.nodes_are_open())
      fail_line(line_, words[0].byte,
                "every rank of a host has the same device number: which of them share a node is "
                "not said",
                "give --nodes");
    const int nodes = options_.nodes ? *options_.nodes : devices_.nodes();
    if (nodes < 1)
      fail_line(line_, words[0].byte, "the log has no \"# Rank\" lines",
                "give --ranks and --nodes");
    if (nodes > ranks(words)) fail_line(line_, words[0].byte, "more nodes than ranks");
    return nodes;
  }

  /// busbw / algbw follows from collective and ranks alone: a wrong one of them shows here. The
  /// last row of a run has the most digits.
  void check_busbw() {
    if (!last_row_) return;
    const Row row = *std::exchange(last_row_, std::nullopt);
    if (row.algbw < 1) return;  // two decimals are too few to tell
    const double expected = bus_factor(row.point.kind, row.point.ranks),
                 got = row.busbw / row.algbw;
    if (is_factor_of(got, row.point.kind, row.point.ranks)) return;
    std::string remedy = remedy_for_factor(row.point, got);
    if (remedy.empty() && !row.fitting.empty())
      remedy = "its busbw and redop are those of " + row.fitting;
    fail_line(row.line, row.byte,
              fmt::format("busbw is {:.3g} times algbw, but {} over {} ranks makes it {:.3g}", got,
                          to_string(row.point.kind), row.point.ranks, expected),
              remedy);
  }

  /// A list of ranks that was shortened ("0, 7, 8, 15") still says its highest.
  std::string remedy_for_factor(const CommPoint& point, double got) const {
    for (const int ranks : {devices_.highest(), ranks_of_factor(point.kind, got)}) {
      if (ranks <= point.ranks || !is_factor_of(got, point.kind, ranks)) continue;
      return fmt::format("that is the factor of {} ranks: give --ranks {} --nodes {}", ranks, ranks,
                         nodes_of(ranks));
    }
    return {};
  }

  /// Of a list that ends before the last rank: as many to a node as are listed.
  int nodes_of(int ranks) const {
    const int nodes = devices_.nodes(), listed = devices_.ranks();
    if (nodes < 1 || devices_.highest() >= ranks || listed % nodes != 0) return nodes;
    const int per_node = listed / nodes;
    return ranks % per_node == 0 ? ranks / per_node : nodes;
  }

  [[noreturn]] void fail_without_rows() const {
    const std::string text = joined(*source_, 0);
    if (const auto foreign = foreign_file(text, source_->name);
        foreign && foreign->what != "an output of nccl-tests") {
      refuse_foreign_file(text, source_->name);
    }
    fail_line(0, 0, "no row of an nccl-tests table in the whole file",
              "give the output of all_reduce_perf and its like, with the table that it prints");
  }

  [[noreturn]] void fail_line(std::size_t line, std::size_t byte, const std::string& message,
                              const std::string& remedy = "") const {
    fail_at({source_, line, byte}, message, remedy);
  }

  struct Row {
    CommPoint point;
    double algbw = 0, busbw = 0;
    std::size_t line = 0, byte = 0;
    std::string fitting;  ///< the collectives that it may be
  };

  std::shared_ptr<const TextSource> source_;
  NcclTestsOptions options_;
  std::string skipped_;  ///< a program whose rows were left out
  std::string named_;    ///< the program that is running, as the log or else the file's name says
  bool named_by_itself_ = false;  ///< and not by a command, a pod or a file
  std::size_t line_ = 0;
  NcclDevices devices_;
  std::vector<Word> columns_;
  std::vector<Torn> torn_;
  std::optional<Row> last_row_;
  CommPoints result_;
};

}  // namespace

CommPoints read_nccl_tests_log(std::shared_ptr<const TextSource> source,
                               const NcclTestsOptions& options) {
  return LogReader(std::move(source), options).read();
}

}  // namespace rehearse::inline profile
