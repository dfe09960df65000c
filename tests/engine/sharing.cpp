// What runs at the same time: on one NIC, on one rank, on one fabric.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
namespace {

namespace data = boost::unit_test::data;

constexpr double kS = 26214400;    // 25 MiB
constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative

double end_of(const Trace& trace, std::size_t rank, std::size_t op = 0) {
  for (const Span& span : trace.spans)
    if (span.rank == RankId(rank) && span.op == OpId(op)) return span.end.value();
  return -1;
}

// Two nodes of two GPUs behind one NIC each; GPU 0 of both nodes all_reduces S1, GPU 1 of both S2 >
// S1. A ring of two sends S over each edge. Both at b/2 until S1 is over at 2 S1/b, then the rest
// of S2 at b.
BOOST_DATA_TEST_CASE(two_collectives_on_one_nic_share_it, data::make({1.0, 2.0, 7.5}), ratio) {
  const Cluster cluster = star_cluster(2, 2);
  const auto all_reduce = [](double size) {
    return one_collective(CollectiveKind::all_reduce, Bytes(size), CollectiveAlgorithm::ring);
  };
  Schedule schedule = on_all_ranks(cluster, all_reduce(kS));
  schedule.programs.push_back(all_reduce(ratio * kS));
  schedule.groups = {{.name = "first", .members = {RankId(0), RankId(2)}, .ranks = 2, .nodes = 2},
                     {.name = "second", .members = {RankId(1), RankId(3)}, .ranks = 2, .nodes = 2}};
  for (const std::size_t r : {1, 3})
    schedule.ranks[r].program = ProgramId(1), schedule.ranks[r].groups = {GroupId(1)};
  const Trace trace = play(schedule, cluster);
  BOOST_CHECK_CLOSE(end_of(trace, 0), 2 * kNicLatency + 2 * kS / kNic, kPercent);
  BOOST_CHECK_CLOSE(end_of(trace, 1), 2 * kNicLatency + (1 + ratio) * kS / kNic, kPercent);
}

// Into one port of rate b come a flow from a port of b/5 and one from a port of b: max-min gives
// b/5 and 4b/5.
BOOST_AUTO_TEST_CASE(a_flow_that_is_slow_elsewhere_leaves_the_rest_to_the_others) {
  Cluster cluster = star_cluster(2);
  NodeGroup slow{"slow", 1, cluster.groups[0].node};
  slow.node.nic_bandwidth = BytesPerSecond(kNic / 5);
  cluster.groups.push_back(slow);
  Program sends{.name = "sender", .lanes = {{"send", LaneKind::communication}}};
  sends.ops.push_back(
      {.label = "send", .lane = LaneId(0), .work = Transfer{{}, RankId(0), Bytes(kS)}});
  Schedule schedule = on_all_ranks(cluster, Program{.name = "receiver"});
  schedule.programs.push_back(sends);
  schedule.ranks[1].program = schedule.ranks[2].program = ProgramId(1);
  const Trace trace = play(schedule, cluster);
  BOOST_CHECK_CLOSE(end_of(trace, 1), kNicLatency + kS / (0.8 * kNic), kPercent);
  BOOST_CHECK_CLOSE(end_of(trace, 2), kNicLatency + kS / (0.2 * kNic), kPercent);
}

// 10 ms of compute beside a collective of 4 ms: 4/1.5 ms of it are done in those 4 ms.
BOOST_AUTO_TEST_CASE(compute_is_slowed_while_a_collective_runs_and_only_then) {
  const Cluster cluster = star_cluster(2);
  const double size = (4e-3 - 2 * kNicLatency) * kNic;
  Program program =
      one_collective(CollectiveKind::all_reduce, Bytes(size), CollectiveAlgorithm::ring);
  program.lanes.push_back({"compute", LaneKind::compute});
  for (int i = 0; i < 2; ++i)
    program.ops.push_back(
        {.label = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(0.01)}});
  Schedule schedule = on_all_ranks(cluster, program);
  schedule.overlap_slowdown = 1.5;
  const Trace trace = play(schedule, cluster);
  const double first = 0.004 + (0.010 - 0.004 / 1.5);
  BOOST_CHECK_CLOSE(end_of(trace, 0, 0), 0.004, kPercent);
  BOOST_CHECK_CLOSE(end_of(trace, 0, 1), first, kPercent);
  BOOST_CHECK_CLOSE(end_of(trace, 0, 2), first + 0.010, kPercent);
}

// What had been expected of the compute while it was slowed, 15 ms, is not when the run ends.
BOOST_AUTO_TEST_CASE(a_run_ends_with_its_last_operation) {
  const Cluster cluster = star_cluster(2);
  const double size = (4e-3 - 2 * kNicLatency) * kNic;
  Program program =
      one_collective(CollectiveKind::all_reduce, Bytes(size), CollectiveAlgorithm::ring);
  program.lanes.push_back({"compute", LaneKind::compute});
  program.ops.push_back(
      {.label = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(0.01)}});
  Schedule schedule = on_all_ranks(cluster, program);
  schedule.overlap_slowdown = 1.5;
  BOOST_CHECK_CLOSE(play(schedule, cluster).end.value(), 0.004 + (0.010 - 0.004 / 1.5), kPercent);
}

// Two levels of switches, 4 x 4 nodes, `up` cables up from each leaf switch. Every node sends to
// the one 4 further on, which is under the next leaf switch: 4 flows over `up` cables.
Cluster fat_tree(int up) {
  Cluster cluster = star_cluster(16);
  cluster.fabric = FatTree{.down = {4, 4},
                           .up = {1, up},
                           .links = {1, 1},
                           .bandwidth = BytesPerSecond(kNic),
                           .latency = {}};
  return cluster;
}

Schedule shift_by_four(const Cluster& cluster) {
  Program program{
      .name = "worker",
      .lanes = {{"send", LaneKind::communication}, {"receive", LaneKind::communication}}};
  for (std::size_t slot = 0; slot < 2; ++slot)
    program.ops.push_back(
        {.label = slot == 0 ? "send" : "receive",
         .lane = LaneId(slot),
         .work = Collective{.kind = CollectiveKind::send_recv, .group = slot, .size = Bytes(kS)}});
  Schedule schedule = on_all_ranks(cluster, program);
  const std::size_t n = schedule.ranks.size();
  schedule.groups.clear();
  for (std::size_t r = 0; r < n; ++r) {
    schedule.groups.push_back(
        {.name = "pair", .members = {RankId(r), RankId((r + 4) % n)}, .ranks = 2, .nodes = 2});
    schedule.ranks[r].groups = {GroupId(r), GroupId((r + n - 4) % n)};
  }
  return schedule;
}

BOOST_DATA_TEST_CASE(an_oversubscribed_fat_tree_slows_a_permutation_by_its_factor,
                     data::make({4, 2, 1}), up) {
  const Cluster cluster = fat_tree(up);
  const double factor = 4.0 / up;
  BOOST_CHECK_CLOSE(play(shift_by_four(cluster), cluster).end.value(),
                    kNicLatency + factor * kS / kNic, kPercent);
}

BOOST_AUTO_TEST_CASE(a_torus_and_a_dragonfly_are_never_faster_than_a_star) {
  const BytesPerSecond rate(kNic);
  const Fabric fabrics[] = {
      Torus{.dimensions = {4, 2}, .bandwidth = rate, .latency = {}},
      Torus{.dimensions = {2, 2, 2}, .bandwidth = rate, .latency = Seconds(1e-6)},
      Dragonfly{.groups = 2, .chassis = 2, .routers = 2, .bandwidth = rate, .latency = {}},
      Dragonfly{.groups = 2,
                .routers = 2,
                .nodes_per_router = 2,
                .bandwidth = rate,
                .latency = Seconds(1e-6)}};
  for (const auto algorithm :
       {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree, CollectiveAlgorithm::direct}) {
    const Program program = one_collective(CollectiveKind::all_reduce, Bytes(kS), algorithm);
    Cluster cluster = star_cluster(8);
    const double star = play(on_all_ranks(cluster, program), cluster).end.value();
    for (const Fabric& fabric : fabrics) {
      cluster.fabric = fabric;
      BOOST_CHECK_GE(play(on_all_ranks(cluster, program), cluster).end.value(), star * (1 - 1e-12));
    }
  }
}

// Everyone sends S/8 to everyone over 8 nodes in a ring of cables, the shorter way: shifts 1, 2 and
// 3 go one way over as many cables, and so does shift 4. A cable carries 1 + 2 + 3 + 4 of them,
// where a NIC carries 7.
BOOST_AUTO_TEST_CASE(a_ring_of_cables_slows_an_all_to_all) {
  Cluster cluster = star_cluster(8);
  cluster.fabric = Torus{.dimensions = {8}, .bandwidth = BytesPerSecond(kNic), .latency = {}};
  const Program program =
      one_collective(CollectiveKind::all_gather, Bytes(kS), CollectiveAlgorithm::direct);
  BOOST_CHECK_CLOSE(play(on_all_ranks(cluster, program), cluster).end.value(),
                    kNicLatency + 10.0 / 8 * kS / kNic, kPercent);
}

}  // namespace
}  // namespace rehearse
