// Flows that stand for others: fewer are played, and nothing else changes.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/random.hpp"
#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(like_flows_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kSize = 26214400;
constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative

Trace ring_on(const Cluster& cluster, CollectiveKind kind = CollectiveKind::all_reduce) {
  return play(on_all_ranks(cluster, one_collective(kind, Bytes(kSize), CollectiveAlgorithm::ring)),
              cluster);
}

double traffic(const Trace& trace, PortKind kind) {
  return trace.traffic.bytes[static_cast<std::size_t>(kind)];
}

/// The schedule with two hosts beside it, of which one sends to the other: a transfer may meet any
/// flow, so that all are played.
std::pair<Schedule, Cluster> with_a_transfer(Schedule schedule, Cluster cluster) {
  const std::size_t nodes = cluster.node_count(), ranks = schedule.ranks.size();
  NodeGroup hosts{"hosts", 2, star_cluster(1).groups[0].node};
  hosts.node.gpus = 0;
  cluster.groups.push_back(hosts);
  Program sender{.name = "sender", .lanes = {{"wire", LaneKind::communication}}};
  sender.ops.push_back(
      {.of = "send",
       .phase = Phase::communication,
       .lane = LaneId(0),
       .work = Transfer{.source = {}, .target = RankId(ranks + 1), .size = Bytes(1e6)}});
  schedule.programs.push_back(sender);
  schedule.programs.push_back({.name = "receiver", .lanes = {{"compute", LaneKind::compute}}});
  schedule.programs.back().ops.push_back(
      {.of = "idle", .lane = LaneId(0), .work = Compute{.duration = Seconds(1e-3)}});
  for (std::size_t k = 0; k < 2; ++k)
    schedule.ranks.push_back({.program = ProgramId(schedule.programs.size() - 2 + k),
                              .place = {NodeId(nodes + k), -1},
                              .groups = {}});
  return {schedule, cluster};
}

BOOST_DATA_TEST_CASE(of_a_ring_one_flow_is_played_for_each_kind_of_port, data::make({2, 3, 64}),
                     nodes) {
  BOOST_TEST(ring_on(star_cluster(nodes)).traffic.flows == 1U);
  BOOST_TEST(ring_on(star_cluster(nodes, 8)).traffic.flows == 2U);
}

// NVLink as fast as a NIC: times would be the same if one stood for the other.
BOOST_DATA_TEST_CASE(what_one_flow_stands_for_counts_as_traffic_of_its_kind,
                     data::make({kNvlink, kNic}), rate) {
  const int nodes = 6, gpus = 4;
  Cluster cluster = star_cluster(nodes, gpus);
  cluster.groups[0].node.nvlink->bandwidth = BytesPerSecond(rate);
  const Trace trace = ring_on(cluster);
  BOOST_TEST(trace.traffic.flows == 2U);
  const double sent = 2.0 * (nodes * gpus - 1) / (nodes * gpus) * kSize;  // by each edge
  BOOST_CHECK_CLOSE(traffic(trace, PortKind::nic), nodes * sent, kPercent);
  BOOST_CHECK_CLOSE(traffic(trace, PortKind::nvlink), nodes * (gpus - 1) * sent, kPercent);
}

BOOST_AUTO_TEST_CASE(ports_of_other_rates_are_not_alike) {
  Cluster cluster = star_cluster(4);
  NodeGroup slow{"slow", 3, cluster.groups[0].node};
  slow.node.nic_bandwidth = BytesPerSecond(kNic / 4);
  cluster.groups.push_back(slow);
  const Trace trace = ring_on(cluster);
  // Fast to fast, fast to slow, slow to slow, slow to fast: classes of unlike size stay whole.
  BOOST_TEST(trace.traffic.flows > 1U);
  BOOST_CHECK_CLOSE(trace.end.value(), 12 * (kSize / 7 / (kNic / 4) + kNicLatency), kPercent);
}

BOOST_AUTO_TEST_CASE(flows_that_wait_for_others_stay) {
  const Cluster cluster = star_cluster(4, 2);
  const auto flows = [&](Fidelity fidelity) {
    return play(on_all_ranks(cluster, one_collective(CollectiveKind::all_reduce, Bytes(kSize),
                                                     CollectiveAlgorithm::hierarchical)),
                cluster, fidelity)
        .traffic.flows;
  };
  BOOST_TEST(flows(Fidelity::flow) >= 8U);
  BOOST_TEST(flows(Fidelity::hop) >= 8U);
}

/// Ranks in the world, in their node, and with those of their number on the other nodes, with
/// collectives of all three in flight at once after computations that differ by rank.
std::pair<Schedule, Cluster> random_traffic(std::uint64_t seed) {
  auto stream = random_stream(seed, "like flows");
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(stream() % static_cast<std::uint64_t>(high - low + 1));
  };
  const int gpus = between(1, 4);
  Cluster cluster = star_cluster(between(2, 5), gpus, between(1, 2));
  if (uniform01(stream) < 0.4) {
    NodeGroup slow{"slow", between(1, 3), cluster.groups[0].node};
    slow.node.nic_bandwidth = BytesPerSecond(0.4 * kNic);
    cluster.groups.push_back(slow);
  }
  const std::size_t nodes = cluster.node_count();
  Schedule schedule = on_all_ranks(cluster, {}, static_cast<std::uint32_t>(between(1, 3)));
  schedule.seed = seed;
  schedule.jitter = {Jitter::Distribution::lognormal, 0.3};
  const std::size_t first_node = 1, first_number = 1 + nodes;
  schedule.groups.resize(1 + nodes + static_cast<std::size_t>(gpus));
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    RankSpec& rank = schedule.ranks[r];
    const GroupId node(first_node + rank.place.node.index());
    const GroupId number(first_number + static_cast<std::size_t>(rank.place.gpu));
    rank.groups = {GroupId(0), node, number};
    for (const GroupId group : {node, number}) {
      schedule.groups[group.index()].members.emplace_back(r);
      ++schedule.groups[group.index()].ranks;
    }
    schedule.groups[node.index()].nodes = 1;
    ++schedule.groups[number.index()].nodes;
  }
  Program& program = schedule.programs[0];
  program.name = "worker";
  program.lanes = {{"compute", LaneKind::compute},
                   {"world", LaneKind::communication},
                   {"node", LaneKind::communication},
                   {"number", LaneKind::communication}};
  const CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                  CollectiveKind::reduce_scatter, CollectiveKind::broadcast};
  for (int i = between(2, 6); i-- > 0;) {
    program.ops.push_back({.of = "compute",
                           .lane = LaneId(0),
                           .work = Compute{.duration = Seconds(1e-2 * uniform01(stream))}});
    const auto slot = static_cast<std::uint32_t>(between(0, 2));
    const bool tree = slot == 0 && uniform01(stream) < 0.2;
    program.ops.push_back(
        {.of = "collective",
         .phase = Phase::communication,
         .lane = LaneId(1 + slot),
         .work =
             Collective{.kind = tree ? CollectiveKind::all_reduce : kinds[between(0, 3)],
                        .group = slot,
                        .size = Bytes(1e7 * (1 + uniform01(stream))),
                        .algorithm = tree ? CollectiveAlgorithm::tree : CollectiveAlgorithm::ring},
         .after = {{OpId(program.ops.size() - 1)}}});
  }
  return {schedule, cluster};
}

BOOST_DATA_TEST_CASE(times_are_those_of_all_flows, data::xrange(150), seed) {
  const auto [schedule, cluster] = random_traffic(static_cast<std::uint64_t>(seed));
  const auto [beside, larger] = with_a_transfer(schedule, cluster);
  const Trace few = play(schedule, cluster), all = play(beside, larger);
  BOOST_TEST(few.traffic.flows <= all.traffic.flows);
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
    for (std::size_t k = 0; k < schedule.iterations; ++k)
      BOOST_CHECK_CLOSE(few.iteration_end[r][k].value(), all.iteration_end[r][k].value(), kPercent);
  BOOST_CHECK_CLOSE(traffic(few, PortKind::nvlink) + 1, traffic(all, PortKind::nvlink) + 1,
                    kPercent);
  const double sent = 1e6 * schedule.iterations;  // by the host
  BOOST_CHECK_CLOSE(traffic(few, PortKind::nic) + sent, traffic(all, PortKind::nic), kPercent);
}

BOOST_AUTO_TEST_CASE(most_random_traffic_has_flows_that_are_alike) {
  int fewer = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto [schedule, cluster] = random_traffic(seed);
    const auto [beside, larger] = with_a_transfer(schedule, cluster);
    const std::uint64_t sent = schedule.iterations;
    fewer += play(schedule, cluster).traffic.flows + sent < play(beside, larger).traffic.flows;
  }
  BOOST_TEST(fewer > 10);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
