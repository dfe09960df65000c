// Nodes as a parameter server's workers (aggregate: node): N nodes of G GPUs on NVLink. Sums and
// shares inside a node are rings: G - 1 steps of P/G.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "predict/server_updates.hpp"
#include "report/report.hpp"
#include "report/update_log.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(node_workers_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kP = 4 * kMiB, kApplyRate = 2e9, kApply = kP / kApplyRate, kC = 20 * kMs;

Toy one_unit() { return toy({{kP, 8 * kMs, 12 * kMs}}, 0); }
double way(double load) { return kNicLatency + load * kP / kNic; }
/// A reduce_scatter, or an all_gather, of P among the GPUs of a node.
double in_node(int gpus, double size = kP) {
  return gpus > 1 ? (gpus - 1) * (kNvlinkLatency + size / gpus / kNvlink) : 0;
}

ParameterServer by_node(std::optional<std::uint32_t> staleness = 0) {
  return {.staleness = staleness,
          .apply_rate = BytesPerSecond(kApplyRate),
          .aggregate = ParameterServer::Aggregate::node};
}

Cluster nodes_and_server(int nodes, int gpus, int servers = 1) {
  Cluster cluster = star_cluster(nodes, gpus);
  Node server = cluster.groups.front().node;
  server.gpus = 0;
  server.nvlink.reset();
  cluster.groups.push_back({"servers", servers, server});
  return cluster;
}

BOOST_DATA_TEST_CASE(a_step_sums_in_the_node_and_pushes_once,
                     data::make({1, 2, 3}) * data::make({1, 2, 4, 8}), nodes, gpus) {
  const double n = nodes;
  const double step = way(n) + in_node(gpus) + kC + in_node(gpus) + way(n) + n * kApply;
  const Trace trace = trace_of(by_node(), one_unit(), nodes_and_server(nodes, gpus), 3);
  BOOST_CHECK_CLOSE(trace.end.value(), 3 * step, kPercent);
}

BOOST_DATA_TEST_CASE(the_nics_carry_a_share_of_what_every_gpu_would_send, data::make({2, 4, 8}),
                     gpus) {
  const auto bytes = [&](ParameterServer::Aggregate aggregate) {
    ParameterServer ps = by_node();
    ps.aggregate = aggregate;
    const Trace trace = trace_of(ps, one_unit(), nodes_and_server(2, gpus), 2);
    return trace.traffic.bytes[static_cast<std::size_t>(PortKind::nic)];
  };
  BOOST_CHECK_CLOSE(bytes(ParameterServer::Aggregate::node),
                    bytes(ParameterServer::Aggregate::none) / gpus, kPercent);
  BOOST_CHECK_CLOSE(bytes(ParameterServer::Aggregate::node), 2.0 * 2 * 2 * kP, kPercent);
}

BOOST_AUTO_TEST_CASE(one_gpu_to_a_node_is_the_same_worker_either_way) {
  ParameterServer alone = by_node();
  alone.aggregate = ParameterServer::Aggregate::none;
  BOOST_TEST(step_of(by_node(), one_unit(), nodes_and_server(3, 1)) ==
             step_of(alone, one_unit(), nodes_and_server(3, 1)));
}

BOOST_AUTO_TEST_CASE(gpus_of_a_node_stay_in_step_and_nodes_do_not) {
  // A slow GPU holds up the others of its node alone.
  const Cluster cluster = nodes_and_server(2, 2);
  Schedule schedule = schedule_of(by_node(std::nullopt), one_unit(), cluster, 6);
  schedule.ranks[1].slowdown *= 3;
  const Trace trace = play(schedule, cluster);
  // GPUs 1 and 3 have nothing to push.
  BOOST_CHECK_SMALL(trace.iteration_end[0].back().value() - trace.iteration_end[1].back().value() -
                        way(1) - kApply,
                    kP / kNic + kApply);
  BOOST_CHECK_LT(trace.iteration_end[2].back().value(),
                 0.5 * trace.iteration_end[0].back().value());
}

BOOST_AUTO_TEST_CASE(a_node_s_push_is_one_update) {
  const Cluster cluster = nodes_and_server(4, 4);
  Schedule schedule = schedule_of(by_node(std::nullopt), one_unit(), cluster, 50);
  schedule.jitter = {.distribution = Jitter::Distribution::exponential, .cv = 0.5};
  const Trace trace = play(schedule, cluster);
  const std::vector<Update> log = update_log(schedule, trace);
  BOOST_TEST(log.size() == 4u * 50u);
  // Among four like workers an update misses those of the three others.
  double sum = 0, count = 0;
  for (const Update& update : log) {
    BOOST_TEST(update.worker.index() % 4 == 0u);
    if (update.iteration < 10 || update.iteration >= 40) continue;
    sum += update.staleness;
    ++count;
  }
  BOOST_TEST(std::abs(sum / count - 3) < 0.3);
  const RunUpdates run = server_updates(schedule, trace, by_node(std::nullopt), 0);
  BOOST_TEST(run.workers == 4u);
  for (const AppliedUpdate& update : run.updates) BOOST_TEST(update.worker < 4u);
}

BOOST_AUTO_TEST_CASE(a_synchronous_log_names_nodes) {
  const Cluster cluster = nodes_and_server(3, 2);
  const Schedule schedule = schedule_of(by_node(), one_unit(), cluster, 4);
  const RunUpdates run = server_updates(schedule, play(schedule, cluster), by_node(), 0);
  BOOST_TEST(run.workers == 3u);
  BOOST_REQUIRE(run.updates.size() == 3u * 4u);
  for (std::size_t i = 0; i < run.updates.size(); ++i) BOOST_TEST(run.updates[i].worker == i % 3);
}

BOOST_AUTO_TEST_CASE(a_bound_holds_between_nodes) {
  const Cluster cluster = nodes_and_server(3, 2);
  Schedule schedule = schedule_of(by_node(1), one_unit(), cluster, 20);
  schedule.ranks[0].slowdown *= 2;
  std::uint32_t most = 0;
  for (const Update& update : update_log(schedule, play(schedule, cluster)))
    most = std::max(most, update.staleness);
  BOOST_TEST(most <= (3u - 1) * (2 * 1 + 1));
  BOOST_TEST(most > 0u);
}

BOOST_AUTO_TEST_CASE(backup_workers_are_nodes) {
  ParameterServer backed = by_node();
  backed.backup_workers = 1;
  const Cluster cluster = nodes_and_server(2, 4);
  Schedule schedule = schedule_of(backed, one_unit(), cluster);
  schedule.ranks[6].slowdown *= 10;  // of node 1
  const Trace trace = play(schedule, cluster);
  BOOST_CHECK_CLOSE(trace.iteration_end[0][0].value(),
                    way(2) + in_node(4) + kC + in_node(4) + way(1) + kApply, kPercent);
  backed.backup_workers = 2;
  const Toy model = one_unit();
  BOOST_CHECK_THROW(build_schedule(backed, job_of(model, cluster)), InputError);
}

BOOST_AUTO_TEST_CASE(layer_by_layer_each_is_summed_as_its_gradients_are_there) {
  // Both units' sums and ways hide beside the other's compute but the first unit's.
  ParameterServer ps = by_node();
  ps.layerwise = true;
  const double q = kP / 8, f = 5 * kMs, b = 9 * kMs;
  const double one = kNicLatency + q / kNic, sum = in_node(4, q), apply = q / kApplyRate;
  BOOST_REQUIRE_LT(one + sum, f);
  BOOST_REQUIRE_LT(one + sum + apply, b);
  const Toy model = toy({{q, f, b}, {q, f, b}}, 0);
  BOOST_CHECK_CLOSE(step_of(ps, model, nodes_and_server(1, 4)),
                    one + sum + 2 * f + 2 * b + sum + one + apply, kPercent);
}

BOOST_AUTO_TEST_CASE(a_server_keeps_a_gradient_of_each_node) {
  const Schedule schedule = schedule_of(by_node(), one_unit(), nodes_and_server(3, 4));
  std::size_t gradients = 0;
  for (const std::string& owner : schedule.programs.back().owners)
    gradients += owner.starts_with("gradients of worker");
  BOOST_TEST(gradients == 3u);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
