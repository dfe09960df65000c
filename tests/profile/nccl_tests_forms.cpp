// The forms in which logs of nccl-tests reach people: each holds the same run, two nodes of eight
// GPUs, all_reduce, 30 us and 90 GB/s of busbw.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/foreign_file.hpp"
#include "profile/nccl_tests.hpp"

namespace data = boost::unit_test::data;
using namespace rehearse;

BOOST_AUTO_TEST_SUITE(nccl_tests_forms_test)
namespace {

constexpr double kLatency = 30e-6, kRate = 90e9;
constexpr int kRanks = 16;
constexpr double kFactor = 2.0 * (kRanks - 1) / kRanks;

double time_of(double size) { return kLatency + size * kFactor / kRate; }

std::vector<double> sizes() {
  std::vector<double> all;
  for (double size = 1 << 20; size <= 1 << 30; size *= 2) all.push_back(size);
  return all;
}

struct Names {
  std::string host[2] = {"node0", "node1"};
  std::vector<int> ranks = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};

std::vector<std::string> log_lines(const Names& names = {}) {
  std::vector<std::string> lines{
      "# nccl-tests version 2.17.9 nccl-headers=22903 nccl-library=22903",
      "# Collective test starting: all_reduce_perf",
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 2(factor) warmup iters: 1",
      "#", "# Using devices"};
  for (const int rank : names.ranks) {
    lines.push_back(
        fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>6} device {:2} [0000:{:02x}:00] NVIDIA "
                    "H100 80GB HBM3",
                    rank, 1000 + rank, names.host[rank / 8], rank % 8, rank % 8));
  }
  lines.insert(
      lines.end(),
      {"#",
       "#                                                              out-of-place        "
       "               in-place",
       "#       size         count      type   redop    root     time   algbw   busbw "
       "#wrong     time   algbw   busbw #wrong",
       "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)      "
       "      (us)  (GB/s)  (GB/s)"});
  for (const double size : sizes()) {
    const double time = time_of(size) * 1e6, algbw = size / time / 1e3;
    const std::string half =
        fmt::format("{:8.1f} {:7.2f} {:7.2f}      0", time, algbw, algbw * kFactor);
    lines.push_back(fmt::format("{:12.0f} {:13.0f}     float     sum      -1 {} {}", size, size / 4,
                                half, half));
  }
  lines.insert(lines.end(),
               {"# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 81.2", "#"});
  return lines;
}

/// A log of which each line is what `form` makes of it.
std::string log_text(const std::function<std::string(const std::string&)>& form,
                     const Names& names = {}) {
  std::string text;
  for (const std::string& line : log_lines(names)) text += form(line) + "\n";
  return text;
}

std::string prefixed(const std::string& prefix) {
  return log_text([&](const std::string& line) { return prefix + line; });
}

std::string torn_log() {
  std::vector<std::string> lines = log_lines();
  lines[lines.size() - 6].resize(50);  // another rank's output cut it
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// rccl-tests, -Z json: a record a half of a row.
std::string rccl_json(int ranks, int gpus_per_rank) {
  std::string text = "[\n";
  for (const double size : sizes()) {
    for (const int in_place : {0, 1}) {
      const double time = time_of(size) * 1e6 + in_place, algbw = size / time / 1e3;
      text += fmt::format(
          "{}{{\"numCycle\":0, \"name\":\"AllReduce\", \"nodes\":2, \"ranks\":{}, "
          "\"ranksPerNode\":{}, \"gpusPerRank\":{}, \"size\":{:.0f}, \"type\":\"float\", "
          "\"redop\":\"sum\", \"inPlace\":{}, \"time\":{:.6f}, \"algBw\":{:.6f}, "
          "\"busBw\":{:.6f}, \"wrong\":\"0\"}}",
          text.size() > 2 ? ",\n" : "", ranks, ranks / 2, gpus_per_rank, size, in_place, time,
          algbw, algbw * kFactor);
    }
  }
  return text + "\n]\n";
}

std::string rccl_csv() {
  std::string text =
      "numCycle, name, nodes, ranks, ranksPerNode, gpusPerRank, size, type, redop, inPlace, time, "
      "algbw, busbw, #wrong\n";
  for (const double size : sizes()) {
    const double time = time_of(size) * 1e6, algbw = size / time / 1e3;
    text += fmt::format(
        "0, AllReduce, 2, 16, 8, 1, {:.0f}, float, sum, 0, {:.4f}, {:.4f}, {:.4f}, N/A\n", size,
        time, algbw, algbw * kFactor);
  }
  return text;
}

struct Form {
  const char* name;
  std::string text;
};
std::ostream& operator<<(std::ostream& out, const Form& form) { return out << form.name; }

std::vector<Form> forms() {
  const auto same = [](const std::string& line) { return line; };
  Names alike;
  alike.host[0] = alike.host[1] = "localhost";
  return {
      {"plain", log_text(same)},
      {"mpirun --tag-output", prefixed("[1,0]<stdout>:")},
      {"mpirun --timestamp-output", prefixed("Thu Jul 18 15:41:05 2024<stdout>:")},
      {"prterun", prefixed("[prterun-node0-1234@1,0]<stdout>: ")},
      {"srun --label", prefixed(" 0: ")},
      {"a rank in brackets", prefixed("[0] ")},
      {"SkyPilot", prefixed("(head, rank=0, pid=4823) ")},
      {"Ray", prefixed("(run_all_reduce pid=4823, ip=10.0.0.7) ")},
      {"kubectl logs --prefix", prefixed("[pod/all_gather_perf-launcher-abc/nccl] ")},
      {"kubectl logs --timestamps", prefixed("2024-07-18T15:41:05.123456789Z ")},
      {"a container's own log", prefixed("2024-07-18T15:41:05.123456789+02:00 stdout F ")},
      {"docker compose logs", prefixed("nccl-1  | ")},
      {"docker service logs", prefixed("nccl.1.x7k2@node0    | ")},
      {"journalctl", prefixed("Jul 18 15:41:05 node0 nccl[4823]: ")},
      {"a logger's level", prefixed("2024-07-18 15:41:05,123 - INFO - ")},
      {"colours and CR LF",
       log_text([](const std::string& line) { return "\x1b[32m" + line + "\x1b[0m\r"; })},
      {"a dict before the table", "{'NUM_GPUS': 16, 'NPER_NODE': 8}\n" + log_text(same)},
      {"hosts of one name", log_text(same, alike)},
      {"a torn line", torn_log()},
      {"rccl-tests -Z json", rccl_json(16, 1)},
      {"rccl-tests -Z json, eight GPUs a process", rccl_json(2, 8)},
      {"rccl-tests -Z csv", rccl_csv()},
  };
}

class Scratch {
 public:
  explicit Scratch(const std::string& text, const std::string& name = "all_reduce_perf.log")
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("rehearse_{}_{}", getpid(), name)) {
    std::ofstream(path_) << text;
  }
  ~Scratch() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string error_of(const std::string& text, const std::string& name = "run.log") {
  const Scratch file(text, name);
  try {
    read_nccl_tests(file.path());
  } catch (const Error& error) {
    const std::string message = error.what();
    return message.substr(message.find("error:"));
  }
  return "no error";
}

}  // namespace

BOOST_DATA_TEST_CASE(every_form_of_a_log_gives_its_run, data::make(forms()), form) {
  const Scratch file(form.text);
  const CommPoints run = read_nccl_tests(file.path());
  const bool torn = std::string(form.name) == "a torn line";
  BOOST_TEST(run.points.size() == sizes().size() - (torn ? 1 : 0));
  BOOST_TEST(run.left_out.size() == (torn ? 1u : 0u));
  for (const CommPoint& point : run.points) {
    BOOST_TEST(to_string(point.kind) == "all_reduce");
    BOOST_TEST(point.ranks == kRanks);
    BOOST_TEST(point.nodes == 2);
    BOOST_TEST(std::abs(point.time.value() / time_of(point.size.value()) - 1) < 1.1e-3);
  }
}

BOOST_AUTO_TEST_CASE(there_are_at_least_eighteen_forms) { BOOST_TEST(forms().size() >= 18u); }

BOOST_AUTO_TEST_CASE(a_left_out_row_says_where_and_why) {
  const Scratch file(torn_log());
  const CommPoints run = read_nccl_tests(file.path());
  BOOST_REQUIRE_EQUAL(run.left_out.size(), 1u);
  BOOST_TEST(run.left_out[0] == "line 34: expected 13 columns, as in the head of the table; got 4");
}

BOOST_AUTO_TEST_CASE(a_size_that_contradicts_its_rate_is_a_damaged_row) {
  std::vector<std::string> lines = log_lines();
  std::string& row = lines[lines.size() - 6];
  row.replace(row.find_first_not_of(' '), 3, "999");
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  const Scratch file(text);
  BOOST_TEST(read_nccl_tests(file.path()).left_out.size() == 1u);
}

BOOST_AUTO_TEST_CASE(ranks_that_all_call_their_device_0_need_nodes) {
  std::string text;
  for (std::string line : log_lines()) {
    const std::size_t device = line.find(" device ");
    if (device != std::string::npos) line.replace(device + 8, 13, " 0 [0000:07:00");
    const std::size_t host = line.find("node1");
    if (host != std::string::npos) line.replace(host, 5, "node0");
    text += line + "\n";
  }
  BOOST_TEST(error_of(text).starts_with(
      "error: every rank of a host has the same device number: which of them share a node is not "
      "said\n"));
  BOOST_TEST(error_of(text).ends_with("remedy: give --nodes"));
}

BOOST_AUTO_TEST_CASE(a_shortened_list_of_ranks_names_what_to_give) {
  Names few;
  few.ranks = {0, 7, 8, 15};
  const std::string text = log_text([](const std::string& line) { return line; }, few);
  BOOST_TEST(error_of(text).ends_with(
      "remedy: that is the factor of 16 ranks: give --ranks 16 --nodes 2"));
}

BOOST_AUTO_TEST_CASE(a_list_of_ranks_that_was_cut_names_as_many_to_a_node) {
  Names cut;
  cut.ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::string text = log_text([](const std::string& line) { return line; }, cut);
  BOOST_TEST(error_of(text).ends_with(
      "remedy: that is the factor of 16 ranks: give --ranks 16 --nodes 2"));
}

BOOST_AUTO_TEST_CASE(a_blank_operation_is_all_to_all_s) {
  const std::string text =
      "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 2097152\n"
      "#   Rank  0 Pid 2000 on node0 device  0 [0x00] A100-SXM4-40GB\n"
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw "
      "  busbw  error\n"
      "     1048576         32768   float               84.6   12.40   10.85    N/A     84.6   "
      "12.40   10.85    N/A\n";
  const Scratch log(text, "log.txt");
  const CommPoints read = read_nccl_tests(log.path());
  BOOST_TEST(read.points.size() == 1U);
  BOOST_TEST((read.points.at(0).kind == CollectiveKind::all_to_all));
  BOOST_TEST(read.points.at(0).time.value() == 84.6e-6, boost::test_tools::tolerance(1e-9));
  BOOST_CHECK_THROW(read_nccl_tests(log.path(), {.collective = CollectiveKind::all_gather}),
                    InputError);
}

BOOST_AUTO_TEST_CASE(a_log_without_a_name_is_all_to_all_where_only_that_can_be) {
  const CommPoints points =
      read_nccl_tests(data_folder() / "tests/data/nccl-tests/alltoall_unnamed.txt");
  BOOST_REQUIRE(points.points.size() == 11u);
  for (const CommPoint& point : points.points)
    BOOST_TEST((point.kind == CollectiveKind::all_to_all && point.ranks == 16 && point.nodes == 2));
  BOOST_REQUIRE(points.notes.size() == 1u);
  BOOST_TEST(points.notes[0] ==
             "line 23: taken as all_to_all: redop none, #wrong N/A in place, and busbw (n-1)/n of "
             "algbw");
}

BOOST_AUTO_TEST_CASE(a_trace_is_called_a_trace) {
  BOOST_TEST(error_of("{\"traceEvents\":[{\"ph\":\"X\"}],\"deviceProperties\":[]}")
                 .starts_with("error: this is a trace of PyTorch's profiler (Kineto), which is not "
                              "read here\n"));
}

BOOST_AUTO_TEST_CASE(files_of_other_programs_are_known_by_their_content) {
  const auto what = [](const std::string& text, const std::string& name = "x") {
    const auto foreign = foreign_file(text, name);
    return foreign ? foreign->what : "unknown";
  };
  BOOST_TEST(what("{\"architectures\": [\"A\"], \"model_type\": \"llama\"}") ==
             "a Hugging Face config.json of a llama model");
  BOOST_TEST(what("{\"zero_optimization\": {\"stage\": 3}}") == "a DeepSpeed configuration");
  BOOST_TEST(what("[job]\ndump_folder = \"out\"\n") == "TOML, as torchtitan's configurations are");
  BOOST_TEST(what(std::string("\x0a\x10", 2), "rank0.et") == "a Chakra execution trace");
  BOOST_TEST(what(std::string("SQLite format 3\0", 16)) == "an SQLite database");
  BOOST_TEST(what(rccl_json(16, 1)) == "an output of nccl-tests");
  BOOST_TEST(what("model: {use: resnet50}\ncluster: {use: aws_p4d}\n") == "unknown");
  BOOST_TEST(what("{model: {use: resnet50}}") == "unknown");
}

BOOST_AUTO_TEST_SUITE_END()
