#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "toy.hpp"
#include "view/views.hpp"

using namespace toy;
using Json = nlohmann::ordered_json;

BOOST_AUTO_TEST_SUITE(chrome_trace_test)
namespace {

Json events_of(const Schedule& schedule, const Trace& trace, std::uint32_t first,
               std::uint32_t last) {
  return Json::parse(to_chrome_trace(schedule, trace, first, last)).at("traceEvents");
}

std::vector<Json> of_phase(const Json& events, const std::string& phase) {
  std::vector<Json> found;
  for (const Json& event : events) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

Json named(const Json& events, const std::string& name) {
  for (const Json& event : events) {
    if (event.at("name") == name) return event;
  }
  BOOST_FAIL("no event " << name);
  return {};
}

std::string name_in(const Json& events, const std::string& kind, std::size_t pid,
                    std::size_t tid = 0) {
  for (const Json& event : events) {
    if (event.at("name") == kind && event.at("pid") == pid &&
        (tid == 0 || event.at("tid") == tid)) {
      return event.at("args").at("name");
    }
  }
  return "";
}

/// Nanoseconds; the file's microseconds have three digits.
std::int64_t ns(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

void check_no_overlap(const Json& events) {
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> threads;
  for (const Json& event : of_phase(events, "X")) {
    const std::int64_t start = ns(event.at("ts"));
    threads[{event.at("pid"), event.at("tid")}].emplace_back(start, start + ns(event.at("dur")));
  }
  for (auto& [thread, spans] : threads) {
    std::ranges::sort(spans);
    for (std::size_t i = 1; i < spans.size(); ++i)
      BOOST_TEST(spans[i - 1].second <= spans[i].first);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_operation_is_an_event_in_microseconds) {
  const Json events = events_of(ddp_schedule(2), ddp_trace({6, 12}), 1, 2);
  const Json all_reduce = named(events, "all_reduce bucket 0 (2.0 GB)");
  BOOST_TEST(all_reduce["ph"] == "X");
  BOOST_TEST(all_reduce["ts"] == 8000.0);  // 6 + 2 ms
  BOOST_TEST(all_reduce["dur"] == 3000.0);
  BOOST_TEST(all_reduce["cat"] == "communication");
  BOOST_TEST(all_reduce["args"]["bytes"] == 2000000000);
  BOOST_TEST(all_reduce["args"]["algorithm"] == "ring");
  BOOST_TEST(all_reduce["args"]["group"] == "world");
  BOOST_TEST(all_reduce["args"]["iteration"] == 1);
}

BOOST_AUTO_TEST_CASE(a_collective_names_its_protocol_what_answered_and_what_it_reached) {
  CollectiveAnswer answer;
  answer.size = Bytes(2e9);
  answer.group = GroupId(0);
  answer.ranks = answer.nodes = 2;
  answer.cost = {.basis = CostBasis::model,
                 .estimate = NcclEstimate{.protocol = NcclProtocol::ll128}};
  const Json events =
      Json::parse(to_chrome_trace(ddp_schedule(2), ddp_trace({6, 12}), 1, 2, {}, {answer}))
          .at("traceEvents");
  const Json args = named(events, "all_reduce bucket 0 (2.0 GB)")["args"];
  BOOST_TEST(args["algorithm"] == "Ring");
  BOOST_TEST(args["protocol"] == "LL128");
  BOOST_TEST(args["answered_by"] == "NCCL model");
  BOOST_TEST(args["busbw_GBps"] == 666.7);  // 2 GB in 3 ms, with a factor of 1
}

BOOST_AUTO_TEST_CASE(waiting_for_peers_is_told) {
  const Json events = events_of(ddp_schedule(1), ddp_trace({6}), 0, 1);
  std::vector<double> waited;
  for (const Json& event : of_phase(events, "X")) {
    if (event["args"].contains("waited_us")) waited.push_back(event["args"]["waited_us"]);
  }
  BOOST_TEST(waited == std::vector<double>{500}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_rank_is_a_process_and_a_lane_a_thread) {
  const Json events = events_of(ddp_schedule(1), ddp_trace({6}), 0, 1);
  BOOST_TEST(name_in(events, "process_name", 1) == "rank 1 (node1 gpu0)");
  BOOST_TEST(name_in(events, "thread_name", 1, 1) == "compute");
  BOOST_TEST(name_in(events, "thread_name", 1, 2) == "nccl");
}

BOOST_AUTO_TEST_CASE(a_stage_of_several_is_a_process_with_the_threads_of_its_ranks) {
  Schedule schedule = ddp_schedule(1);
  schedule.programs.push_back(schedule.programs[0]);
  schedule.programs[0].stage = 0;
  schedule.programs[1].stage = 1;
  schedule.ranks.push_back(schedule.ranks[0]);  // a second rank of the first stage
  schedule.ranks[1].program = ProgramId(1);
  Trace trace = ddp_trace({6});
  trace.recorded_ranks = 3;
  trace.spans.push_back(span(2, 0, 0, 0, 0, 1));
  const Json events = events_of(schedule, trace, 0, 1);
  BOOST_TEST(name_in(events, "process_name", 0) == "stage 0");
  BOOST_TEST(name_in(events, "process_name", 1) == "stage 1");
  BOOST_TEST(name_in(events, "thread_name", 0, 1) == "rank 0 (node0 gpu0): compute");
  BOOST_TEST(name_in(events, "thread_name", 0, 3) == "rank 2 (node0 gpu0): compute");
  BOOST_TEST(name_in(events, "thread_name", 1, 2) == "rank 1 (node1 gpu0): nccl");
  BOOST_TEST(named(events, "memory of rank 0 (bytes)")["pid"] == 0);
  BOOST_TEST(named(events, "memory of rank 1 (bytes)")["pid"] == 1);
}

BOOST_AUTO_TEST_CASE(a_queue_is_a_thread_of_its_owner) {
  const Json events = events_of(server_schedule(2, 2), saturated_trace(2, 2), 0, 2);
  BOOST_TEST(name_in(events, "process_name", 2) == "rank 2 (node1 cpu)");
  BOOST_TEST(name_in(events, "thread_name", 2, 1) == "update queue");
  BOOST_TEST(named(events, "apply (rank 1)")["pid"] == 2);
  BOOST_TEST(named(events, "pull")["args"]["source"] == 2);
  check_no_overlap(events);
}

BOOST_AUTO_TEST_CASE(only_the_asked_iterations_are_written) {
  const Json events = events_of(ddp_schedule(4), ddp_trace({6, 12, 18, 24}), 1, 3);
  BOOST_TEST(of_phase(events, "X").size() == 2u * 4 * 2);
  for (const Json& event : of_phase(events, "X")) {
    BOOST_TEST(event["ts"].get<double>() >= 6000);
    BOOST_TEST(event["ts"].get<double>() < 18000);
  }
}

BOOST_AUTO_TEST_CASE(ranks_beyond_the_recorded_ones_are_left_out) {
  Trace trace = ddp_trace({6});
  trace.recorded_ranks = 1;
  for (const Json& event : events_of(ddp_schedule(1), trace, 0, 1)) BOOST_TEST(event["pid"] == 0);
}

BOOST_AUTO_TEST_CASE(memory_is_a_counter_by_kind) {
  // Parameters 2 GB always; forward takes 6 GB; backward 2 GB more, and gives the 6 back at its
  // end.
  const Json events = events_of(ddp_schedule(2), ddp_trace({6, 12}), 1, 2);
  std::vector<std::array<double, 4>> seen;
  for (const Json& event : of_phase(events, "C")) {
    if (event["pid"] != 0) continue;
    const Json& args = event["args"];
    seen.push_back({event["ts"], args["parameters"], args["activations"], args["gradients"]});
  }
  const std::vector<std::array<double, 4>> expected{
      {6000, 2e9, 6e9, 0}, {7000, 2e9, 6e9, 2e9}, {9000, 2e9, 0, 2e9}, {11500, 2e9, 0, 0}};
  BOOST_TEST((seen == expected));
}

BOOST_AUTO_TEST_CASE(
    operations_that_are_bound_to_no_lane_get_threads_on_which_they_do_not_overlap) {
  // Three free transfers: [0, 4], [1, 2], [3, 5]. The third fits behind the second.
  Schedule schedule = server_schedule(1, 1);
  Op free = schedule.programs[0].ops[0];
  free.lane.reset();
  schedule.programs[0].ops = {free, free, free};
  Trace trace;
  trace.recorded_ranks = 1;
  trace.spans = {span(0, 0, 0, 0, 0, 4), span(0, 1, 0, 1, 1, 2), span(0, 2, 0, 3, 3, 5)};
  const Json events = events_of(schedule, trace, 0, 1);
  check_no_overlap(events);
  BOOST_TEST(name_in(events, "thread_name", 0, 1) == "transfers");
  BOOST_TEST(name_in(events, "thread_name", 0, 2) == "transfers 2");
  BOOST_TEST(name_in(events, "thread_name", 0, 3) == "");
}

BOOST_AUTO_TEST_CASE(neighbours_do_not_overlap_after_rounding) {
  // Thirds of a microsecond have no exact decimal.
  Schedule schedule = ddp_schedule(1);
  Trace trace;
  trace.recorded_ranks = 1;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    trace.spans.push_back(span(0, 0, 0, 0, i / 3e3, (i + 1) / 3e3));
  }
  check_no_overlap(events_of(schedule, trace, 0, 1));
}

BOOST_AUTO_TEST_CASE(names_are_escaped_and_the_same_input_gives_the_same_bytes) {
  Schedule schedule = ddp_schedule(1);
  schedule.programs[0].ops[0].of = "a \"quoted\" \\ name";
  const Trace trace = ddp_trace({6});
  const std::string text = to_chrome_trace(schedule, trace, 0, 1);
  BOOST_TEST(named(Json::parse(text)["traceEvents"], "a \"quoted\" \\ name")["ph"] == "X");
  BOOST_TEST(text == to_chrome_trace(schedule, trace, 0, 1));
}

BOOST_AUTO_TEST_SUITE_END()
