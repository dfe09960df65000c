#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "report/update_log.hpp"
#include "toy.hpp"

BOOST_AUTO_TEST_SUITE(staleness_test)

using namespace toy;
namespace data = boost::unit_test::data;

BOOST_DATA_TEST_CASE(like_workers_at_a_saturated_server_are_n_minus_1_stale,
                     data::make({1u, 2u, 4u, 9u}), workers) {
  const Schedule schedule = server_schedule(workers, 6);
  const std::vector<Update> log = update_log(schedule, saturated_trace(workers, 6));
  BOOST_TEST(log.size() == workers * 6);
  const std::optional<StalenessReport> report = staleness_of(log, 1);
  BOOST_REQUIRE(report);
  BOOST_TEST(report->mean == workers - 1.0);
  BOOST_TEST(report->max == workers - 1);
  BOOST_TEST(report->histogram.at(workers - 1) == workers * 5);
}

BOOST_AUTO_TEST_CASE(the_first_updates_are_as_stale_as_the_workers_before_them) {
  // All pull at 0; the worker that comes w-th finds w updates before its own.
  const std::vector<Update> log = update_log(server_schedule(3, 1), saturated_trace(3, 1));
  for (std::uint32_t w = 0; w < 3; ++w) {
    BOOST_TEST(log[w].worker.index() == w);
    BOOST_TEST(log[w].version_read == 0u);
    BOOST_TEST(log[w].staleness == w);
  }
}

BOOST_AUTO_TEST_CASE(a_slow_worker_is_stale_by_all_that_the_fast_one_did) {
  // Worker 0 pulls at 0, 10, 20, 30 and is applied at 10, 20, 30, 40; worker 1 pulls at 5 and is
  // applied at 35: the updates at 10, 20 and 30 lie between; and one of another worker lies between
  // worker 0's pull at 30 and its update at 40.
  Trace trace;
  trace.iteration_end.resize(3);
  for (std::uint32_t k = 0; k < 4; ++k)
    add_iteration(trace, 0, k, 10 * k, 10 * k + 8, 10 * k + 9, 10 * k + 10);
  add_iteration(trace, 1, 0, 5, 33, 34, 35);
  const std::vector<Update> log = update_log(server_schedule(2, 4), trace);
  BOOST_REQUIRE(log.size() == 5u);
  BOOST_TEST(log[3].worker.index() == 1u);
  BOOST_TEST(log[3].staleness == 3u);
  BOOST_TEST(log[4].worker.index() == 0u);
  BOOST_TEST(log[4].version_read == 3u);
  BOOST_TEST(log[4].staleness == 1u);
  // {0, 0, 0, 3, 1}: mean 0.8, median 0, the 99th percentile is the largest.
  const std::optional<StalenessReport> report = staleness_of(log, 0);
  BOOST_TEST(report->mean == 0.8);
  BOOST_TEST(report->p50 == 0u);
  BOOST_TEST(report->p99 == 3u);
  BOOST_TEST(report->max == 3u);
}

BOOST_AUTO_TEST_CASE(parts_that_are_pulled_on_their_own_are_as_stale_as_the_stalest) {
  // Two parts, each pulled again as soon as it is applied. Worker 0 updates part A at 10 and reads
  // it again then; part B is applied at 12 and read at 12. Its next updates land at 20 (A) and 22
  // (B). Worker 1's land at 11 (A, before nobody's read of it) and 21 (B): A is stale by one, B by
  // one; worker 0's own update at 12 counts for neither.
  Schedule schedule = server_schedule(2, 2);
  Program& program = schedule.programs[0];
  program.ops.push_back(program.ops[0]);
  program.ops.push_back(program.ops[3]);
  program.ops[0].after = {{OpId(3), 1}};
  program.ops[4].after = {{OpId(5), 1}};
  Trace trace;
  trace.spans = {span(0, 0, 0, 0, 0, 1),    span(0, 4, 0, 0, 0, 1),    span(0, 3, 0, 9, 9, 10),
                 span(0, 5, 0, 9, 9, 12),   span(0, 0, 1, 10, 10, 11), span(0, 4, 1, 12, 12, 13),
                 span(0, 3, 1, 19, 19, 20), span(0, 5, 1, 19, 19, 22), span(1, 0, 0, 0, 0, 1),
                 span(1, 4, 0, 0, 0, 1),    span(1, 3, 0, 9, 9, 11),   span(1, 5, 0, 20, 20, 21)};
  const std::vector<Update> log = update_log(schedule, trace);
  // Whole: worker 0 at 12, worker 1 at 21 (after worker 0's of both parts: A at 10; B at 12),
  // worker 0 at 22.
  BOOST_REQUIRE(log.size() == 3u);
  BOOST_TEST(log[0].staleness == 0u);
  BOOST_TEST(log[1].worker.index() == 1u);
  BOOST_TEST(log[1].staleness == 1u);
  BOOST_TEST(log[2].worker.index() == 0u);
  BOOST_TEST(log[2].staleness == 1u);
  BOOST_TEST(log[2].version_read == 1u);
}

BOOST_AUTO_TEST_CASE(where_parts_cannot_be_told_apart_the_first_read_and_the_last_applied_count) {
  // Worker 0 reads its parts at 4 and 6; worker 1's update is whole at 5 (parts at 3 and 5): it was
  // not yet whole when worker 0 read its first part, so it lies between.
  Schedule schedule = server_schedule(2, 1);
  Program& program = schedule.programs[0];
  program.ops.push_back(program.ops[0]);
  program.ops.push_back(program.ops[3]);
  Trace trace;
  trace.spans = {span(0, 0, 0, 4, 4, 5),  span(0, 4, 0, 6, 6, 7), span(0, 3, 0, 8, 8, 9),
                 span(0, 5, 0, 8, 8, 10), span(1, 0, 0, 0, 0, 1), span(1, 4, 0, 0, 0, 1),
                 span(1, 3, 0, 2, 2, 3),  span(1, 5, 0, 4, 4, 5)};
  const std::vector<Update> log = update_log(schedule, trace);
  BOOST_REQUIRE(log.size() == 2u);
  BOOST_TEST(log[0].worker.index() == 1u);
  BOOST_TEST(log[0].applied.value() == 5e-3);
  BOOST_TEST(log[1].read.value() == 4e-3);
  BOOST_TEST(log[1].applied.value() == 10e-3);
  BOOST_TEST(log[1].staleness == 1u);
}

BOOST_AUTO_TEST_CASE(an_update_applied_at_the_instant_of_a_read_is_in_it) {
  Trace trace;
  trace.iteration_end.resize(3);
  add_iteration(trace, 0, 0, 0, 8, 9, 10);
  add_iteration(trace, 1, 0, 10, 18, 19, 20);
  const std::vector<Update> log = update_log(server_schedule(2, 1), trace);
  BOOST_TEST(log[1].version_read == 1u);
  BOOST_TEST(log[1].staleness == 0u);
}

/// The synchronous form: workers read and push, the server's own operation applies the group's
/// gradient.
Schedule synchronous_schedule(std::uint32_t iterations) {
  Schedule schedule = server_schedule(2, iterations);
  Op apply = schedule.programs[0].ops[3];
  apply.queue.reset();
  apply.lane = LaneId(0);
  schedule.programs[0].ops.pop_back();
  schedule.programs[1].lanes = {{.name = "update", .kind = LaneKind::host}};
  schedule.programs[1].ops = {apply};
  return schedule;
}

BOOST_AUTO_TEST_CASE(a_synchronous_iteration_is_one_update_without_staleness) {
  Trace trace;
  for (std::uint32_t k = 0; k < 3; ++k) {
    // Worker 1 reads a part of iteration k while the server still applies the rest of k - 1.
    trace.spans.push_back(span(0, 0, k, 10 * k, 10 * k, 10 * k + 1));
    trace.spans.push_back(span(1, 0, k, 10 * k - 0.5, 10 * k - 0.5, 10 * k + 1));
    trace.spans.push_back(span(2, 0, k, 10 * k + 8, 10 * k + 8, 10 * k + 10));
  }
  const std::vector<Update> log = update_log(synchronous_schedule(3), trace);
  BOOST_REQUIRE(log.size() == 3u);
  for (std::uint32_t k = 0; k < 3; ++k) {
    BOOST_TEST(log[k].worker.index() == 2u);
    BOOST_TEST(log[k].iteration == k);
    BOOST_TEST(log[k].read.value() == (10 * k - 0.5) * 1e-3);
    BOOST_TEST(log[k].version_read == k);
    BOOST_TEST(log[k].staleness == 0u);
  }
}

BOOST_AUTO_TEST_CASE(without_a_server_there_are_no_updates) {
  BOOST_TEST(update_log(ddp_schedule(1), ddp_trace({6})).empty());
  BOOST_TEST(!staleness_of({}, 0).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
