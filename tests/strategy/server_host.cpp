// How fast a parameter server goes on its host, and what it makes of a run.
#include "strategy/server/server_host.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(server_host_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kP = 4 * kMiB, kC = 20 * kMs;
/// Four threads of 18 GB/s; the host's memory lets 156 GB/s through.
constexpr double kTraffic = 4 * 18e9;

Toy one_unit() { return toy({{kP, 8 * kMs, 12 * kMs}}, 0); }
double way(double load) { return kNicLatency + load * kP / kNic; }

Cluster with_host(Cluster cluster, double host_bandwidth, std::optional<int> cores) {
  for (NodeGroup& group : cluster.groups) {
    group.node.pcie.host_bandwidth = BytesPerSecond(host_bandwidth);
    group.node.cores = cores;
  }
  return cluster;
}

void check_traffic(const HostTraffic& traffic, double low, double best, double high) {
  BOOST_CHECK_CLOSE(traffic.low.value(), low, kPercent);
  BOOST_CHECK_CLOSE(traffic.best.value(), best, kPercent);
  BOOST_CHECK_CLOSE(traffic.high.value(), high, kPercent);
}

HostTraffic traffic_of(double host_bandwidth, std::optional<int> cores, int servers = 1) {
  return host_traffic(with_host(server_cluster(1), host_bandwidth, cores), NodeId(1), servers);
}

BOOST_AUTO_TEST_CASE(a_server_moves_what_its_threads_and_its_memory_let_through) {
  check_traffic(traffic_of(1e11, std::nullopt), 12e9, 72e9, 156e9);
  check_traffic(traffic_of(1e11, 2), 12e9, 36e9, 54e9);
  check_traffic(traffic_of(1e10, std::nullopt), 12e9, 15.6e9, 15.6e9);
  check_traffic(traffic_of(5e9, 48), 7.8e9, 7.8e9, 7.8e9);
}

BOOST_AUTO_TEST_CASE(servers_of_one_host_share_its_cores_and_its_memory) {
  check_traffic(traffic_of(1e11, 2, 2), 12e9, 18e9, 27e9);
  check_traffic(traffic_of(1e11, 2, 4), 6e9, 9e9, 13.5e9);
  check_traffic(traffic_of(1e11, std::nullopt, 4), 12e9, 39e9, 39e9);
}

BOOST_AUTO_TEST_CASE(on_cores_that_all_nodes_share_a_server_has_one_thread) {
  Cluster cluster = server_cluster(1);
  cluster.shared_cores = 4;
  check_traffic(host_traffic(cluster, NodeId(1), 1), 12e9, 18e9, 27e9);
}

BOOST_AUTO_TEST_CASE(a_better_host_is_no_slower_and_its_interval_holds_its_best) {
  for (const int servers : {1, 2, 8}) {
    for (const std::optional<int> cores : {std::optional<int>(1), std::optional<int>(3),
                                           std::optional<int>(64), std::optional<int>()}) {
      HostTraffic before{};
      for (const double memory : {1e9, 8e9, 3e10, 1e11, 4e11}) {
        const HostTraffic traffic = traffic_of(memory, cores, servers);
        BOOST_TEST((traffic.low <= traffic.best && traffic.best <= traffic.high));
        BOOST_TEST((before.low <= traffic.low && before.best <= traffic.best &&
                    before.high <= traffic.high));
        const HostTraffic fewer = traffic_of(memory, 1, servers);
        BOOST_TEST((fewer.low <= traffic.low && fewer.best <= traffic.best));
        before = traffic;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_is_summed_or_stepped_with) {
  const auto moved = [](std::optional<std::uint32_t> staleness, OptimizerKind kind) {
    const ParameterServer ps{.staleness = staleness};
    return std::pair(moved_per_gradient_byte(ps, {.kind = kind}, Precision::fp32),
                     moved_per_updated_byte(ps, {.kind = kind}, Precision::fp32));
  };
  BOOST_TEST((moved(0, OptimizerKind::sgd) == std::pair(3.0, 3.0)));
  BOOST_TEST((moved(0, OptimizerKind::adam) == std::pair(3.0, 7.0)));
  BOOST_TEST((moved(std::nullopt, OptimizerKind::sgd) == std::pair(3.0, 0.0)));
  BOOST_TEST((moved(2, OptimizerKind::sgd_momentum) == std::pair(5.0, 0.0)));
  BOOST_TEST((moved(2, OptimizerKind::adamw) == std::pair(7.0, 0.0)));
  BOOST_TEST(moved_per_gradient_byte({.staleness = 1, .local_steps = 4},
                                     {.kind = OptimizerKind::adam}, Precision::fp32) == 3.0);
}

BOOST_DATA_TEST_CASE(a_synchronous_round_sums_every_gradient_and_steps_once, data::make({1, 2, 8}),
                     workers) {
  const double n = workers;
  const double sum = kP * 3 / kTraffic, update = kP * 7 / kTraffic;  // jobs.hpp: Adam
  const Trace trace = trace_of(ParameterServer{}, one_unit(), server_cluster(workers), 3);
  BOOST_CHECK_CLOSE(trace.end.value(), 3 * (2 * way(n) + kC + n * sum + update), kPercent);
}

BOOST_AUTO_TEST_CASE(without_rounds_every_gradient_is_a_step) {
  const ParameterServer ps{.staleness = std::nullopt};
  BOOST_CHECK_CLOSE(step_of(ps, one_unit(), server_cluster(1)), 2 * way(1) + kC + kP * 7 / kTraffic,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(a_given_rate_has_the_step_in_it_and_no_say_of_the_host) {
  const ParameterServer ps{.apply_rate = BytesPerSecond(2e9)};
  for (const double memory : {1e9, 1e12})
    BOOST_CHECK_CLOSE(step_of(ps, one_unit(), with_host(server_cluster(2), memory, 1)),
                      2 * way(2) + kC + 2 * kP / 2e9, kPercent);
  BOOST_TEST(derived_rates(ps, server_cluster(2), {}, Precision::fp32).empty());
}

BOOST_AUTO_TEST_CASE(unlike_hosts_are_told_apart) {
  Cluster cluster = server_cluster(2, 1);
  cluster.groups.push_back(cluster.groups.back());
  cluster.groups.back().node.cores = 1;
  const std::vector<std::string> expected = {
      "24.0 GB/s (4.00 GB/s to 52.0 GB/s) of gradients, by 4 threads in its host's memory; "
      "parameters are updated after them, at 24.0 GB/s",
      "6.00 GB/s (4.00 GB/s to 9.00 GB/s) of gradients, by 1 thread in its host's memory; "
      "parameters are updated after them, at 6.00 GB/s"};
  BOOST_TEST(derived_rates({.servers = 2}, cluster, {}, Precision::fp32) == expected,
             boost::test_tools::per_element());
}

/// When three workers have ended some iterations, on hosts that get slower.
std::vector<double> ends_on_slower_hosts(const ParameterServer& ps) {
  std::vector<double> ends;
  for (const double memory : {1e12, 1e11, 3e10, 1e10, 2e9, 2e8}) {
    const Cluster cluster = with_host(server_cluster(3, 2), memory, 8);
    ends.push_back(trace_of(ps, equal_units(3, {kP, 2 * kMs, 3 * kMs}, 0), cluster, 4).end.value());
  }
  return ends;
}

BOOST_DATA_TEST_CASE(a_slower_host_never_gives_a_faster_run,
                     data::make({1, 2, 3}) * data::make({false, true}), servers, layerwise) {
  const ParameterServer ps{.servers = servers, .layerwise = layerwise};
  const std::vector<double> ends = ends_on_slower_hosts(ps);
  for (std::size_t i = 1; i < ends.size(); ++i) BOOST_TEST(ends[i] >= ends[i - 1] * (1 - 1e-9));
}

// ---- What CPUs do beside messages ----

BOOST_DATA_TEST_CASE(a_message_costs_the_cpus_at_both_ends, data::make({1, 3}), workers) {
  // All pulls are served one by one and travel beside the serving of the next: the last of N begins
  // when N are served. Pushes come together, are taken in one by one, and then applied.
  const double n = workers, worker = kP / 4e9, server = kP / 8e8, apply = kP / 2e9;
  ParameterServer ps{.apply_rate = BytesPerSecond(2e9)};
  ps.worker_cpu_rate = BytesPerSecond(4e9);
  BOOST_CHECK_CLOSE(step_of(ps, one_unit(), server_cluster(workers)),
                    2 * way(n) + 2 * worker + kC + n * apply, kPercent);
  // Its only tensor is a message, packed at one end of the way and unpacked at the other.
  if (workers == 1) {
    ps.per_message = Seconds(3 * kMs);
    BOOST_CHECK_CLOSE(step_of(ps, one_unit(), server_cluster(1)),
                      2 * way(1) + 2 * (worker + 3 * kMs) + kC + apply, kPercent);
    ps.per_message.reset();
  }
  ps.server_cpu_rate = BytesPerSecond(8e8);  // slower than the link: pulls do not meet
  BOOST_REQUIRE_GT(server, way(1));
  const Trace trace = trace_of(ps, one_unit(), server_cluster(workers));
  double first = server + way(1) + 2 * worker + kC + way(1);  // worker 0's push is there
  double end = first;
  for (int i = 0; i < workers; ++i) end = std::max(end, first + i * server) + server + apply;
  if (workers == 1) BOOST_CHECK_CLOSE(trace.end.value(), end, kPercent);
  BOOST_CHECK_GE(trace.end.value() * (1 + 1e-9), n * (2 * server + apply) + kC);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
