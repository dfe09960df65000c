// The memory timeline in the trace, and PyTorch's snapshot.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "toy.hpp"
#include "view/pickle.hpp"
#include "view/views.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(memory_views_test)
namespace {

using namespace toy;
using Json = nlohmann::ordered_json;

/// What Python reads from a pickle, as JSON.
Json as_python_reads(const std::string& bytes) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("rehearse_pickle_" + std::to_string(getpid()));
  std::ofstream(file, std::ios::binary) << bytes;
  const std::string command =
      "python3 -c 'import json,pickle,sys; "
      "print(json.dumps(pickle.load(open(sys.argv[1],\"rb\"))))' " +
      file.string();
  std::FILE* pipe = popen(command.c_str(), "r");
  BOOST_REQUIRE(pipe != nullptr);
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  BOOST_TEST(pclose(pipe) == 0);
  std::filesystem::remove(file);
  return Json::parse(text);
}

BOOST_AUTO_TEST_CASE(python_reads_the_pickle_as_it_was_written) {
  Pickle pickle;
  pickle.begin_dict();
  pickle.entry("text", "a \"b\" \xc3\xa4");
  pickle.entry("small", std::int64_t{-7});
  pickle.entry("large", std::int64_t{1} << 40);
  pickle.entry("negative", -(std::int64_t{1} << 40));
  pickle.entry("true", true);
  pickle.add("list");
  pickle.begin_list();
  pickle.add(std::int64_t{2147483647});
  pickle.add(std::int64_t{2147483648});
  pickle.add(false);
  pickle.begin_dict();
  pickle.end_dict();
  pickle.end_list();
  pickle.end_dict();
  const Json expected = {{"text", "a \"b\" \xc3\xa4"},
                         {"small", -7},
                         {"large", std::int64_t{1} << 40},
                         {"negative", -(std::int64_t{1} << 40)},
                         {"true", true},
                         {"list", {2147483647, 2147483648, false, Json::object()}}};
  BOOST_TEST(as_python_reads(pickle.finish()) == expected);
}

BOOST_AUTO_TEST_CASE(the_snapshot_holds_two_iterations_and_the_segments_at_the_end) {
  const Schedule schedule = ddp_schedule(1);
  const Json snapshot = as_python_reads(memory_snapshot(schedule.programs[0], MemoryDevice{}));
  // Parameters in setup; activations and gradients taken and given back in each iteration.
  const Json& trace = snapshot["device_traces"][0];
  const auto count = [&](const char* action) {
    return std::count_if(trace.begin(), trace.end(),
                         [&](const Json& entry) { return entry["action"] == action; });
  };
  BOOST_TEST(count("alloc") == 1 + 2 * 2);
  BOOST_TEST(count("free_requested") == 2 * 2);
  BOOST_TEST(count("free_completed") == 2 * 2);
  BOOST_TEST(count("segment_alloc") == 3);
  BOOST_TEST(trace[0]["frames"][0]["name"] == "parameters");
  BOOST_TEST(trace[0]["frames"][1]["name"] == "setup");
  BOOST_TEST(trace[2]["frames"][1]["name"] == "forward");
  // Only the parameters are held at the end.
  std::int64_t reserved = 0, allocated = 0;
  for (const Json& segment : snapshot["segments"]) {
    reserved += segment["total_size"].get<std::int64_t>();
    std::int64_t blocks = 0;
    for (const Json& block : segment["blocks"]) {
      blocks += block["size"].get<std::int64_t>();
      if (block["state"] != "active_allocated") continue;
      allocated += block["requested_size"].get<std::int64_t>();
      BOOST_TEST(block["frames"][0]["name"] == "parameters");
    }
    BOOST_TEST(blocks == segment["total_size"].get<std::int64_t>());
  }
  BOOST_TEST(reserved == 10'003'415'040);
  BOOST_TEST(allocated == 2'000'000'000);
}

BOOST_AUTO_TEST_CASE(a_snapshot_of_a_device_that_is_too_small_ends_with_the_request_that_failed) {
  const Schedule schedule = ddp_schedule(1);
  const Json snapshot =
      as_python_reads(memory_snapshot(schedule.programs[0], {.capacity = Bytes(9e9)}));
  const Json& last = snapshot["device_traces"][0].back();
  BOOST_TEST(last["action"] == "oom");
  BOOST_TEST(last["size"].get<std::int64_t>() == 2'000'000'000);
}

BOOST_AUTO_TEST_CASE(reserved_memory_is_a_counter_where_there_is_an_allocator) {
  const Json trace =
      Json::parse(to_chrome_trace(ddp_schedule(2), ddp_trace({6, 12}), 1, 2, {MemoryDevice{}}));
  std::size_t counters = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] != "reserved memory (bytes)") continue;
    ++counters;
    const Json& args = event["args"];
    BOOST_TEST(args["allocated"].get<double>() + args["unused"].get<double>() == 10'003'415'040.0);
  }
  BOOST_TEST(counters == 4u);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
