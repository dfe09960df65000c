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
#include "profile/log_words.hpp"
#include "profile/nccl_devices.hpp"

namespace rehearse {
namespace {

/// NCCL's names of element types in the `type` column.
bool is_type(const std::string& text) {
  static constexpr std::array kTypes = {"int8",   "uint8",  "int32",    "uint32",  "int64",
                                        "uint64", "half",   "float",    "double",  "bfloat16",
                                        "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"};
  return std::find(kTypes.begin(), kTypes.end(), text) != kTypes.end();
}

/// A row of the table, and not one of NCCL's or mpirun's lines that happen to begin with a number.
bool looks_like_row(const std::vector<Word>& words) {
  return words.size() >= 3 && whole_number(words[0].text) && whole_number(words[1].text) &&
         is_type(words[2].text);
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
    if (result_.points.empty() && !skipped_.empty()) {
      fail_line(0, 0, fmt::format("only rows of {}, which no profile holds", skipped_));
    }
    if (result_.points.empty()) fail_line(0, 0, "no row of an nccl-tests table in the whole file");
    return std::move(result_);
  }

 private:
  void read_line(const std::string& line) {
    std::size_t start = after_label(line);
    if (start < line.size() && line[start] == '#') ++start;
    const std::vector<Word> words = words_of(line, start);
    if (words.empty()) return;
    if (words[0].text == "nThread") return start_run(words);
    if (words[0].text == "Rank") return read_rank(line, words);
    if (words[0].text == "size" && words.size() > 5 && words[1].text == "count") {
      columns_ = words;
      return;
    }
    if (looks_like_row(words)) return read_row(words);
    if (words.size() > 2 && words[0].text == "nccl-tests" && words[1].text == "version") {
      result_.source = "nccl-tests " + words[2].text;
    }
    // "# Collective test starting: all_reduce_perf" since 2.17; before, a log may hold the command
    // itself.
    if (const std::string program = program_in(line); !program.empty()) named_ = program;
  }

  /// "# nThread 1 nGpus 8 minBytes ...": another run begins.
  void start_run(const std::vector<Word>& words) {
    check_busbw();
    devices_ = NcclDevices();
    columns_.clear();
    const auto threads = words.size() > 1 ? whole_number(words[1].text) : std::nullopt;
    const auto gpus =
        words.size() > 3 && words[2].text == "nGpus" ? whole_number(words[3].text) : std::nullopt;
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
    const std::size_t bracket = line.find(']', words[0].byte);
    if (bracket != std::string::npos) {
      const std::size_t model = line.find_first_not_of(' ', bracket + 1);
      if (model != std::string::npos)
        device.model = line.substr(model, line.find_last_not_of(" \t") + 1 - model);
    }
    if (!devices_.add(device)) {
      fail_line(line_, words[0].byte,
                fmt::format("rank {} is listed twice: each process ran alone", device.rank),
                "build nccl-tests with MPI=1, so that its processes form one communicator");
    }
    if (result_.hardware.empty()) result_.hardware = device.model;
  }

  void read_row(const std::vector<Word>& words) {
    // Tests of other collectives (alltoall_perf, ...) may stand in the same log.
    if (!options_.collective && !named_.empty() && !collective_of_program(named_)) {
      skipped_ = named_;
      return;
    }
    if (columns_.empty())
      fail_line(line_, words[0].byte, "a row before the head of its table (size count type ...)");
    if (words.size() < columns_.size()) {
      fail_line(line_, words.back().byte,
                fmt::format("expected {} columns, as in the head of the table; got {}",
                            columns_.size(), words.size()));
    }
    const double size = number(words[0]);
    if (size == 0) return;
    const Seconds time(number(words[column("time")]) * 1e-6);
    if (!(time.value() > 0))
      fail_line(line_, words[column("time")].byte, "expected a time above 0");
    if (const auto wrong = find_column("#wrong");
        wrong && words[*wrong].text != "N/A" && number(words[*wrong]) > 0) {
      fail_line(line_, words[*wrong].byte, "the results of this row are wrong, so is its time");
    }
    const CommPoint point{kind(words), ranks(words), nodes(words), Bytes(size), time};
    result_.points.push_back(point);
    last_row_ = Row{point, number(words[column("algbw")]), number(words[column("busbw")]), line_,
                    words[column("busbw")].byte};
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

  CollectiveKind kind(const std::vector<Word>& words) const {
    if (options_.collective) return *options_.collective;
    if (const auto kind = collective_of_program(named_)) return *kind;
    fail_line(line_, words[0].byte, "the log does not say which collective this is",
              "name it: --collective all_reduce, or call the file all_reduce_perf.txt");
  }

  int ranks(const std::vector<Word>& words) const {
    const int ranks = options_.ranks ? *options_.ranks : devices_.ranks();
    if (ranks >= 2) return ranks;
    if (!devices_.empty()) fail_line(line_, words[0].byte, "one rank communicates with nobody");
    fail_line(line_, words[0].byte, "the log has no \"# Rank\" lines", "give --ranks and --nodes");
  }

  int nodes(const std::vector<Word>& words) const {
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
    if (std::abs(got / expected - 1) < 0.025) return;
    fail_line(row.line, row.byte,
              fmt::format("busbw is {:.3g} times algbw, but {} over {} ranks makes it {:.3g}", got,
                          to_string(row.point.kind), row.point.ranks, expected));
  }

  [[noreturn]] void fail_line(std::size_t line, std::size_t byte, const std::string& message,
                              const std::string& remedy = "") const {
    fail_at({source_, line, byte}, message, remedy);
  }

  struct Row {
    CommPoint point;
    double algbw = 0, busbw = 0;
    std::size_t line = 0, byte = 0;
  };

  std::shared_ptr<const TextSource> source_;
  NcclTestsOptions options_;
  std::string skipped_;  ///< a program whose rows were left out
  std::string named_;    ///< the program that is running, as the log or else the file's name says
  std::size_t line_ = 0;
  NcclDevices devices_;
  std::vector<Word> columns_;
  std::optional<Row> last_row_;
  CommPoints result_;
};

}  // namespace

CommPoints read_nccl_tests_log(std::shared_ptr<const TextSource> source,
                               const NcclTestsOptions& options) {
  return LogReader(std::move(source), options).read();
}

}  // namespace rehearse
