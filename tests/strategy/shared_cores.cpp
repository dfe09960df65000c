// Hosts that are containers on one machine: what they compute, workers and servers alike, shares
// its cores, and who waits for the network or for others leaves them alone.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(shared_cores_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kP = 4 * kMiB, kApplyRate = 2e9, kApply = kP / kApplyRate;
constexpr double kC = 20 * kMs, kOptimizer = 3 * kMs;

/// C of forward and backward; its gradients are ready when all is computed.
Toy one_unit() { return toy({{kP, 8 * kMs, 12 * kMs}}, kOptimizer); }

Cluster on_cores(Cluster cluster, int cores) {
  cluster.shared_cores = cores;
  return cluster;
}

double way(double load) { return kNicLatency + load * kP / kNic; }

BOOST_DATA_TEST_CASE(a_ddp_step_computes_n_over_c_times_as_long,
                     data::make({1, 2, 4, 6}) * data::make({1, 2, 4}), ranks, cores) {
  const double factor = std::max(1.0, static_cast<double>(ranks) / cores);
  const double all_reduce = ranks > 1 ? all_reduce_time(ranks, kP) : 0;
  BOOST_CHECK_CLOSE(step_of(TorchDdp{}, one_unit(), on_cores(star_cluster(ranks), cores)),
                    factor * (kC + kOptimizer) + all_reduce, kPercent);
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_straggler_leaves_it_the_core) {
  // Rank 1 has three times as much to do. Rank 0 is done after 2 C; the core is never idle until
  // 4 C; the optimizers take 3 + 1 parts.
  const Cluster cluster = on_cores(star_cluster(2), 1);
  Schedule schedule = schedule_of(TorchDdp{}, one_unit(), cluster);
  schedule.ranks[1].slowdown = 3;
  const Trace trace = play(schedule, cluster);
  BOOST_CHECK_CLOSE(span_of(schedule, trace, 0, "backward").end.value(), 2 * kC, kPercent);
  BOOST_CHECK_CLOSE(span_of(schedule, trace, 1, "backward").end.value(), 4 * kC, kPercent);
  BOOST_CHECK_CLOSE(trace.end.value(), 4 * kC + all_reduce_time(2, kP) + 4 * kOptimizer, kPercent);
}

BOOST_AUTO_TEST_CASE(what_a_server_applies_shares_the_cores_with_the_workers) {
  // Worker 1 takes three times as long. On one core worker 0 is done after 2 C and its gradients
  // are applied beside worker 1's compute, at half pace; all in all 4 C and an apply by then. On
  // two cores nobody meets anybody.
  const ParameterServer ps{.servers = 1, .apply_rate = BytesPerSecond(kApplyRate)};
  const auto ends = [&](std::optional<int> cores) {
    Cluster cluster = server_cluster(2);
    cluster.shared_cores = cores;
    Schedule schedule = schedule_of(ps, toy({{kP, 8 * kMs, 12 * kMs}}, 0), cluster);
    schedule.ranks[1].slowdown = 3;
    const Trace trace = play(schedule, cluster);
    return std::pair(trace.iteration_end[0][0].value(), trace.end.value());
  };
  BOOST_CHECK_CLOSE(ends(1).first, way(2) + 2 * kC + way(1) + 2 * kApply, kPercent);
  BOOST_CHECK_CLOSE(ends(1).second, way(2) + 4 * kC + kApply + way(1) + kApply, kPercent);
  BOOST_CHECK(ends(2) == ends(std::nullopt));
  BOOST_CHECK_CLOSE(ends(2).first, way(2) + kC + way(1) + kApply, kPercent);
}

BOOST_AUTO_TEST_CASE(servers_apply_at_once_on_as_many_cores_as_there_are) {
  // Two servers apply half of two workers' gradients each: as one on two cores, twice as long on
  // one.
  const ParameterServer ps{.servers = 2, .apply_rate = BytesPerSecond(kApplyRate)};
  const Toy model = toy({{kP, 8 * kMs, 12 * kMs}}, 0);
  const double ways = 2 * way(1);
  BOOST_CHECK_CLOSE(step_of(ps, model, on_cores(server_cluster(2, 2), 2)), ways + kC + kApply,
                    kPercent);
  BOOST_CHECK_CLOSE(step_of(ps, model, on_cores(server_cluster(2, 2), 1)),
                    ways + 2 * kC + 2 * kApply, kPercent);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
