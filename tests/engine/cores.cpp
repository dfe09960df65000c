// Computations that share cores (processor sharing): with n on c cores each goes on at min(1, c/n)
// of its pace.
#include "engine/cores.hpp"

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/random.hpp"
#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(cores_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kMs = 1e-3;
constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative

Cluster shared_cluster(int nodes, std::optional<int> cores) {
  Cluster cluster = star_cluster(nodes);
  cluster.shared_cores = cores;
  return cluster;
}

/// Each rank computes for these seconds, one after the other.
Schedule computing(const Cluster& cluster, const std::vector<std::vector<double>>& by_rank) {
  Schedule schedule = on_all_ranks(cluster, Program{.name = "none"});
  schedule.programs.clear();
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    Program program{.name = "worker", .lanes = {{"compute", LaneKind::compute}}};
    for (const double duration : by_rank[r])
      program.ops.push_back(
          {.of = "compute", .lane = LaneId(0), .work = Compute{.duration = Seconds(duration)}});
    schedule.programs.push_back(program);
    schedule.ranks[r].program = ProgramId(r);
  }
  return schedule;
}

/// When each rank has computed all.
std::vector<double> ends(const std::vector<std::vector<double>>& by_rank,
                         std::optional<int> cores) {
  const Cluster cluster = shared_cluster(static_cast<int>(by_rank.size()), cores);
  const Trace trace = play(computing(cluster, by_rank), cluster);
  std::vector<double> result;
  for (const auto& rank : trace.iteration_end) result.push_back(rank[0].value());
  BOOST_CHECK_EQUAL(trace.end.value(), *std::max_element(result.begin(), result.end()));
  return result;
}

void check_ends(const std::vector<double>& actual, const std::vector<double>& expected) {
  BOOST_REQUIRE_EQUAL(actual.size(), expected.size());
  for (std::size_t r = 0; r < actual.size(); ++r)
    BOOST_CHECK_CLOSE(actual[r], expected[r], kPercent);
}

BOOST_DATA_TEST_CASE(like_ranks_take_n_over_c_times_as_long,
                     data::make({1, 2, 3, 5, 8}) * data::make({1, 2, 4}), ranks, cores) {
  const std::vector<std::vector<double>> work(static_cast<std::size_t>(ranks), {0.25, 0.5});
  const double factor = std::max(1.0, static_cast<double>(ranks) / cores);
  for (const double end : ends(work, cores)) BOOST_CHECK_CLOSE(end, 0.75 * factor, kPercent);
  for (const double end : ends(work, std::nullopt)) BOOST_CHECK_CLOSE(end, 0.75, kPercent);
}

BOOST_AUTO_TEST_CASE(who_has_done_leaves_the_core_to_the_others) {
  check_ends(ends({{1}, {3}}, 1), {2, 4});
  check_ends(ends({{1}, {3}}, 2), {1, 3});
  // At 2/3 until 1.5, when 1 and 3 seconds are left.
  check_ends(ends({{1}, {2}, {4}}, 2), {1.5, 2.5, 4.5});
  check_ends(ends({{0}, {2}, {0}}, 1), {0, 2, 0});
}

BOOST_AUTO_TEST_CASE(who_sleeps_leaves_the_core_to_the_others) {
  const auto ends_of = [](double first, double second) {
    const Cluster cluster = shared_cluster(2, 1);
    Schedule schedule = computing(cluster, {{1, 1}, {2}});
    schedule.iterations = 2;
    schedule.ranks[0].delay = Seconds(3);
    const Trace trace = play(schedule, cluster);
    BOOST_CHECK_CLOSE(trace.iteration_end[0][1].value(), first, kPercent);
    BOOST_CHECK_CLOSE(trace.iteration_end[1][1].value(), second, kPercent);
  };
  // The second computes until 3, alone; then they share the core, until it has done at 5. The first
  // has a second left, until 6, and sleeps until 9 before its second iteration.
  ends_of(11, 5);
}

BOOST_AUTO_TEST_CASE(who_comes_later_shares_from_then_on) {
  Cores cores(1);
  cores.begin({0, 0}, 2, 1, 0);
  BOOST_CHECK_EQUAL(cores.next_end(), 2);
  const std::uint32_t before = cores.version();
  cores.begin({1, 0}, 1, 1, 1);
  BOOST_CHECK_NE(cores.version(), before);
  // Both have a second left; of the two the first to come ends first.
  BOOST_CHECK_CLOSE(cores.next_end(), 3, kPercent);
  BOOST_CHECK(cores.end_next(3) == (Cores::Task{0, 0}));
  BOOST_CHECK_CLOSE(cores.next_end(), 3, kPercent);
  BOOST_CHECK(cores.end_next(3) == (Cores::Task{1, 0}));
  BOOST_CHECK(cores.idle());
}

BOOST_AUTO_TEST_CASE(cores_that_compute_slow_each_other_down) {
  // Two of three on four cores: a third of what all of them lose.
  Cores cores(4, 1.3);
  for (std::uint32_t rank = 0; rank < 2; ++rank) cores.begin({rank, 0}, 1, 1, 0);
  BOOST_CHECK_CLOSE(cores.next_end(), 1.1, kPercent);
  for (std::uint32_t rank = 2; rank < 4; ++rank) cores.begin({rank, 0}, 1, 1, 0);
  BOOST_CHECK_CLOSE(cores.next_end(), 1.3, kPercent);
  for (std::uint32_t rank = 4; rank < 8; ++rank) cores.begin({rank, 0}, 1, 1, 0);
  BOOST_CHECK_CLOSE(cores.next_end(), 2.6, kPercent);
  Cores alone(1, 1.3);
  alone.begin({0, 0}, 1, 1, 0);
  BOOST_CHECK_EQUAL(alone.next_end(), 1);
}

BOOST_AUTO_TEST_CASE(ranks_on_busy_cores_slow_each_other_down) {
  Cluster cluster = shared_cluster(2, 2);
  cluster.busy_cores = {.slowdown = 1.3, .spread = 0.2};
  // Both at 1 / 1.3 of their pace until 1.3; the second's other second is its own.
  const Trace trace = play(computing(cluster, {{1}, {2}}), cluster);
  BOOST_CHECK_CLOSE(trace.iteration_end[0][0].value(), 1.3, kPercent);
  BOOST_CHECK_CLOSE(trace.iteration_end[1][0].value(), 2.3, kPercent);
}

BOOST_AUTO_TEST_CASE(a_slowdown_and_a_share_multiply) {
  Cores cores(1);
  cores.begin({0, 0}, 3, 1.5, 0);
  cores.begin({1, 0}, 1, 1, 0);
  BOOST_CHECK(cores.end_next(2) == (Cores::Task{1, 0}));  // 2 / 3 of the other's 3 are done
  BOOST_CHECK_CLOSE(cores.next_end(), 2 + (3 - 2.0 / 3) * 1.5, kPercent);
  cores.slow({0, 0}, 1, 2);
  BOOST_CHECK_CLOSE(cores.next_end(), 2 + (3 - 2.0 / 3), kPercent);
}

// 10 ms of compute on two ranks beside a collective of 4 ms: a third of those 4 ms is done on one
// core (half of it, over 1.5), the rest at half pace.
BOOST_AUTO_TEST_CASE(compute_is_slowed_beside_a_collective_on_shared_cores_too) {
  const auto end_on = [](std::optional<int> cores) {
    const Cluster cluster = shared_cluster(2, cores);
    const double size = (4 * kMs - 2 * kNicLatency) * kNic;
    Program program =
        one_collective(CollectiveKind::all_reduce, Bytes(size), CollectiveAlgorithm::ring);
    program.lanes.push_back({"compute", LaneKind::compute});
    program.ops.push_back(
        {.of = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(10 * kMs)}});
    Schedule schedule = on_all_ranks(cluster, program);
    schedule.overlap_slowdown = 1.5;
    return play(schedule, cluster).end.value();
  };
  BOOST_CHECK_CLOSE(end_on(1), 4 * kMs + (10 * kMs - 4 * kMs / 3) * 2, kPercent);
  BOOST_CHECK_CLOSE(end_on(2), 4 * kMs + (10 * kMs - 4 * kMs / 1.5), kPercent);
  BOOST_CHECK_EQUAL(end_on(2), end_on(std::nullopt));
}

// Of n threads on c cores each stands ready for 1 - c/n of its computing; alone, never.
BOOST_AUTO_TEST_CASE(threads_that_are_more_than_the_cores_stand_ready) {
  const auto shares = [](const std::vector<std::vector<double>>& work, std::optional<int> cores) {
    const Cluster cluster = shared_cluster(static_cast<int>(work.size()), cores);
    return play(computing(cluster, work), cluster).ready_share;
  };
  check_ends(shares({{1}, {1}, {1}}, 2), {1. / 3, 1. / 3, 1. / 3});
  // Four run at half a core for 2 s; then the one that has more to do is alone for 1 s.
  check_ends(shares({{2}, {1}, {1}, {1}}, 2), {1. / 3, 0.5, 0.5, 0.5});
  for (const double share : shares({{1}, {1}}, 2)) BOOST_TEST(share == 0);
  BOOST_TEST(shares({{1}, {1}}, std::nullopt).empty());
}

// No core is idle while somebody who could use it computes, and more cores make nobody later.
BOOST_DATA_TEST_CASE(cores_do_all_the_work_and_more_are_never_slower, data::xrange(5), seed) {
  RandomStream stream = random_stream(static_cast<std::uint64_t>(seed), "cores", 0, 0);
  std::vector<std::vector<double>> work(5);
  std::vector<double> before;
  double sum = 0;
  for (auto& rank : work)
    for (int i = 0; i < 4; ++i) {
      rank.push_back(uniform01(stream));
      sum += rank.back();
    }
  for (const int cores : {1, 2, 3, 4, 5, 6}) {
    const std::vector<double> now = ends(work, cores);
    const double last = *std::max_element(now.begin(), now.end());
    BOOST_CHECK_GE(last * cores, sum * (1 - 1e-12));
    if (cores == 1) BOOST_CHECK_CLOSE(last, sum, kPercent);
    for (std::size_t r = 0; r < before.size(); ++r) BOOST_CHECK_LE(now[r], before[r] * (1 + 1e-12));
    if (cores >= 5) check_ends(now, ends(work, std::nullopt));
    before = now;
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
