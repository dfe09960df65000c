// Jobs beside one: what they share slows both down, and nothing else of one shows in the other.
#include "schedule/other_jobs.hpp"

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "engine/clusters.hpp"
#include "engine/play.hpp"
#include "engine/random_schedules.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(other_jobs_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kS = 26214400;    // bytes
constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative

std::vector<NodeId> nodes(const std::vector<std::size_t>& indices) {
  return {indices.begin(), indices.end()};
}

Program all_reduces() {
  return one_collective(CollectiveKind::all_reduce, Bytes(kS), CollectiveAlgorithm::ring);
}

Program computes(double seconds) {
  Program program{.name = "worker", .lanes = {{"compute", LaneKind::compute}}};
  program.ops.push_back(
      {.of = "compute", .lane = LaneId(0), .work = Compute{.duration = Seconds(seconds)}});
  return program;
}

/// Two leaf switches with `leaf` nodes each, joined by one cable each way over a third switch.
Cluster two_leaves(int leaf) {
  Cluster cluster = star_cluster(2 * leaf);
  cluster.fabric = FatTree{.down = {leaf, 2},
                           .up = {1, 1},
                           .links = {1, 1},
                           .bandwidth = BytesPerSecond(kNic),
                           .latency = {}};
  return cluster;
}

// A ring of two sends S over each edge. J jobs, each with a node at both leaves, share the cable.
BOOST_DATA_TEST_CASE(jobs_share_a_cable_evenly, data::make({1, 2, 3}), jobs) {
  const auto count = static_cast<std::size_t>(jobs);
  OtherJobs others{.cluster = two_leaves(jobs), .nodes = nodes({0, count}), .jobs = {}};
  const Cluster own = part_of(others.cluster, others.nodes);
  const Schedule schedule = on_all_ranks(own, all_reduces(), 4);
  for (std::size_t job = 1; job < count; ++job)
    others.jobs.push_back({schedule, nodes({job, count + job})});
  const Trace trace = play(schedule, own, Fidelity::flow, nullptr, &others);
  BOOST_CHECK_CLOSE(trace.end.value(), 4 * (2 * kNicLatency + jobs * kS / kNic), kPercent);
  BOOST_REQUIRE_EQUAL(trace.others_iteration_end.size(), 2 * (count - 1));
  for (const auto& ends : trace.others_iteration_end) BOOST_TEST(ends.size() >= 3u);
  BOOST_CHECK_CLOSE(trace.traffic.bytes[static_cast<std::size_t>(PortKind::nic)], 4 * 2 * kS,
                    kPercent);
}

// 4 cores of one machine: 3 that compute, beside 5 others, get half of one each.
BOOST_AUTO_TEST_CASE(jobs_share_the_cores_of_one_machine) {
  OtherJobs others{.cluster = star_cluster(8), .nodes = nodes({0, 1, 2}), .jobs = {}};
  others.cluster.shared_cores = 4;
  const Schedule five =
      on_all_ranks(part_of(others.cluster, nodes({3, 4, 5, 6, 7})), computes(0.01));
  others.jobs.push_back({five, nodes({3, 4, 5, 6, 7})});
  const Cluster own = part_of(others.cluster, others.nodes);
  const Schedule three = on_all_ranks(own, computes(0.01), 5);
  BOOST_CHECK_CLOSE(play(three, own, Fidelity::flow, nullptr, &others).end.value(), 5 * 0.02,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(another_job_goes_on_as_long_and_is_cut_off) {
  OtherJobs others{.cluster = star_cluster(3), .nodes = nodes({2}), .jobs = {}};
  const auto other = [&](double seconds, std::size_t node) {
    others.jobs.push_back({on_all_ranks(star_cluster(1), computes(seconds)), nodes({node})});
  };
  other(0.0041, 0);
  other(5, 1);
  const Cluster own = part_of(others.cluster, others.nodes);
  const Trace trace =
      play(on_all_ranks(own, computes(0.01), 3), own, Fidelity::flow, nullptr, &others);
  BOOST_CHECK_CLOSE(trace.end.value(), 0.03, kPercent);
  BOOST_TEST(trace.spans.size() == 3u);
  BOOST_REQUIRE_EQUAL(trace.others_iteration_end.size(), 2u);
  BOOST_REQUIRE_EQUAL(trace.others_iteration_end[0].size(), 7u);  // of 7.3
  BOOST_CHECK_CLOSE(trace.others_iteration_end[0][6].value(), 7 * 0.0041, kPercent);
  BOOST_TEST(trace.others_iteration_end[1].empty());
}

std::vector<NodeId> all_nodes(std::size_t count, std::size_t from) {
  std::vector<NodeId> list;
  for (std::size_t i = 0; i < count; ++i) list.emplace_back(from + i);
  return list;
}

// Random schedules with queues, events, collectives and jitter, side by side on one switch: a job's
// trace is the same to the last bit as without the other.
BOOST_DATA_TEST_CASE(jobs_that_share_nothing_do_not_know_of_each_other, data::xrange(30), seed) {
  const auto number = static_cast<std::uint64_t>(seed);
  const RandomCase one = random_case(number), other = random_case(number + 1000);
  const std::size_t own = one.cluster.node_count();
  OtherJobs others{.cluster = one.cluster, .nodes = all_nodes(own, 0), .jobs = {}};
  others.cluster.groups.insert(others.cluster.groups.end(), other.cluster.groups.begin(),
                               other.cluster.groups.end());
  others.jobs.push_back({other.schedule, all_nodes(other.cluster.node_count(), own)});
  const Trace alone = play(one.schedule, one.cluster);
  const Trace beside = play(one.schedule, one.cluster, Fidelity::flow, nullptr, &others);
  BOOST_TEST(beside.end.value() == alone.end.value());
  BOOST_REQUIRE_EQUAL(beside.spans.size(), alone.spans.size());
  for (std::size_t i = 0; i < alone.spans.size(); ++i) {
    BOOST_TEST(beside.spans[i].start.value() == alone.spans[i].start.value());
    BOOST_TEST(beside.spans[i].end.value() == alone.spans[i].end.value());
  }
  BOOST_TEST((beside.iteration_end == alone.iteration_end));
  for (std::size_t kind = 0; kind < alone.traffic.bytes.size(); ++kind)  // in any order
    BOOST_CHECK_CLOSE(beside.traffic.bytes[kind] + 1, alone.traffic.bytes[kind] + 1, kPercent);
}

BOOST_AUTO_TEST_CASE(a_step_that_computes_or_sends_takes_time) {
  const Cluster own = star_cluster(2);
  const auto takes = [&](const Work& work) {
    Program program = computes(0);
    program.ops.push_back({.of = "work", .lane = LaneId(0), .work = work});
    return takes_time(on_all_ranks(own, program));
  };
  BOOST_TEST(takes(Compute{.duration = Seconds(1e-6)}));
  BOOST_TEST(!takes(Compute{.duration = Seconds(0.9e-6)}));
  BOOST_TEST(takes(Transfer{.target = RankId(0), .size = Bytes(1)}));
  BOOST_TEST(!takes(Transfer{.target = RankId(0), .size = Bytes(0)}));
  BOOST_TEST(!takes(Join{}));
}

BOOST_AUTO_TEST_CASE(a_part_of_a_cluster_keeps_the_order_and_the_kinds_of_its_nodes) {
  Cluster cluster = star_cluster(3);
  cluster.groups.push_back({"slow", 2, cluster.groups[0].node});
  cluster.groups[1].node.speed = 0.5;
  const Cluster part = part_of(cluster, nodes({4, 1, 2, 3}));
  BOOST_REQUIRE_EQUAL(part.groups.size(), 3u);
  BOOST_TEST(part.groups[0].name == "slow");
  BOOST_TEST(part.groups[0].nodes == 1);
  BOOST_TEST(part.groups[1].nodes == 2);
  BOOST_TEST(part.node(NodeId(2)).speed == 1);
  BOOST_TEST(part.node(NodeId(3)).speed == 0.5);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
