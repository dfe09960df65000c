#include <unistd.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <map>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "profile/import.hpp"
#include "profile/nccl_devices.hpp"
#include "profile/nccl_tests.hpp"
#include "profile/points_table.hpp"

using namespace rehearse;
namespace data = boost::unit_test::data;

BOOST_AUTO_TEST_SUITE(nccl_tests_test)
namespace {

const std::filesystem::path kData = data_folder() / "tests/data/nccl-tests";

struct Sample {
  const char* file;
  CollectiveKind kind;
  int ranks, nodes;
  std::size_t points;
  double latency;  ///< s; every sample runs at 100 GB/s of busbw
  const char* hardware;
};

std::ostream& operator<<(std::ostream& out, const Sample& sample) { return out << sample.file; }

const Sample kSamples[] = {
    {"all_reduce_2.18.txt", CollectiveKind::all_reduce, 8, 1, 14, 10e-6, "NVIDIA A100-SXM4-80GB"},
    {"all_gather_perf_2.0.txt", CollectiveKind::all_gather, 4, 1, 10, 10e-6,
     "Tesla V100-SXM2-16GB"},
    {"mpirun_tagged.txt", CollectiveKind::reduce_scatter, 16, 2, 11, 100e-6,
     "NVIDIA H100 80GB HBM3"},
    {"per_iteration.txt", CollectiveKind::all_reduce, 8, 1, 9, 10e-6, "NVIDIA A100-SXM4-80GB"},
    {"all_reduce.json", CollectiveKind::all_reduce, 8, 2, 14, 10e-6, "NVIDIA A100-SXM4-80GB"},
};

/// A text in a file of its own, gone with the test.
class Scratch {
 public:
  Scratch(const std::string& name, const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("rehearse_" + std::to_string(getpid()) + "_" + name)) {
    std::ofstream(path_) << text;
  }
  ~Scratch() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
}

/// By file: what stands below its line "=== NAME".
std::map<std::string, std::string> messages(const std::filesystem::path& file) {
  std::map<std::string, std::string> all;
  std::ifstream lines(file);
  std::string line, name;
  while (std::getline(lines, line)) {
    if (line.starts_with("=== "))
      name = line.substr(4);
    else
      all[name] += line + "\n";
  }
  return all;
}

/// The message of the error, with the folder cut off.
template <class Call>
std::string message_of(const Call& call, const std::string& folder) {
  try {
    call();
  } catch (const Error& error) {
    std::string text = error.what();
    if (text.rfind(folder + "/", 0) == 0) text.erase(0, folder.size() + 1);
    return text;
  }
  return "no error";
}

}  // namespace

BOOST_DATA_TEST_CASE(every_layout_gives_the_points_that_it_prints, data::make(kSamples), sample) {
  const CommPoints run = read_nccl_tests(kData / sample.file);
  BOOST_TEST(run.points.size() == sample.points);
  BOOST_TEST(run.hardware == sample.hardware);
  for (const CommPoint& p : run.points) {
    BOOST_TEST(to_string(p.kind) == to_string(sample.kind));
    BOOST_TEST(p.ranks == sample.ranks);
    BOOST_TEST(p.nodes == sample.nodes);
    const double expected =
        sample.latency + p.size.value() * bus_factor(sample.kind, sample.ranks) / 100e9;
    BOOST_TEST(std::abs(p.time.value() / expected - 1) < 5.1e-4);  // four digits are printed
  }
}

BOOST_AUTO_TEST_CASE(the_in_place_half_is_read_when_asked_for) {
  for (const Sample& sample : kSamples) {
    const CommPoints out = read_nccl_tests(kData / sample.file);
    const CommPoints in = read_nccl_tests(kData / sample.file, {.in_place = true});
    for (std::size_t i = 0; i < 3; ++i) {
      BOOST_TEST(std::abs((out.points[i].time - in.points[i].time).value() - 0.5e-6) < 0.011e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(several_tests_in_one_log_all_count) {
  const CommPoints run = read_nccl_tests(kData / "several_tests.txt");
  BOOST_REQUIRE_EQUAL(run.points.size(), 27u);
  BOOST_TEST(to_string(run.points[0].kind) == "broadcast");
  BOOST_TEST(to_string(run.points[9].kind) == "all_to_all");
  BOOST_TEST(to_string(run.points[26].kind) == "send_recv");
  BOOST_TEST(run.points[26].ranks == 2);
  BOOST_TEST(run.source == "nccl-tests 2.17.6");
}

BOOST_AUTO_TEST_CASE(what_a_log_leaves_out_can_be_given) {
  const NcclTestsOptions given{.collective = CollectiveKind::all_reduce, .ranks = 8, .nodes = 1};
  BOOST_TEST(read_nccl_tests(kData / "bad/no_ranks.txt", given).points.size() == 14u);
  BOOST_TEST(read_nccl_tests(kData / "bad/unnamed.txt", given).points.size() == 14u);
}

BOOST_AUTO_TEST_CASE(a_log_s_name_may_name_the_test) {
  const Scratch named("all_reduce_perf.log", text_of(kData / "bad/unnamed.txt"));
  BOOST_TEST(read_nccl_tests(named.path()).points.size() == 14u);
}

BOOST_AUTO_TEST_CASE(colours_and_carriage_returns_do_not_disturb) {
  std::ifstream log(kData / "all_reduce_2.18.txt");
  std::string line, text;
  while (std::getline(log, line)) text += "\x1b[32m" + line + "\x1b[0m\r\n";
  const Scratch coloured("coloured.log", text);
  BOOST_TEST(read_nccl_tests(coloured.path()).points.size() == 14u);
}

BOOST_AUTO_TEST_CASE(programs_are_known_by_their_names) {
  BOOST_TEST(program_in("mpirun -np 8 /opt/my_perf/build/all_reduce_perf_mpi -b 8") ==
             "all_reduce_perf");
  BOOST_TEST(program_in("./build/all_gather_perf").size() == 15u);
  BOOST_TEST(program_in("NCCL INFO tune_perf 3").empty());
  BOOST_TEST(!collective_of_program("gather_perf"));
  BOOST_TEST((collective_of_program("alltoall_perf") == CollectiveKind::all_to_all));
  BOOST_TEST((collective_of_program("reduce_perf") == CollectiveKind::reduce));
  BOOST_TEST((collective_of_program("sendrecv_perf") == CollectiveKind::send_recv));
}

BOOST_AUTO_TEST_CASE(every_bad_log_is_refused_with_exactly_its_message) {
  const std::map<std::string, std::string> expected = messages(kData / "bad/messages");
  for (const auto& [name, message] : expected) {
    const std::filesystem::path file = kData / "bad" / name;
    const std::string got = message_of([&] { read_nccl_tests(file); }, (kData / "bad").string());
    BOOST_TEST(got + "\n" == message);
  }
  BOOST_TEST(expected.size() == 17U);
}

BOOST_AUTO_TEST_CASE(a_missing_log_is_missing) {
  BOOST_CHECK_EXCEPTION(
      read_nccl_tests("no/such.log"), MissingError, [](const MissingError& error) {
        return std::string(error.what()) ==
               "no/such.log: error: cannot read the file: No such file or directory";
      });
  BOOST_CHECK_THROW(read_nccl_tests(kData), MissingError);
}

BOOST_AUTO_TEST_CASE(an_imported_log_gives_back_its_latency_and_busbw) {
  const std::string text = import_nccl_tests({kData / "all_reduce_2.18.txt"},
                                             {.name = "node0", .command = "rehearse import"})
                               .text;
  BOOST_TEST(text.find("# Hardware: NVIDIA A100-SXM4-80GB\n# Source: nccl-tests 2.18.0\n# Made by: "
                       "rehearse import\n") == 0u);
  const CommProfile profile = read_comm_profile(Document::parse(text, "node0.yaml")->root());
  BOOST_TEST(profile.name == "node0");
  BOOST_REQUIRE_EQUAL(profile.curves.size(), 1u);
  const CommCurve& curve = profile.curves[0];
  BOOST_REQUIRE_EQUAL(curve.segments.size(), 1u);
  // Four digits are printed: half a unit of the fourth is 5e-4 of a time at most.
  BOOST_TEST(curve.segments[0].latency.value() == 10e-6, boost::test_tools::tolerance(1e-3));
  BOOST_TEST(curve.segments[0].busbw.value() == 100e9, boost::test_tools::tolerance(1e-3));
  BOOST_TEST(curve.smallest.value() == 8);
  BOOST_TEST(curve.largest.value() == 536870912);
}

BOOST_AUTO_TEST_CASE(files_of_several_collectives_make_one_profile) {
  const std::string text =
      import_nccl_tests(
          {kData / "all_reduce_2.18.txt", kData / "mpirun_tagged.txt", kData / "several_tests.txt"})
          .text;
  const CommProfile profile = read_comm_profile(Document::parse(text, "p.yaml")->root());
  BOOST_TEST(profile.name == "all_reduce_2.18");
  BOOST_TEST(profile.curves.size() == 5u);
}

BOOST_AUTO_TEST_CASE(a_run_of_too_few_sizes_is_refused_by_name) {
  const Scratch few("few.csv",
                    "hardware,ranks,nodes,collective,bytes,time_us\nx,8,1,all_reduce,8,10\nx,8,1,"
                    "all_reduce,16,10\n");
  BOOST_TEST(message_of([&] { import_points({few.path()}); }, few.path().parent_path().string()) ==
             few.path().filename().string() +
                 ": error: all_reduce over 8 ranks on 1 node: 2 sizes, and a curve needs 4\n"
                 "remedy: measure from small to large, as with -b 1M -e 16M -f 2; or scale NCCL's "
                 "model of the machine by it, as with --scale 1xaws_p5");
}

BOOST_AUTO_TEST_CASE(a_table_of_points_is_read) {
  const Scratch table("points.csv",
                      "# a comment\ntime_us,bytes,collective,nodes,ranks,hardware,source\n"
                      "12.5,8,all_gather,2,16,\"2x \"\"A\"\", B\",here\n");
  const CommPoints points = read_points(table.path());
  BOOST_REQUIRE_EQUAL(points.points.size(), 1u);
  BOOST_TEST(points.hardware == "2x \"A\", B");
  BOOST_TEST(points.source == "here");
  BOOST_TEST(points.points[0].time.value() == 12.5e-6, boost::test_tools::tolerance(1e-15));
  BOOST_TEST(points.points[0].ranks == 16);
  BOOST_TEST((points.points[0].kind == CollectiveKind::all_gather));
}

struct BadTable {
  const char* text;
  const char* message;
};

std::ostream& operator<<(std::ostream& out, const BadTable& bad) { return out << bad.message; }

const char kHead[] = "hardware,ranks,nodes,collective,bytes,time_us";

BOOST_DATA_TEST_CASE(
    a_bad_table_is_refused_where_it_is_bad,
    data::make(std::vector<BadTable>{
        {"", ":1:1: error: no head: hardware,ranks,nodes,collective,bytes,time_us\n\n^"},
        {"hardware,ranks,nodes,collective,bytes,time_us\n",
         ":1:1: error: no row below the head\nhardware,ranks,nodes,collective,bytes,time_us\n^"},
        {"hardware,rank\n",
         ":1:10: error: unknown column \"rank\"\nhardware,rank\n         ^\nremedy: did you mean "
         "ranks?"},
        {"ranks,ranks\n", ":1:7: error: a second column ranks\nranks,ranks\n      ^"},
        {"hardware,ranks\n", ":1:1: error: the column nodes is missing\nhardware,ranks\n^"},
        {"@x,8,1,all_reduce,8\n",
         ":2:18: error: expected 6 cells, as in the head; got 5\nx,8,1,all_reduce,8\n              "
         "   ^"},
        {"@x,1,1,all_reduce,8,1\n",
         ":2:3: error: expected a whole number of 2 or more; got \"1\"\nx,1,1,all_reduce,8,1\n  ^"},
        {"@x,8,9,all_reduce,8,1\n",
         ":2:5: error: more nodes than ranks\nx,8,9,all_reduce,8,1\n    ^"},
        {"@x,8,1,allreduce,8,1\n",
         ":2:7: error: expected a collective; got \"allreduce\"\nx,8,1,allreduce,8,1\n      "
         "^\nremedy: did you mean all_reduce?"},
        {"@x,8,1,all_reduce,0,1\n",
         ":2:18: error: expected a number above 0; got \"0\"\nx,8,1,all_reduce,0,1\n               "
         "  ^"},
        {"@x,8,1,all_reduce,8,nan\n",
         ":2:20: error: expected a number above 0; got \"nan\"\nx,8,1,all_reduce,8,nan\n           "
         "        ^"},
        {"@x,8,1,all_reduce,8,1\ny,8,1,all_reduce,8,1\n",
         ":3:1: error: expected one hardware in the whole table\ny,8,1,all_reduce,8,1\n^"},
        {"@\"x,8,1,all_reduce,8,1\n",
         ":2:1: error: a quote that is not closed\n\"x,8,1,all_reduce,8,1\n^"},
    }),
    bad) {
  std::string text = bad.text;
  if (!text.empty() && text[0] == '@') text.replace(0, 1, std::string(kHead) + "\n");
  const Scratch table("bad.csv", text);
  const std::filesystem::path path = table.path();
  const std::string got = message_of([&] { read_points(path); }, path.parent_path().string());
  BOOST_TEST(got == path.filename().string() + bad.message);
}

BOOST_AUTO_TEST_SUITE_END()
