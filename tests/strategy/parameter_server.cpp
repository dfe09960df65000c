// The parameter server against closed forms: N workers and S servers on one-NIC nodes of a star. P:
// bytes of parameters; L: one way's latency; C: a worker's compute; a: a server's time to apply one
// worker's gradients.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(parameter_server_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kP = 4 * kMiB, kApplyRate = 2e9, kApply = kP / kApplyRate;
constexpr double kC = 20 * kMs;

Toy two_units() { return toy({{kP / 2, 3 * kMs, 6 * kMs}, {kP / 2, 4 * kMs, 7 * kMs}}, 0); }

ParameterServer bsp(int servers = 1) {
  return {.servers = servers, .apply_rate = BytesPerSecond(kApplyRate)};
}

/// One way between all workers and the servers, `load` times P through the busiest NIC.
double way(double load) { return kNicLatency + load * kP / kNic; }

BOOST_DATA_TEST_CASE(a_synchronous_step_is_bound_by_the_server_s_nic, data::make({1, 2, 3, 8, 32}),
                     workers) {
  // All pull at once, compute alike, push at once; what arrives together is applied one by one.
  const double n = workers, step = way(n) + kC + way(n) + n * kApply;
  const Trace trace = trace_of(bsp(), two_units(), server_cluster(workers), 3);
  for (std::size_t k = 0; k < 3; ++k) {
    double end = 0;
    for (const auto& rank : trace.iteration_end) end = std::max(end, rank[k].value());
    BOOST_CHECK_CLOSE(end, static_cast<double>(k + 1) * step, kPercent);
  }
}

BOOST_DATA_TEST_CASE(servers_share_the_load_until_the_workers_nics_bind,
                     data::make({1, 2, 3, 4, 8}), servers) {
  // Each server sends N P/S and each worker takes P: max(N/S, 1) P through the busiest NIC.
  const int workers = 4;
  const double load = std::max(static_cast<double>(workers) / servers, 1.0);
  const double step = 2 * way(load) + kC + workers * kApply / servers;
  BOOST_CHECK_CLOSE(step_of(bsp(servers), two_units(), server_cluster(workers, servers)), step,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(servers_on_one_node_share_its_nic_but_not_the_applying) {
  const double step = 2 * way(4) + kC + 4 * kApply / 2;
  BOOST_CHECK_CLOSE(step_of(bsp(2), two_units(), server_cluster(4, 1)), step, kPercent);
}

BOOST_AUTO_TEST_CASE(like_units_in_turn_are_as_good_as_an_even_split) {
  ParameterServer units = bsp(2);
  units.partition = ParameterServer::Partition::unit;
  const double step = 2 * way(2) + kC + 4 * kApply / 2;
  BOOST_CHECK_CLOSE(step_of(units, two_units(), server_cluster(4, 2)), step, kPercent);
}

BOOST_AUTO_TEST_CASE(unlike_units_in_turn_leave_the_load_uneven) {
  // 3 P/4 on server 0, P/4 on server 1: server 0 sends N 3/4 P.
  const Toy model = toy({{kP * 3 / 4, 3 * kMs, 6 * kMs}, {kP / 4, 4 * kMs, 7 * kMs}}, 0);
  ParameterServer units = bsp(2);
  units.partition = ParameterServer::Partition::unit;
  const double step = 2 * way(4 * 0.75) + kC + 4 * 0.75 * kApply;
  BOOST_CHECK_CLOSE(step_of(units, model, server_cluster(4, 2)), step, kPercent);
}

BOOST_AUTO_TEST_CASE(gradients_that_arrive_early_are_applied_while_the_others_compute) {
  // Worker 1 is three times slower: worker 0's gradients, alone on the NIC, are long applied when
  // its own arrive.
  const Cluster cluster = server_cluster(2);
  Schedule schedule = schedule_of(bsp(), two_units(), cluster, 2);
  schedule.ranks[1].slowdown *= 3;
  const double step = way(2) + 3 * kC + way(1) + kApply;
  const Trace trace = play(schedule, cluster);
  BOOST_CHECK_CLOSE(trace.iteration_end[0][0].value(), way(2) + kC + way(1) + kApply, kPercent);
  BOOST_CHECK_CLOSE(trace.end.value(), 2 * step, kPercent);
}

BOOST_AUTO_TEST_CASE(gradients_that_arrive_while_others_are_applied_wait_their_turn) {
  // Worker 1 comes P/nic behind worker 0 plus a bit, applying takes longer than that: both one
  // after the other from worker 0's arrival on.
  ParameterServer slow = bsp();
  slow.apply_rate = BytesPerSecond(1e8);
  const double apply = kP / 1e8, factor = 1.25;  // 5 ms behind, a push takes 4.2 ms
  const Cluster cluster = server_cluster(2);
  Schedule schedule = schedule_of(slow, two_units(), cluster);
  schedule.ranks[1].slowdown *= factor;
  BOOST_REQUIRE(way(1) < (factor - 1) * kC && (factor - 1) * kC < apply);
  BOOST_CHECK_CLOSE(play(schedule, cluster).end.value(), way(2) + kC + way(1) + 2 * apply,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(node_speeds_scale_compute_and_not_the_servers) {
  Cluster cluster = server_cluster(2);
  cluster.groups[0].node.speed = 0.5;
  BOOST_CHECK_CLOSE(step_of(bsp(), two_units(), cluster), 2 * way(2) + 2 * kC + 2 * kApply,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(a_server_on_the_worker_s_own_node_is_reached_over_pcie) {
  ParameterServer here = bsp();
  here.server_host = "worker";
  const double pcie = 2e-6 + kP / 2e10;
  BOOST_CHECK_CLOSE(step_of(here, two_units(), server_cluster(1)), 2 * pcie + kC + kApply,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(servers_live_on_the_nodes_without_gpus_unless_told_otherwise) {
  const Toy model = two_units();
  const auto node_of_server = [&](const Cluster& cluster, const std::string& host) {
    ParameterServer ps = bsp();
    ps.server_host = host;
    return build_schedule(ps, job_of(model, cluster)).ranks.back().place.node.index();
  };
  BOOST_TEST(node_of_server(server_cluster(3), "") == 3U);
  BOOST_TEST(node_of_server(server_cluster(3), "servers") == 3U);
  BOOST_TEST(node_of_server(server_cluster(3), "worker") == 0U);
  BOOST_TEST(node_of_server(star_cluster(3), "") == 0U);
}

BOOST_AUTO_TEST_CASE(nothing_to_serve_leaves_the_compute) {
  const Toy model = toy({{0, 3 * kMs, 6 * kMs}, {0, 4 * kMs, 7 * kMs}}, 0);
  BOOST_CHECK_CLOSE(trace_of(bsp(2), model, server_cluster(4, 2), 3).end.value(), 3 * kC, kPercent);
}

// ---- Backup workers ----

BOOST_AUTO_TEST_CASE(with_a_backup_worker_a_straggler_holds_up_nobody) {
  // Four workers, one ten times slower, whose pull of iteration 0 alone meets the others': after
  // that three pull, compute and push as a cluster of three would, while it still computes.
  ParameterServer backed = bsp();
  backed.backup_workers = 1;
  const Cluster cluster = server_cluster(4);
  Schedule schedule = schedule_of(backed, two_units(), cluster, 3);
  schedule.ranks[3].slowdown *= 10;
  const double first = way(4) + kC + way(3) + 3 * kApply, later = 2 * way(3) + kC + 3 * kApply;
  BOOST_REQUIRE_LT(first + 2 * later, way(4) + 10 * kC);
  const Trace trace = play(schedule, cluster);
  for (std::size_t k = 0; k < 3; ++k) {
    const double last =
        std::max({trace.iteration_end[0][k], trace.iteration_end[1][k], trace.iteration_end[2][k]})
            .value();
    BOOST_CHECK_CLOSE(last, first + static_cast<double>(k) * later, kPercent);
  }
}

BOOST_AUTO_TEST_CASE(without_backup_workers_the_straggler_sets_the_pace) {
  const Cluster cluster = server_cluster(4);
  Schedule schedule = schedule_of(bsp(), two_units(), cluster);
  schedule.ranks[3].slowdown *= 10;
  BOOST_CHECK_CLOSE(play(schedule, cluster).end.value(), way(4) + 10 * kC + way(1) + kApply,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(as_many_backup_workers_as_workers_are_an_input_error) {
  ParameterServer backed = bsp();
  backed.backup_workers = 2;
  const Cluster cluster = server_cluster(2);
  const Toy model = two_units();
  BOOST_CHECK_EXCEPTION(build_schedule(backed, job_of(model, cluster)), InputError,
                        [](const InputError& error) {
                          BOOST_TEST(error.what() ==
                                     "error: strategy.ps.backup_workers: 2 of 2 workers would "
                                     "leave none whose gradients count\n"
                                     "remedy: at most 1");
                          return true;
                        });
}

// ---- Layer by layer: p of a unit's way, a of its applying ----

struct Layers {
  double p1, p2, a1, a2;
};
Layers layers(double size1, double size2) {
  return {kNicLatency + size1 / kNic, kNicLatency + size2 / kNic, size1 / kApplyRate,
          size2 / kApplyRate};
}

ParameterServer layerwise(int servers = 1) {
  ParameterServer ps = bsp(servers);
  ps.layerwise = true;
  return ps;
}

BOOST_AUTO_TEST_CASE(layer_by_layer_only_the_first_layer_s_ways_show_beside_long_compute) {
  // p2 <= f1: pull 2 runs beside F1; p2 + a2 <= b1: push 2 and its applying beside B1.
  const double f1 = 5 * kMs, f2 = 4 * kMs, b2 = 7 * kMs, b1 = 9 * kMs;
  const Layers l = layers(kMiB, 3 * kMiB);
  BOOST_REQUIRE(l.p2 < f1 && l.p2 + l.a2 < b1);
  const double step = l.p1 + f1 + f2 + b2 + b1 + l.p1 + l.a1;
  const Toy model = toy({{kMiB, f1, b1}, {3 * kMiB, f2, b2}}, 0);
  BOOST_CHECK_CLOSE(trace_of(layerwise(), model, server_cluster(1), 3).end.value(), 3 * step,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(layer_by_layer_the_ways_queue_up_beside_short_compute) {
  // f1 <= p2, b1 <= p2: F2 waits for pull 2, push 1 for push 2; a2 <= p1: apply 2 is done when
  // gradient 1 arrives.
  const double f1 = 0.1 * kMs, f2 = 4 * kMs, b2 = 7 * kMs, b1 = 0.2 * kMs;
  const Layers l = layers(2 * kMiB, 2 * kMiB);
  BOOST_REQUIRE(f1 < l.p2 && b1 < l.p2 && l.a2 < l.p1);
  const double step = l.p1 + l.p2 + f2 + b2 + l.p2 + l.p1 + l.a1;
  const Toy model = toy({{2 * kMiB, f1, b1}, {2 * kMiB, f2, b2}}, 0);
  BOOST_CHECK_CLOSE(trace_of(layerwise(), model, server_cluster(1), 3).end.value(), 3 * step,
                    kPercent);
}

BOOST_DATA_TEST_CASE(the_most_urgent_slice_goes_first,
                     data::make({1, 2, 5}) * data::make({false, true}), slices, urgent) {
  // Unit 1 is a slice, unit 2 so many. t: a slice's way, of which f1, b1 and its applying are less.
  const double f1 = 0.1 * kMs, f2 = 4 * kMs, b2 = 7 * kMs, b1 = 0.2 * kMs, n = slices;
  const Layers l = layers(kMiB, kMiB);
  const double t = l.p1, a = l.a1;
  BOOST_REQUIRE(f1 < t && b1 < t && a < t);
  ParameterServer ps = layerwise();
  ps.slice = Bytes(kMiB);
  if (urgent) ps.scheduling = ParameterServer::Scheduling::priority;
  // B2 of the first step ends. In turn slice 1 is pushed last, and all pulls wait for its own; else
  // it follows the first slice of unit 2, and each slice is pulled as soon as it is applied.
  const double first = (n + 1) * t + f2 + b2;
  const double pulled = urgent ? std::max((n + 2) * t, 3 * t + f1) : (2 * n + 2) * t;
  const double second = first + pulled + a + f2 + b2;
  const Toy model = toy({{kMiB, f1, b1}, {n * kMiB, f2, b2}}, 0);
  BOOST_CHECK_CLOSE(trace_of(ps, model, server_cluster(1), 2).end.value(), second + (n + 1) * t + a,
                    kPercent);
}

BOOST_DATA_TEST_CASE(layer_by_layer_is_never_slower_where_latency_is_nothing,
                     data::make({1, 2, 4}) * data::make({1, 2}) * data::make({0.05, 1.0, 20.0}),
                     workers, servers, scale) {
  Cluster cluster = server_cluster(workers, servers);
  for (NodeGroup& group : cluster.groups) group.node.nic_latency = Seconds(0);
  const Toy model = toy({{kMiB, scale * kMs, 2 * scale * kMs},
                         {3 * kMiB, 2 * scale * kMs, 3 * scale * kMs},
                         {2 * kMiB, scale * kMs, scale * kMs}},
                        0);
  BOOST_TEST(step_of(layerwise(servers), model, cluster) <=
             step_of(bsp(servers), model, cluster) * (1 + 1e-9));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
