// How far hop and flow fidelity agree: exactly for rings, whatever latencies and rates their edges
// have, within stated bounds elsewhere.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(fidelity_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kMiB = 1048576;
constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative
constexpr auto kAllReduce = CollectiveKind::all_reduce;
constexpr CollectiveKind kRingKinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                         CollectiveKind::reduce_scatter};
const auto kSizes = data::make({1 * kMiB, 25 * kMiB, 256 * kMiB});

struct Shape {
  int nodes, gpus, nics;
  double nic;  // bytes per second
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    return out << shape.nodes << "x" << shape.gpus << ", " << shape.nics << " NICs of "
               << shape.nic;
  }
};

Cluster cluster_of(const Shape& shape) {
  Cluster cluster = star_cluster(shape.nodes, shape.gpus, shape.nics);
  cluster.groups[0].node.nic_bandwidth = BytesPerSecond(shape.nic);
  return cluster;
}

struct Times {
  double hop, flow;
};

Times times_of(const Cluster& cluster, CollectiveKind kind, CollectiveAlgorithm algorithm,
               double size) {
  const Schedule schedule = on_all_ranks(cluster, one_collective(kind, Bytes(size), algorithm));
  return {play(schedule, cluster, Fidelity::hop).end.value(),
          play(schedule, cluster, Fidelity::flow).end.value()};
}

// One GPU per node; NVLink alone; NVLink and NICs that are slower in latency and rate, one per node
// or one per GPU.
const auto kOneSlowestEdge = data::make(std::vector<Shape>{{7, 1, 1, kNic},
                                                           {24, 1, 1, 25e9},
                                                           {1, 8, 1, kNic},
                                                           {2, 8, 1, kNic},
                                                           {4, 8, 8, kNic},
                                                           {3, 4, 2, 25e9}});

BOOST_DATA_TEST_CASE(hop_equals_flow_for_rings_with_one_slowest_edge, kOneSlowestEdge* kSizes,
                     shape, size) {
  for (const auto kind : kRingKinds) {
    const Times times = times_of(cluster_of(shape), kind, CollectiveAlgorithm::ring, size);
    BOOST_CHECK_CLOSE(times.hop, times.flow, kPercent);
  }
}

BOOST_DATA_TEST_CASE(hop_equals_flow_for_hierarchical_and_direct, kOneSlowestEdge* kSizes, shape,
                     size) {
  for (const auto algorithm : {CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::direct}) {
    const Times times = times_of(cluster_of(shape), kAllReduce, algorithm, size);
    BOOST_CHECK_CLOSE(times.hop, times.flow, kPercent);
  }
}

// Eight NICs of 25 GB/s are wider than NVLink (100 GB/s) but five times slower to answer.
BOOST_DATA_TEST_CASE(
    hop_equals_flow_for_rings_with_unlike_edges,
    data::make(std::vector<Shape>{{2, 8, 8, 25e9}, {4, 8, 8, 25e9}, {8, 8, 8, 25e9}}) * kSizes,
    shape, size) {
  const double n = shape.nodes * shape.gpus, chunk = size / n;
  const double between = shape.nodes - 1;
  const Times times = times_of(cluster_of(shape), kAllReduce, CollectiveAlgorithm::ring, size);
  BOOST_CHECK_CLOSE(
      times.flow,
      2 * (between * kNicLatency + (n - 1 - between) * kNvlinkLatency + (n - 1) * chunk / kNvlink),
      kPercent);
  BOOST_CHECK_CLOSE(times.hop, times.flow, kPercent);
}

// --- a ring's latency: a chunk goes over every edge but one, of N nodes' edges N - 1 leave a node

BOOST_DATA_TEST_CASE(a_ring_pays_the_latencies_of_its_own_edges,
                     data::make({1, 2, 3, 64}) * data::make({1, 2, 8}), nodes, gpus) {
  if (nodes * gpus < 2) return;
  const Cluster cluster = star_cluster(nodes, gpus);
  const double around = (nodes - 1) * kNicLatency + nodes * (gpus - 1) * kNvlinkLatency;
  for (const auto kind : kRingKinds) {
    const Schedule schedule = on_all_ranks(cluster, Program{});
    const FlowPlan plan = plan_collective(kind, CollectiveAlgorithm::ring, schedule.groups[0],
                                          schedule.ranks, cluster, Fidelity::flow);
    BOOST_CHECK_CLOSE(plan.latency.value(), (kind == kAllReduce ? 2 : 1) * around, kPercent);
  }
}

BOOST_AUTO_TEST_CASE(each_message_between_nodes_costs_what_its_transport_takes) {
  Cluster cluster = star_cluster(4, 2);
  cluster.groups[0].node.transport.per_message = Seconds(28e-6);
  const Times times = times_of(cluster, CollectiveKind::all_gather, CollectiveAlgorithm::ring, 8);
  const double latency = 3 * (kNicLatency + 28e-6) + 4 * kNvlinkLatency;
  BOOST_CHECK_CLOSE(times.flow, latency + 7.0 / kNic, kPercent);
  BOOST_CHECK_CLOSE(times.hop, times.flow, kPercent);
}

// A tree of 16 chunks must be filled and drained, and every chunk pays its edge's latency: up to a
// quarter more of the bytes' time, and 16 more latencies.
BOOST_DATA_TEST_CASE(hop_takes_up_to_a_quarter_and_16_latencies_more_than_flow_for_trees,
                     data::make(std::vector<Shape>{{2, 1, 1, kNic},
                                                   {4, 1, 1, kNic},
                                                   {8, 1, 1, kNic},
                                                   {16, 1, 1, kNic},
                                                   {32, 1, 1, kNic},
                                                   {4, 1, 1, 25e9},
                                                   {32, 1, 1, 25e9},
                                                   {2, 8, 1, kNic},
                                                   {4, 8, 1, kNic},
                                                   {4, 8, 8, kNic}}) *
                         kSizes,
                     shape, size) {
  const Cluster cluster = cluster_of(shape);
  const Schedule schedule = on_all_ranks(cluster, Program{});
  const FlowPlan plan = plan_collective(kAllReduce, CollectiveAlgorithm::tree, schedule.groups[0],
                                        schedule.ranks, cluster, Fidelity::flow);
  const double bytes = size * plan.seconds_per_byte;
  const Times times = times_of(cluster, kAllReduce, CollectiveAlgorithm::tree, size);
  BOOST_CHECK_CLOSE(times.flow, plan.latency.value() + bytes, kPercent);
  BOOST_CHECK_GE(times.hop, times.flow);
  BOOST_CHECK_LE(times.hop, plan.latency.value() + 16 * kNicLatency + 1.25 * bytes);
}

// Flow: a chain that is full all the time. Hop: 16 chunks over n-1 edges, 16 + n - 2 steps of the
// slowest edge at most.
BOOST_DATA_TEST_CASE(hop_takes_up_to_n_minus_2_chunks_more_than_flow_for_broadcasts,
                     data::make(std::vector<Shape>{{2, 1, 1, kNic},
                                                   {8, 1, 1, kNic},
                                                   {32, 1, 1, kNic},
                                                   {1, 8, 1, kNic},
                                                   {2, 8, 1, kNic},
                                                   {4, 8, 1, kNic}}) *
                         kSizes,
                     shape, size) {
  const double n = shape.nodes * shape.gpus;
  const double rate = shape.nodes > 1 ? shape.nic : kNvlink;
  const double latency = shape.nodes > 1 ? kNicLatency : kNvlinkLatency;
  const double between = shape.nodes - 1;
  const double around = between * kNicLatency + (n - 1 - between) * kNvlinkLatency;
  const Times times =
      times_of(cluster_of(shape), CollectiveKind::broadcast, CollectiveAlgorithm::ring, size);
  BOOST_CHECK_CLOSE(times.flow, around + size / rate, kPercent);
  BOOST_CHECK_GE(times.hop, size / rate);
  BOOST_CHECK_LE(times.hop, (16 + n - 2) * (latency + size / 16 / rate) * (1 + 1e-9));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
