// What holds for every collective, whatever the cluster: DESIGN's list of properties, each as a
// case.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>

#include "engine/clusters.hpp"
#include "engine/play.hpp"
#include "schedule/jitter.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(properties_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kS = 26214400;    // 25 MiB
constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative
constexpr auto kAllReduce = CollectiveKind::all_reduce;
constexpr auto kRing = CollectiveAlgorithm::ring;

const auto kFidelities = data::make({Fidelity::hop, Fidelity::flow});
const auto kAlgorithms =
    data::make({CollectiveAlgorithm::ring, CollectiveAlgorithm::tree,
                CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::direct});

Trace trace_of(const Cluster& cluster, CollectiveKind kind, CollectiveAlgorithm algorithm,
               Fidelity fidelity, double size = kS) {
  return play(on_all_ranks(cluster, one_collective(kind, Bytes(size), algorithm)), cluster,
              fidelity);
}

double bytes_on(const Trace& trace, PortKind kind) {
  return trace.traffic.bytes[static_cast<std::size_t>(kind)];
}

double bytes_in_all(const Trace& trace) {
  double sum = 0;
  for (const double bytes : trace.traffic.bytes) sum += bytes;
  return sum;
}

BOOST_DATA_TEST_CASE(more_bytes_take_longer, kAlgorithms* kFidelities, algorithm, fidelity) {
  double before = 0;
  for (const double size : {1e3, 1e5, 1e6, 1e7, 1e8}) {
    const double time =
        trace_of(star_cluster(4, 2), kAllReduce, algorithm, fidelity, size).end.value();
    BOOST_CHECK_GT(time, before);
    before = time;
  }
}

BOOST_DATA_TEST_CASE(more_bandwidth_is_never_slower, kAlgorithms* kFidelities, algorithm,
                     fidelity) {
  Cluster cluster = star_cluster(4, 2);
  double before = trace_of(cluster, kAllReduce, algorithm, fidelity).end.value();
  const auto faster = [&](BytesPerSecond& rate) {
    rate *= 1.7;
    const double time = trace_of(cluster, kAllReduce, algorithm, fidelity).end.value();
    BOOST_CHECK_LE(time, before * (1 + 1e-12));
    before = time;
  };
  Node& node = cluster.groups[0].node;
  for (int i = 0; i < 3; ++i) faster(node.nic_bandwidth), faster(node.nvlink->bandwidth);
}

BOOST_DATA_TEST_CASE(the_number_of_ranks_changes_the_answer, kAlgorithms* kFidelities, algorithm,
                     fidelity) {
  for (const int n : {2, 5, 12})
    BOOST_CHECK_NE(trace_of(star_cluster(n), kAllReduce, algorithm, fidelity).end.value(),
                   trace_of(star_cluster(2 * n), kAllReduce, algorithm, fidelity).end.value());
}

// Whatever the algorithm, n-1 ranks' data must come together and go out again.
BOOST_DATA_TEST_CASE(every_all_reduce_sends_2_n_minus_1_times_the_size, kAlgorithms* kFidelities,
                     algorithm, fidelity) {
  for (const int nodes : {2, 3, 4})
    for (const int gpus : {1, 4}) {
      const double n = nodes * gpus;
      BOOST_CHECK_CLOSE(
          bytes_in_all(trace_of(star_cluster(nodes, gpus, gpus), kAllReduce, algorithm, fidelity)),
          2 * (n - 1) * kS, kPercent);
    }
}

BOOST_DATA_TEST_CASE(the_other_collectives_send_n_minus_1_times_the_size, kAlgorithms* kFidelities,
                     algorithm, fidelity) {
  for (const auto kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::broadcast})
    for (const int gpus : {1, 4}) {
      const double n = 3 * gpus;
      BOOST_CHECK_CLOSE(bytes_in_all(trace_of(star_cluster(3, gpus), kind, algorithm, fidelity)),
                        (n - 1) * kS, kPercent);
    }
}

// A ring over 4 nodes of 8 has 4 edges between nodes and 28 inside.
BOOST_DATA_TEST_CASE(nvlink_and_nics_carry_each_their_own_edges_of_a_ring,
                     data::make({1, 2, 8}) * kFidelities, nics, fidelity) {
  const double per_edge = 2 * 31.0 / 32 * kS;
  const Trace trace = trace_of(star_cluster(4, 8, nics), kAllReduce, kRing, fidelity);
  BOOST_CHECK_CLOSE(bytes_on(trace, PortKind::nic), 4 * per_edge, kPercent);
  BOOST_CHECK_CLOSE(bytes_on(trace, PortKind::nvlink), 28 * per_edge, kPercent);
  BOOST_CHECK_EQUAL(bytes_on(trace, PortKind::pcie), 0);
}

// A group per local rank; slot 0 as for on_all_ranks.
Schedule on_like_local_ranks(const Cluster& cluster, Program program) {
  Schedule schedule = on_all_ranks(cluster, std::move(program));
  const auto gpus = static_cast<std::size_t>(cluster.groups[0].node.gpus);
  const std::size_t nodes = cluster.node_count();
  schedule.groups.assign(gpus, {.name = "replicas", .members = {}, .ranks = nodes, .nodes = nodes});
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    schedule.groups[r % gpus].members.emplace_back(r);
    schedule.ranks[r].groups = {GroupId(r % gpus)};
  }
  return schedule;
}

BOOST_DATA_TEST_CASE(nvlink_carries_nothing_between_nodes, kAlgorithms* kFidelities, algorithm,
                     fidelity) {
  const Cluster cluster = star_cluster(3, 4);
  const Trace trace =
      play(on_like_local_ranks(cluster, one_collective(kAllReduce, Bytes(kS), algorithm)), cluster,
           fidelity);
  BOOST_CHECK_EQUAL(bytes_on(trace, PortKind::nvlink), 0);
  BOOST_CHECK_CLOSE(bytes_on(trace, PortKind::nic), 4 * 2 * 2 * kS, kPercent);
}

BOOST_DATA_TEST_CASE(nics_carry_nothing_inside_a_node, kAlgorithms* kFidelities, algorithm,
                     fidelity) {
  const Trace trace = trace_of(star_cluster(1, 8), kAllReduce, algorithm, fidelity);
  BOOST_CHECK_EQUAL(bytes_on(trace, PortKind::nic), 0);
  BOOST_CHECK_CLOSE(bytes_on(trace, PortKind::nvlink), 2 * 7 * kS, kPercent);
}

BOOST_DATA_TEST_CASE(one_rank_sends_nothing, kAlgorithms* kFidelities, algorithm, fidelity) {
  for (const auto kind : kCollectiveKinds) {
    const Trace trace = trace_of(star_cluster(1), kind, algorithm, fidelity);
    BOOST_CHECK_EQUAL(trace.traffic.flows, 0);
    BOOST_CHECK_EQUAL(trace.end.value(), 0);
  }
}

// What a rank computes is its own affair: duration times compute_factor, in every iteration.
BOOST_AUTO_TEST_CASE(compute_takes_its_duration_times_the_rank_s_factor) {
  const Cluster cluster = star_cluster(3);
  Program program{.name = "worker", .lanes = {{"compute", LaneKind::compute}}};
  for (const bool jittered : {true, false})
    program.ops.push_back({.of = "compute",
                           .lane = LaneId(0),
                           .work = Compute{.duration = Seconds(0.01), .jittered = jittered}});
  Schedule schedule = on_all_ranks(cluster, program, 5);
  schedule.jitter = {Jitter::Distribution::exponential, 1};
  schedule.ranks[1].slowdown = 2;
  const Trace trace = play(schedule, cluster);
  BOOST_REQUIRE_EQUAL(trace.spans.size(), 3 * 5 * 2);
  for (const Span& span : trace.spans) {
    const double factor =
        span.op == OpId(0) ? compute_factor(schedule, span.rank, span.iteration) : 1;
    BOOST_CHECK_CLOSE((span.end - span.start).value(), 0.01 * factor, kPercent);
  }
}

BOOST_AUTO_TEST_CASE(measured_jitter_is_each_operation_s_own) {
  const Cluster cluster = star_cluster(3);
  Program program{.name = "worker", .lanes = {{"compute", LaneKind::compute}}};
  for (const double spread : {0.0, 0.1, 0.3})
    program.ops.push_back({.of = "compute",
                           .lane = LaneId(0),
                           .work = Compute{.duration = Seconds(0.01), .spread = spread}});
  Schedule schedule = on_all_ranks(cluster, program, 5);
  schedule.jitter = {.distribution = Jitter::Distribution::measured};
  schedule.ranks[1].slowdown = 2;
  const Trace trace = play(schedule, cluster);
  BOOST_REQUIRE_EQUAL(trace.spans.size(), 3 * 5 * 3);
  for (const Span& span : trace.spans) {
    const double factor = operation_factor(schedule, span.rank, span.op, span.iteration);
    BOOST_TEST((factor == 1) == (span.op == OpId(0)));
    const double slowdown = span.rank == RankId(1) ? 2 : 1;
    BOOST_CHECK_CLOSE((span.end - span.start).value(), 0.01 * slowdown * factor, kPercent);
  }
}

BOOST_DATA_TEST_CASE(the_same_schedule_twice_gives_the_same_bytes, kFidelities, fidelity) {
  const Cluster cluster = star_cluster(4, 4, 2);
  Program program = one_collective(kAllReduce, Bytes(kS), CollectiveAlgorithm::automatic);
  program.lanes.push_back({"compute", LaneKind::compute});
  program.ops.push_back(
      {.of = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(0.003)}});
  program.ops.front().after.push_back({OpId(1), 1});
  Schedule schedule = on_all_ranks(cluster, program, 3);
  schedule.jitter = {Jitter::Distribution::lognormal, 0.2};
  schedule.overlap_slowdown = 1.2;
  const Trace one = play(schedule, cluster, fidelity), two = play(schedule, cluster, fidelity);
  BOOST_REQUIRE_EQUAL(one.spans.size(), two.spans.size());
  BOOST_CHECK_EQUAL(std::memcmp(&one.traffic, &two.traffic, sizeof one.traffic), 0);
  BOOST_CHECK(one.iteration_end == two.iteration_end);
  for (std::size_t i = 0; i < one.spans.size(); ++i) {
    const Span &a = one.spans[i], &b = two.spans[i];
    BOOST_CHECK(a.rank == b.rank && a.op == b.op && a.iteration == b.iteration);
    BOOST_CHECK(a.ready == b.ready && a.start == b.start && a.end == b.end);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
