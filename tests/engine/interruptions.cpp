// Stops of ranks (Schedule::interruptions): so many as its computing has them, each for so long.
#include <boost/test/unit_test.hpp>

#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(interruptions_test)
namespace {

constexpr double kPercent = 1e-7;
constexpr double kCompute = 10e-3, kStop = 7e-3;
constexpr std::uint32_t kIterations = 100;

/// Computes, and meets all others.
Schedule meeting(const Cluster& cluster) {
  Program program = one_collective(CollectiveKind::all_reduce, Bytes(0), CollectiveAlgorithm::ring);
  program.lanes.push_back({"compute", LaneKind::compute});
  program.ops.push_back(
      {.of = "work", .lane = LaneId(1), .work = Compute{.duration = Seconds(kCompute)}});
  program.ops[0].after = {{OpId(1)}};
  program.ops[1].after = {{OpId(0), 1}};
  Schedule schedule = on_all_ranks(cluster, program, kIterations);
  schedule.interruptions = {.every = Seconds(0.1), .time = Seconds(kStop)};
  return schedule;
}

BOOST_AUTO_TEST_CASE(a_rank_is_stopped_as_often_as_its_computing_says) {
  const Cluster cluster = star_cluster(1);
  const double expected = kIterations * kCompute + 10 * kStop;
  BOOST_CHECK_CLOSE(play(meeting(cluster), cluster).end.value(), expected, kPercent);
}

// Stops of ranks that meet each other add up: they fall into steps of their own.
BOOST_AUTO_TEST_CASE(stops_of_four_ranks_add_up) {
  const Cluster cluster = star_cluster(4);
  Schedule schedule = meeting(cluster);
  const double stopped = play(schedule, cluster).end.value();
  schedule.interruptions = {};
  BOOST_CHECK_CLOSE(stopped - play(schedule, cluster).end.value(), 4 * 10 * kStop, 1e-4);
}

BOOST_AUTO_TEST_CASE(folded_ranks_are_stopped_for_those_that_they_stand_for) {
  const Cluster cluster = star_cluster(8);
  std::string why_not;
  const auto folded = fold(meeting(cluster), cluster, why_not);
  BOOST_REQUIRE(folded);
  BOOST_CHECK_CLOSE(folded->schedule.interruptions.every.value(), 0.1 * 2 / 8, kPercent);
  // Two stops of a rank in one computation, of two that it stands for, cost both one after another.
  BOOST_CHECK_CLOSE(play(folded->schedule, folded->cluster).end.value(),
                    play(meeting(cluster), cluster).end.value(), 1);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
