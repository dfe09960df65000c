// Collectives against their closed forms: n ranks, S bytes, rate b, latency L.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(collectives_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kS = 26214400;    // 25 MiB
constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative

double time_of(const Cluster& cluster, CollectiveKind kind, CollectiveAlgorithm algorithm,
               Fidelity fidelity, double size = kS) {
  return play(on_all_ranks(cluster, one_collective(kind, Bytes(size), algorithm)), cluster,
              fidelity)
      .end.value();
}

BOOST_DATA_TEST_CASE(ring_all_reduce_takes_2_n_minus_1_steps_of_a_chunk_each,
                     data::make({2, 3, 8, 64}) * data::make({Fidelity::hop, Fidelity::flow}), n,
                     fidelity) {
  const double expected = 2 * (n - 1) * (kS / n / kNic + kNicLatency);
  BOOST_CHECK_CLOSE(
      time_of(star_cluster(n), CollectiveKind::all_reduce, CollectiveAlgorithm::ring, fidelity),
      expected, kPercent);
}

BOOST_DATA_TEST_CASE(ring_all_gather_and_reduce_scatter_take_n_minus_1_steps,
                     data::make({2, 5, 16}) * data::make({Fidelity::hop, Fidelity::flow}), n,
                     fidelity) {
  const double expected = (n - 1) * (kS / n / kNic + kNicLatency);
  for (const auto kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter})
    BOOST_CHECK_CLOSE(time_of(star_cluster(n), kind, CollectiveAlgorithm::ring, fidelity), expected,
                      kPercent);
}

BOOST_DATA_TEST_CASE(flow_broadcast_is_a_full_pipeline, data::make({2, 4, 9}), n) {
  const double expected = (n - 1) * kNicLatency + kS / kNic;
  BOOST_CHECK_CLOSE(time_of(star_cluster(n), CollectiveKind::broadcast, CollectiveAlgorithm::ring,
                            Fidelity::flow),
                    expected, kPercent);
}

BOOST_DATA_TEST_CASE(hop_broadcast_fills_its_pipeline_of_16_chunks, data::make({2, 4, 9}), n) {
  const double expected = (16 + n - 2) * (kS / 16 / kNic + kNicLatency);
  BOOST_CHECK_CLOSE(
      time_of(star_cluster(n), CollectiveKind::broadcast, CollectiveAlgorithm::ring, Fidelity::hop),
      expected, kPercent);
}

BOOST_AUTO_TEST_CASE(send_recv_is_latency_plus_size_over_rate) {
  for (const auto fidelity : {Fidelity::hop, Fidelity::flow})
    BOOST_CHECK_CLOSE(time_of(star_cluster(2), CollectiveKind::send_recv,
                              CollectiveAlgorithm::automatic, fidelity),
                      kNicLatency + kS / kNic, kPercent);
}

// Two ranks: each tree has one edge; S/2 up one way and S/2 down it in one tree, the reverse in the
// other.
BOOST_AUTO_TEST_CASE(double_tree_on_two_ranks_moves_the_size_once_each_way) {
  BOOST_CHECK_CLOSE(time_of(star_cluster(2), CollectiveKind::all_reduce, CollectiveAlgorithm::tree,
                            Fidelity::flow),
                    2 * 1 * kNicLatency + kS / kNic, kPercent);
}

// n = 4. First tree: 1 and 3 under 2, 2 under 0. Mirrored: 2 and 0 under 1, 1 under 3. Edges at
// each node: 0: 1+1, 1: 1+3, 2: 3+1, 3: 1+1, so the busiest carries 4 halves each way; depth 2.
BOOST_AUTO_TEST_CASE(double_tree_on_four_ranks_is_bound_by_the_inner_nodes) {
  BOOST_CHECK_CLOSE(time_of(star_cluster(4), CollectiveKind::all_reduce, CollectiveAlgorithm::tree,
                            Fidelity::flow),
                    2 * 2 * kNicLatency + 4 * (kS / 2) / kNic, kPercent);
}

// Eight nodes, depth 3: inner nodes of one tree are leaves of the other, so again 4 halves.
BOOST_AUTO_TEST_CASE(double_tree_takes_twice_the_size_whatever_the_number_of_ranks) {
  for (const int n : {8, 16, 32}) {
    const double depth = std::log2(n);
    BOOST_CHECK_CLOSE(time_of(star_cluster(n), CollectiveKind::all_reduce,
                              CollectiveAlgorithm::tree, Fidelity::flow),
                      2 * depth * kNicLatency + 2 * kS / kNic, kPercent);
  }
}

// Four GPUs in a chain of 3 us and two in one of 10 us: the slowest chain and one step between
// nodes, up and down, whichever node stands first.
BOOST_AUTO_TEST_CASE(a_trees_latency_is_that_of_its_slowest_chain) {
  const auto latency = [](const std::vector<std::pair<int, double>>& nodes) {
    Cluster cluster = star_cluster(1);
    cluster.groups.clear();
    for (const auto& [gpus, us] : nodes) {
      Node node = star_cluster(1, gpus).groups.front().node;
      node.nvlink->latency = Seconds(us * 1e-6);
      cluster.groups.push_back({std::to_string(gpus), 1, node});
    }
    const Schedule schedule = on_all_ranks(cluster, Program{});
    return plan_collective(CollectiveKind::all_reduce, CollectiveAlgorithm::tree,
                           schedule.groups[0], schedule.ranks, cluster, Fidelity::flow)
        .latency.value();
  };
  for (const auto& nodes : {std::vector{std::pair(4, 1.0), std::pair(2, 10.0)},
                            std::vector{std::pair(2, 10.0), std::pair(4, 1.0)}})
    BOOST_CHECK_CLOSE(latency(nodes), 2 * (10e-6 + kNicLatency), kPercent);
  BOOST_CHECK_CLOSE(latency({{4, 4.0}, {2, 10.0}}), 2 * (12e-6 + kNicLatency), kPercent);
}

BOOST_DATA_TEST_CASE(hierarchical_all_reduce_is_two_rings_and_one_across,
                     data::make({Fidelity::hop, Fidelity::flow}), fidelity) {
  const int nodes = 4, gpus = 8, nics = 8;
  const double inside = 7 * (kS / 8 / kNvlink + kNvlinkLatency);
  const double across = 2 * 3 * (kS / 8 / 4 / kNic + kNicLatency);
  BOOST_CHECK_CLOSE(time_of(star_cluster(nodes, gpus, nics), CollectiveKind::all_reduce,
                            CollectiveAlgorithm::hierarchical, fidelity),
                    2 * inside + across, kPercent);
}

BOOST_AUTO_TEST_CASE(hierarchical_rings_share_a_single_nic) {
  const double inside = 7 * (kS / 8 / kNvlink + kNvlinkLatency);
  const double across = 2 * 3 * kNicLatency + 8 * (2 * 3.0 / 4) * (kS / 8) / kNic;
  BOOST_CHECK_CLOSE(time_of(star_cluster(4, 8, 1), CollectiveKind::all_reduce,
                            CollectiveAlgorithm::hierarchical, Fidelity::flow),
                    2 * inside + across, kPercent);
}

BOOST_AUTO_TEST_CASE(direct_all_gather_takes_one_step) {
  for (const auto fidelity : {Fidelity::hop, Fidelity::flow})
    BOOST_CHECK_CLOSE(
        time_of(star_cluster(6), CollectiveKind::all_gather, CollectiveAlgorithm::direct, fidelity),
        kNicLatency + 5.0 / 6 * kS / kNic, kPercent);
}

BOOST_AUTO_TEST_CASE(direct_all_reduce_scatters_then_gathers) {
  for (const auto fidelity : {Fidelity::hop, Fidelity::flow})
    BOOST_CHECK_CLOSE(
        time_of(star_cluster(6), CollectiveKind::all_reduce, CollectiveAlgorithm::direct, fidelity),
        2 * (kNicLatency + 5.0 / 6 * kS / kNic), kPercent);
}

// Ring over two nodes of eight GPUs: the node boundary is striped over as many NICs as the node
// has.
BOOST_DATA_TEST_CASE(ring_between_nodes_uses_every_nic, data::make({1, 2, 4, 8}), nics) {
  // Of the ring's 16 edges a chunk goes over 15: all 14 inside the nodes and one between them.
  const double expected =
      2 * (kNicLatency + 14 * kNvlinkLatency) + 2 * 15.0 / 16 * kS / (nics * kNic);
  BOOST_CHECK_CLOSE(time_of(star_cluster(2, 8, nics), CollectiveKind::all_reduce,
                            CollectiveAlgorithm::ring, Fidelity::flow),
                    expected, kPercent);
}

BOOST_AUTO_TEST_CASE(a_single_rank_sends_nothing_and_takes_no_time) {
  const Cluster cluster = star_cluster(1);
  for (const auto kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::broadcast}) {
    const Trace trace = play(
        on_all_ranks(cluster, one_collective(kind, Bytes(kS), CollectiveAlgorithm::ring)), cluster);
    BOOST_CHECK_EQUAL(trace.end.value(), 0);
    BOOST_CHECK_EQUAL(trace.traffic.flows, 0);
  }
}

// Automatic is the ring for large sizes (2(n-1)/n S/b against 2 S/b) and the tree for small ones
// (fewer latencies).
BOOST_AUTO_TEST_CASE(automatic_is_never_slower_than_ring_or_tree) {
  for (const double size : {1e3, 1e5, 1e7, 1e9}) {
    const auto time = [&](CollectiveAlgorithm algorithm) {
      return time_of(star_cluster(16), CollectiveKind::all_reduce, algorithm, Fidelity::flow, size);
    };
    BOOST_CHECK_CLOSE(time(CollectiveAlgorithm::automatic),
                      std::min(time(CollectiveAlgorithm::ring), time(CollectiveAlgorithm::tree)),
                      kPercent);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
