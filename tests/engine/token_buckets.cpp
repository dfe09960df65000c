// Bursts: of S bytes over an idle link of rate r with a bucket of B tokens min(S, B) pass at once.
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/bond.hpp"
#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(token_buckets_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kB = 131072;      // 128 KiB
constexpr double kS = 1e6;         // bytes
constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative

const auto kFidelities = data::make({Fidelity::hop, Fidelity::flow});

/// One-GPU nodes with a bucket; without latency nothing refills between two messages.
Cluster burst_cluster(int nodes, double burst = kB, double latency = 0) {
  Cluster cluster = star_cluster(nodes);
  cluster.groups[0].node.nic_burst = Bytes(burst);
  cluster.groups[0].node.nic_latency = Seconds(latency);
  return cluster;
}

struct Message {
  std::size_t source, target;
  double size;      // bytes
  double wait = 0;  // seconds before it
};

/// How long each message takes; rank 0 has all of them sent, one after the other.
std::vector<double> times_of(const std::vector<Message>& messages, const Cluster& cluster) {
  Program driver{.name = "driver", .lanes = {{"send", LaneKind::communication}}};
  for (const Message& message : messages) {
    driver.ops.push_back(
        {.of = "wait", .lane = LaneId(0), .work = Compute{.duration = Seconds(message.wait)}});
    driver.ops.push_back(
        {.of = "send",
         .lane = LaneId(0),
         .work = Transfer{RankId(message.source), RankId(message.target), Bytes(message.size)}});
  }
  Schedule schedule = on_all_ranks(cluster, Program{.name = "others"});
  schedule.programs.push_back(driver);
  schedule.ranks[0].program = ProgramId(1);
  std::vector<double> times;
  for (const Span& span : play(schedule, cluster).spans)
    if (span.op.index() % 2 == 1) times.push_back((span.end - span.start).value());
  return times;
}

void check_times(const std::vector<double>& actual, const std::vector<double>& expected) {
  BOOST_REQUIRE_EQUAL(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    BOOST_CHECK_SMALL(actual[i] - expected[i], 1e-9 * kS / kNic);
}

BOOST_DATA_TEST_CASE(a_burst_passes_at_once_and_the_rest_at_the_rate,
                     data::make({0.0, kB, 2 * kB, kS, 2 * kS}), burst) {
  const double expected = std::max(kS - burst, 0.0) / kNic + kNicLatency;
  check_times(times_of({{0, 1, kS}}, burst_cluster(2, burst, kNicLatency)), {expected});
}

BOOST_AUTO_TEST_CASE(what_follows_at_once_gets_no_burst) {
  check_times(times_of({{0, 1, kS}, {0, 1, kS}}, burst_cluster(2)), {(kS - kB) / kNic, kS / kNic});
  // A message within the burst leaves what it did not need.
  check_times(times_of({{0, 1, 0.75 * kB}, {0, 1, kB}}, burst_cluster(2)), {0, 0.75 * kB / kNic});
}

BOOST_DATA_TEST_CASE(an_idle_link_fills_its_bucket_at_its_rate,
                     data::make({0.0, 0.25, 0.5, 1.0, 3.0}), filled) {
  const double gap = filled * kB / kNic, burst = std::min(1.0, filled) * kB;
  check_times(times_of({{0, 1, kS}, {0, 1, kS, gap}}, burst_cluster(2)),
              {(kS - kB) / kNic, (kS - burst) / kNic});
  // A message's latency is such a gap.
  const Cluster far = burst_cluster(2, kB, gap);
  check_times(times_of({{0, 1, kS}, {0, 1, kS}}, far),
              {gap + (kS - kB) / kNic, gap + (kS - burst) / kNic});
}

BOOST_AUTO_TEST_CASE(both_ends_must_have_tokens_and_both_pay) {
  const double burst = (kS - kB) / kNic, plain = kS / kNic;
  const Cluster cluster = burst_cluster(4);
  // The second has no tokens to send and leaves those to receive it to the third.
  check_times(times_of({{0, 1, kS}, {0, 2, kS}, {3, 2, kS}}, cluster), {burst, plain, burst});
  check_times(times_of({{0, 1, kS}, {3, 1, kS}}, cluster), {burst, plain});
  // Directions are apart, and so are other nodes.
  check_times(times_of({{0, 1, kS}, {1, 0, kS}, {2, 3, kS}}, cluster), {burst, burst, burst});
  Cluster unlike = burst_cluster(1);
  unlike.groups.push_back({"small", 1, unlike.groups[0].node});
  unlike.groups[1].node.nic_burst = Bytes(kB / 4);
  check_times(times_of({{0, 1, kS}, {1, 0, kS}}, unlike),
              {(kS - kB / 4) / kNic, (kS - kB / 4) / kNic});
}

// 0 to 1 empties 0's bucket; then S/2 to a node of a fifth of the rate use a fifth of 0's, and 2 S
// of tokens come back.
BOOST_DATA_TEST_CASE(what_a_flow_that_is_slow_elsewhere_leaves_fills_the_bucket,
                     data::make({0.5, 1.0, 4.0}), burst_of_size) {
  const double burst = burst_of_size * kS;
  Cluster cluster = burst_cluster(2, burst);
  cluster.groups.push_back({"slow", 1, cluster.groups[0].node});
  cluster.groups[1].node.nic_bandwidth = BytesPerSecond(kNic / 5);
  cluster.groups[1].node.nic_burst = Bytes(0);
  check_times(
      times_of({{0, 1, 5 * kS}, {0, 2, kS / 2}, {0, 1, 5 * kS}}, cluster),
      {(5 * kS - burst) / kNic, 2.5 * kS / kNic, (5 * kS - std::min(burst, 2 * kS)) / kNic});
}

// From 0 to 1 over cables of half the NICs' rate, which let the same pass at once, or less, or
// nothing; and again when a gap has filled the cables' buckets, though not the NICs'.
BOOST_DATA_TEST_CASE(cables_have_buckets_of_their_own, data::make({0.0, 0.5, 1.0, 2.0}), share) {
  const double burst = share * kB;
  Cluster cluster = burst_cluster(2, kB);
  FatTree tree{
      .down = {2}, .up = {1}, .links = {1}, .bandwidth = BytesPerSecond(kNic / 2), .latency = {}};
  cluster.fabric = tree;
  const double at_once = std::min(burst, kB), rate = kNic / 2;
  check_times(times_of({{0, 1, kS}}, cluster), {(kS - kB) / rate});
  tree.burst = Bytes(burst);
  cluster.fabric = tree;
  const double gap = at_once / rate;
  check_times(times_of({{0, 1, kS}, {0, 1, kS}, {0, 1, kS, gap}}, cluster),
              {(kS - at_once) / rate, (kS - std::max(0.0, burst - kB)) / rate,
               (kS - std::min(burst, at_once)) / rate});
}

// Both share the NIC: 2 S - B bytes at its rate in all, the first without its burst at half of it.
BOOST_AUTO_TEST_CASE(of_flows_that_start_together_the_first_takes_the_tokens) {
  const Cluster cluster = burst_cluster(3);
  Program program{.name = "driver", .lanes = {{"a"}, {"b"}}};
  for (std::size_t i = 0; i < 2; ++i)
    program.ops.push_back(
        {.of = "send", .lane = LaneId(i), .work = Transfer{{}, RankId(i + 1), Bytes(kS)}});
  Schedule schedule = on_all_ranks(cluster, Program{.name = "others"});
  schedule.programs.push_back(program);
  schedule.ranks[0].program = ProgramId(1);
  const Trace trace = play(schedule, cluster);
  BOOST_REQUIRE_EQUAL(trace.spans.size(), 2);
  BOOST_CHECK_CLOSE(trace.spans[0].end.value(), 2 * (kS - kB) / kNic, kPercent);
  BOOST_CHECK_CLOSE(trace.spans[1].end.value(), (2 * kS - kB) / kNic, kPercent);
}

double all_reduce_on(const Cluster& cluster, Fidelity fidelity,
                     CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring) {
  return play(on_all_ranks(cluster,
                           one_collective(CollectiveKind::all_reduce, Bytes(kS), algorithm)),
              cluster, fidelity)
      .end.value();
}

BOOST_DATA_TEST_CASE(a_ring_at_flow_fidelity_bursts_once, data::make({2, 3, 8}), nodes) {
  const double edge = 2.0 * (nodes - 1) / nodes * kS, latency = 2 * (nodes - 1) * kNicLatency;
  BOOST_CHECK_CLOSE(all_reduce_on(burst_cluster(nodes, kB, kNicLatency), Fidelity::flow),
                    latency + (edge - kB) / kNic, kPercent);
  BOOST_CHECK_CLOSE(all_reduce_on(burst_cluster(nodes, 4 * kS, kNicLatency), Fidelity::flow),
                    latency, kPercent);
}

// Each step's latency fills the bucket a little.
BOOST_DATA_TEST_CASE(a_ring_at_hop_fidelity_bursts_step_by_step,
                     data::make({2, 3, 8}) * data::make({kB / 64, kB, 4 * kB}), nodes, burst) {
  double time = 0, tokens = burst;
  for (int step = 0; step < 2 * (nodes - 1); ++step) {
    const double chunk = kS / nodes, at_once = std::min(chunk, tokens);
    time += kNicLatency + (chunk - at_once) / kNic;
    tokens = std::min(burst, tokens - at_once + kNicLatency * kNic);
  }
  BOOST_CHECK_CLOSE(all_reduce_on(burst_cluster(nodes, burst, kNicLatency), Fidelity::hop), time,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(every_nic_of_a_node_has_a_bucket_bonded_or_not) {
  // Three nodes of two GPUs and two NICs: 10/6 S over each edge, half of it through each NIC.
  Cluster cluster = star_cluster(3, 2, 2);
  cluster.groups[0].node.nic_burst = Bytes(kB);
  const double latency = 2 * (2 * kNicLatency + 3 * kNvlinkLatency);
  const double expected = latency + (10.0 / 6 * kS / 2 - kB) / kNic;
  BOOST_CHECK_CLOSE(all_reduce_on(cluster, Fidelity::flow), expected, kPercent);
  const Schedule schedule = on_all_ranks(
      cluster, one_collective(CollectiveKind::all_reduce, Bytes(kS), CollectiveAlgorithm::ring));
  const Node bonded = with_bonded_nics(schedule, cluster).groups[0].node;
  BOOST_CHECK_EQUAL(bonded.nics, 1);
  BOOST_CHECK_EQUAL(bonded.nic_burst.value(), 2 * kB);
  // A group that is made of the same nodes twice, the second with another burst, keeps its NICs.
  cluster.groups.push_back(cluster.groups[0]);
  cluster.groups[1].node.nic_burst = Bytes(0);
  BOOST_CHECK_EQUAL(with_bonded_nics(schedule, cluster).groups[0].node.nics, 2);
}

BOOST_DATA_TEST_CASE(nothing_bursts_inside_a_node, kFidelities, fidelity) {
  Cluster cluster = star_cluster(1, 4);
  const double plain = all_reduce_on(cluster, fidelity);
  cluster.groups[0].node.nic_burst = Bytes(kB);
  BOOST_CHECK_EQUAL(all_reduce_on(cluster, fidelity), plain);
}

BOOST_DATA_TEST_CASE(a_larger_burst_is_never_slower,
                     data::make({CollectiveAlgorithm::ring, CollectiveAlgorithm::tree,
                                 CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::direct}) *
                         kFidelities,
                     algorithm, fidelity) {
  Cluster cluster = star_cluster(4, 2);
  double before = all_reduce_on(cluster, fidelity, algorithm);
  for (const double burst : {1e3, 1e4, 1e5, 1e6, 1e7}) {
    cluster.groups[0].node.nic_burst = Bytes(burst);
    const double time = all_reduce_on(cluster, fidelity, algorithm);
    BOOST_CHECK_LE(time, before * (1 + 1e-12));
    before = time;
  }
}

BOOST_AUTO_TEST_CASE(all_bytes_count_as_traffic_those_that_burst_too) {
  const auto bytes_on = [](const Cluster& cluster) {
    const Schedule schedule = on_all_ranks(
        cluster, one_collective(CollectiveKind::all_reduce, Bytes(kS), CollectiveAlgorithm::ring));
    return play(schedule, cluster).traffic.bytes[static_cast<std::size_t>(PortKind::nic)];
  };
  BOOST_CHECK_EQUAL(bytes_on(burst_cluster(3)), bytes_on(burst_cluster(3, 0)));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
