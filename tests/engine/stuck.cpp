// Schedules that can never finish: run() says so, and what waits for what. validate() sees some.
#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(stuck_test)
namespace {

const std::string kHead =
    "error: the simulation cannot finish: every operation that is left waits for another\n";

// Plays, and returns the text of the error; nothing if it finished.
std::string played(const Schedule& schedule, const Cluster& cluster) {
  std::string text;
  try {
    play(schedule, cluster);
  } catch (const Error& error) {
    BOOST_CHECK(error.code() == ExitCode::stuck);
    text = error.what();
  }
  return text;
}

std::string stuck(const Schedule& schedule, const Cluster& cluster) {
  BOOST_REQUIRE_NO_THROW(validate(schedule));
  return played(schedule, cluster);
}

Op all_reduce(const std::string& label, std::size_t slot) {
  return {.of = label, .lane = LaneId(0), .work = Collective{.group = slot, .size = Bytes(1e6)}};
}

// Rank 0 enters group a, then b; rank 1 enters b, then a; each on one stream.
BOOST_AUTO_TEST_CASE(two_groups_entered_in_crossed_orders_are_stuck) {
  const Cluster cluster = star_cluster(2);
  Program one{.name = "one", .lanes = {{"nccl", LaneKind::communication}}};
  Program two = one;
  one.ops = {all_reduce("all_reduce a", 0), all_reduce("all_reduce b", 1)};
  two.ops = {all_reduce("all_reduce b", 1), all_reduce("all_reduce a", 0)};
  Schedule schedule = on_all_ranks(cluster, one);
  schedule.programs.push_back(two);
  schedule.groups.push_back(schedule.groups[0]);
  schedule.ranks[1].program = ProgramId(1);
  for (RankSpec& rank : schedule.ranks) rank.groups = {GroupId(0), GroupId(1)};
  BOOST_CHECK_THROW(validate(schedule), InternalError);
  BOOST_CHECK_EQUAL(played(schedule, cluster),
                    kHead +
                        "  rank 0, lane nccl, iteration 0: all_reduce a; "
                        "waits for the other members of its group\n"
                        "  rank 1, lane nccl, iteration 0: all_reduce b; "
                        "waits for the other members of its group\n");
}

// Two signals are needed in each iteration; there is one.
Schedule waits_for_an_event(const Cluster& cluster, std::optional<LaneId> lane) {
  Program program{.name = "worker", .lanes = {{"compute", LaneKind::compute}}};
  program.ops = {{.of = "compute",
                  .lane = LaneId(0),
                  .work = Compute{.duration = Seconds(1)},
                  .signals = {EventId(0)}},
                 {.of = "step", .lane = lane, .work = Join{}, .awaits = {{EventId(0), 1}}}};
  Schedule schedule = on_all_ranks(cluster, program, 3);
  schedule.events = {{.name = "everyone is there", .needs = 2}};
  return schedule;
}

BOOST_AUTO_TEST_CASE(an_event_that_never_comes_stops_a_lane) {
  const Cluster cluster = star_cluster(1);
  BOOST_CHECK_EQUAL(
      stuck(waits_for_an_event(cluster, LaneId(0)), cluster),
      kHead + "  rank 0, lane compute, iteration 1: step; waits for event everyone is there\n");
}

BOOST_AUTO_TEST_CASE(an_event_that_never_comes_stops_an_operation_without_a_lane) {
  const Cluster cluster = star_cluster(1);
  BOOST_CHECK_EQUAL(stuck(waits_for_an_event(cluster, std::nullopt), cluster),
                    kHead + "  rank 0, iteration 1: step; waits for event everyone is there\n");
}

BOOST_AUTO_TEST_CASE(what_comes_after_a_stuck_operation_waits_for_it_by_name) {
  const Cluster cluster = star_cluster(1);
  Schedule schedule = waits_for_an_event(cluster, std::nullopt);
  schedule.programs[0].ops[0].after = {{OpId(1), 1}};
  BOOST_CHECK_EQUAL(stuck(schedule, cluster),
                    kHead +
                        "  rank 0, lane compute, iteration 2: compute; waits for step\n"
                        "  rank 0, iteration 1: step; waits for event everyone is there\n");
}

BOOST_AUTO_TEST_CASE(the_list_of_what_waits_is_cut_at_eight) {
  const Cluster cluster = star_cluster(12);
  Schedule schedule = waits_for_an_event(cluster, LaneId(0));
  schedule.events[0].needs = 13;
  const std::string text = stuck(schedule, cluster);
  BOOST_CHECK_EQUAL(std::count(text.begin(), text.end(), '\n'), 1 + 8);
}

BOOST_AUTO_TEST_CASE(the_same_schedule_finishes_when_the_event_comes) {
  const Cluster cluster = star_cluster(2);
  BOOST_CHECK_EQUAL(stuck(waits_for_an_event(cluster, LaneId(0)), cluster), "");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
