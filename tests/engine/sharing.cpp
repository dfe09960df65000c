// What runs at the same time: on one NIC, on one rank, on one fabric.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "collective/nccl_model.hpp"
#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(sharing_test)
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

// NCCL's time of a group for itself, on its own members' NICs.
NcclEstimate estimate_of(const Schedule& schedule, const Group& group, const Cluster& cluster,
                         CollectiveKind kind, double size) {
  std::vector<Place> places;
  for (const RankId member : group.members) places.push_back(schedule.ranks[member.index()].place);
  return nccl_estimate(
      nccl_machine(cluster, places, static_cast<int>(group.ranks), static_cast<int>(group.nodes)),
      kind, Bytes(size));
}

/// Every `stride`-th GPU of each node of four, as many groups as there are: data-parallel replicas
/// of tensor-parallel ranks. All of them begin at once.
Schedule groups_on_stride(const Cluster& cluster, int stride, CollectiveKind kind, double size) {
  Schedule schedule =
      on_all_ranks(cluster, one_collective(kind, Bytes(size), CollectiveAlgorithm::automatic));
  schedule.groups.assign(static_cast<std::size_t>(stride), {});
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    RankSpec& rank = schedule.ranks[r];
    const auto slot = static_cast<std::size_t>(rank.place.gpu % stride);
    rank.groups = {GroupId(slot)};
    Group& group = schedule.groups[slot];
    group.name = "replicas " + std::to_string(slot);
    group.members.emplace_back(r);
    ++group.ranks;
    group.nodes = cluster.node_count();
  }
  return schedule;
}

// A group of k ranks on each node has its own NICs alone; groups that share a NIC take turns with
// their bytes, and none waits for another's steps.
BOOST_DATA_TEST_CASE(groups_on_stride_share_the_nics_of_their_gpus,
                     data::make({8, 4, 2}) * data::make({8, 4, 1}) *
                         data::make({CollectiveKind::all_gather, CollectiveKind::reduce_scatter}),
                     stride, nics, kind) {
  Cluster cluster = star_cluster(4, 8, nics);
  cluster.collectives = CollectiveModel::nccl;
  const double size = 16 * kS;
  const Schedule schedule = groups_on_stride(cluster, stride, kind, size);
  const NcclEstimate alone = estimate_of(schedule, schedule.groups[0], cluster, kind, size);
  const double owned = std::min(nics, 8 / stride);
  const double bytes = size * bus_factor(kind, 32.0 / stride);
  BOOST_CHECK_CLOSE(alone.transfer().value(), bytes / (0.96 * owned * kNic), kPercent);
  const double shared = stride * owned / nics;
  BOOST_CHECK_CLOSE(play(schedule, cluster).end.value(),
                    (alone.latency + alone.transfer() * shared).value(), 1e-4);
}

// From one node to the next, as pipeline stages do: each GPU to its like over the NIC of both.
BOOST_DATA_TEST_CASE(sends_between_stages_share_the_nics_of_their_gpus, data::make({8, 4, 1}),
                     nics) {
  Cluster cluster = star_cluster(2, 8, nics);
  cluster.collectives = CollectiveModel::nccl;
  const Schedule schedule = groups_on_stride(cluster, 8, CollectiveKind::send_recv, kS);
  const NcclEstimate alone =
      estimate_of(schedule, schedule.groups[0], cluster, CollectiveKind::send_recv, kS);
  BOOST_CHECK_CLOSE(alone.transfer().value(), kS / (0.96 * kNic), kPercent);
  BOOST_CHECK_CLOSE(play(schedule, cluster).end.value(),
                    (alone.latency + alone.transfer() * (8.0 / nics)).value(), 1e-4);
}

// Two pods of two nodes, each with two GPUs and as many rails; a switch has one cable of half a
// NIC's rate up. Ranks count node by node.
BOOST_AUTO_TEST_CASE(rails_are_entered_and_left_by_their_uplinks) {
  Cluster cluster = star_cluster(4, 2, 2);
  cluster.fabric = Rail{
      .nodes = 2, .uplinks = 1, .bandwidth = BytesPerSecond(kNic / 2), .latency = Seconds(1e-6)};
  const auto time_of = [&](const std::vector<std::pair<std::size_t, std::size_t>>& sends) {
    Schedule schedule = on_all_ranks(cluster, Program{.name = "receiver"});
    for (const auto& [from, to] : sends) {
      Program sender{.name = "sender", .lanes = {{"send", LaneKind::communication}}};
      sender.ops.push_back(
          {.of = "send", .lane = LaneId(0), .work = Transfer{{}, RankId(to), Bytes(kS)}});
      schedule.ranks[from].program = ProgramId(schedule.programs.size());
      schedule.programs.push_back(sender);
    }
    return play(schedule, cluster).end.value();
  };
  const double through_spine = kNicLatency + 2e-6;
  BOOST_CHECK_CLOSE(time_of({{0, 2}}), kNicLatency + kS / kNic, kPercent);
  BOOST_CHECK_CLOSE(time_of({{0, 3}}), through_spine + 2 * kS / kNic, kPercent);
  BOOST_CHECK_CLOSE(time_of({{0, 4}}), through_spine + 2 * kS / kNic, kPercent);
  BOOST_CHECK_CLOSE(time_of({{0, 4}, {2, 6}}), through_spine + 4 * kS / kNic, kPercent);
  BOOST_CHECK_CLOSE(time_of({{0, 4}, {3, 7}}), through_spine + 2 * kS / kNic, kPercent);
}

// NCCL passes what changes rails to the GPU that has the target's NIC, so that spines stay idle.
BOOST_AUTO_TEST_CASE(an_all_to_all_keeps_to_its_rails) {
  Cluster cluster = star_cluster(4, 2, 2);
  const Schedule schedule = on_all_ranks(
      cluster, one_collective(CollectiveKind::all_to_all, Bytes(kS), CollectiveAlgorithm::direct));
  const double star = play(schedule, cluster).end.value();
  cluster.fabric =
      Rail{.nodes = 4, .uplinks = 1, .bandwidth = BytesPerSecond(kNic / 1e3), .latency = {}};
  BOOST_CHECK_CLOSE(play(schedule, cluster).end.value(), star, kPercent);
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
      {.of = "send", .lane = LaneId(0), .work = Transfer{{}, RankId(0), Bytes(kS)}});
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
        {.of = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(0.01)}});
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
      {.of = "compute", .lane = LaneId(1), .work = Compute{.duration = Seconds(0.01)}});
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
        {.of = slot == 0 ? "send" : "receive",
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
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
