// Runs that go on until somebody has seen enough.
#include <boost/test/unit_test.hpp>
#include <sstream>

#include "base/child_process.hpp"
#include "base/error.hpp"
#include "engine/clusters.hpp"
#include "engine/engine.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(open_ended_test)
namespace {

/// Each of `slowdowns` computes 10 ms at a time, for itself.
Schedule alone(const Cluster& cluster, const std::vector<double>& slowdowns,
               std::uint32_t iterations) {
  Program program{.name = "worker", .lanes = {{"compute", LaneKind::compute}}};
  program.ops.push_back({.of = "compute", .lane = LaneId(0), .work = Compute{Seconds(10e-3)}});
  Schedule schedule = on_all_ranks(cluster, program, iterations);
  for (std::size_t r = 0; r < slowdowns.size(); ++r) schedule.ranks[r].slowdown = slowdowns[r];
  return schedule;
}

struct Ended {
  std::vector<std::size_t> iterations;  // by rank
  double at = 0;
  bool cut_short = false;
};

Ended play_until(const Schedule& schedule, const Cluster& cluster, double enough,
                 std::uint64_t most_operations = 1'000'000) {
  std::istringstream text(in_child_process([&] {
    EngineOptions options;
    options.enough = [enough](const Trace& so_far) { return so_far.end.value() >= enough; };
    options.most_operations = most_operations;
    const Trace trace = run({.schedule = schedule, .cluster = cluster}, options);
    std::ostringstream out;
    out << trace.end.value() << " " << trace.cut_short;
    for (const auto& ends : trace.iteration_end) out << " " << ends.size();
    return out.str();
  }));
  Ended ended;
  text >> ended.at >> ended.cut_short;
  for (std::size_t count = 0; text >> count;) ended.iterations.push_back(count);
  return ended;
}

BOOST_AUTO_TEST_CASE(fast_ranks_go_on_while_slow_ones_do_the_schedules_iterations) {
  const Cluster cluster = star_cluster(2);
  const Ended ended = play_until(alone(cluster, {1, 8}, 5), cluster, 0);
  BOOST_TEST(ended.iterations[1] == 5u);
  BOOST_TEST(ended.iterations[0] >= 39u);
  BOOST_TEST(ended.iterations[0] <= 40u);
  BOOST_TEST(!ended.cut_short);
}

BOOST_AUTO_TEST_CASE(a_run_goes_on_until_it_is_enough) {
  const Cluster cluster = star_cluster(2);
  const Ended ended = play_until(alone(cluster, {1, 2}, 2), cluster, 1);
  BOOST_TEST(ended.at >= 1);
  BOOST_TEST(ended.at <= 1.4 * 1.02);  // it is asked whenever there are two fifths more
  BOOST_TEST(!ended.cut_short);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_never_enough_stops_at_the_limit) {
  const Cluster cluster = star_cluster(2);
  const Ended ended = play_until(alone(cluster, {1, 2}, 2), cluster, 1e9, 3000);
  BOOST_TEST(ended.cut_short);
  BOOST_TEST(ended.iterations[0] + ended.iterations[1] == 3000u);
}

BOOST_AUTO_TEST_CASE(at_the_limit_slow_ranks_still_do_the_schedules_iterations) {
  const Cluster cluster = star_cluster(2);
  const Ended ended = play_until(alone(cluster, {1, 1000}, 3), cluster, 0, 200);
  BOOST_TEST(ended.cut_short);
  BOOST_TEST(ended.iterations[0] >= 199u);
  BOOST_TEST(ended.iterations[0] <= 204u);
  BOOST_TEST(ended.iterations[1] == 3u);
}

BOOST_AUTO_TEST_CASE(an_open_ended_run_that_cannot_go_on_is_stuck) {
  const Cluster cluster = star_cluster(2);
  Schedule schedule = alone(cluster, {1, 1}, 2);
  schedule.events = {{"never", 1}};
  schedule.programs[0].ops[0].awaits = {{EventId(0), 1}};
  BOOST_CHECK_EXCEPTION(play_until(schedule, cluster, 1), Error,
                        [](const Error& error) { return error.code() == ExitCode::stuck; });
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
