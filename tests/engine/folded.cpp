// fold(): two nodes stand for all, with the same answer; and the reasons for which they cannot.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(folded_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kS = 26214400;    // 25 MiB
constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative
using Algorithm = CollectiveAlgorithm;

// Leaf switches of two nodes, with as many cables up as down.
Cluster fat_tree_cluster(int nodes, int gpus) {
  Cluster cluster = star_cluster(nodes, gpus);
  cluster.fabric = FatTree{.down = {2, nodes / 2},
                           .up = {1, 2},
                           .links = {1, 1},
                           .bandwidth = BytesPerSecond(kNic),
                           .latency = Seconds(3e-7)};
  return cluster;
}

// The folded schedule ends each iteration of the ranks that it keeps when the whole one does.
void check_folds(const Schedule& schedule, const Cluster& cluster,
                 Fidelity fidelity = Fidelity::flow, double percent = kPercent) {
  std::string why_not;
  const auto folded = fold(schedule, cluster, why_not);
  BOOST_REQUIRE_MESSAGE(folded, why_not);
  BOOST_REQUIRE_NO_THROW(validate(folded->schedule));
  BOOST_CHECK_LE(folded->cluster.node_count(), 2);
  const Trace whole = play(schedule, cluster),
              part = play(folded->schedule, folded->cluster, fidelity);
  BOOST_CHECK_CLOSE(part.end.value(), whole.end.value(), percent);
  for (std::size_t r = 0; r < part.iteration_end.size(); ++r)
    for (std::size_t k = 0; k < schedule.iterations; ++k)
      BOOST_CHECK_CLOSE(part.iteration_end[r][k].value(), whole.iteration_end[r][k].value(),
                        percent);
}

const auto kFoldedAlgorithms =
    data::make({Algorithm::ring, Algorithm::tree, Algorithm::hierarchical});

BOOST_DATA_TEST_CASE(two_nodes_stand_for_all_on_a_star,
                     kFoldedAlgorithms* data::xrange(2, 9) * data::make({1, 2, 4}), algorithm,
                     nodes, gpus) {
  for (const int nics : {1, gpus}) {
    const Cluster cluster = star_cluster(nodes, gpus, nics);
    for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                            CollectiveKind::reduce_scatter, CollectiveKind::broadcast})
      check_folds(on_all_ranks(cluster, one_collective(kind, Bytes(kS), algorithm)), cluster);
  }
}

BOOST_DATA_TEST_CASE(two_nodes_stand_for_all_on_a_non_blocking_fat_tree,
                     data::make({Algorithm::ring, Algorithm::hierarchical}) *
                         data::make({2, 4, 6, 8}) * data::make({1, 2, 4}),
                     algorithm, nodes, gpus) {
  const Cluster cluster = fat_tree_cluster(nodes, gpus);
  for (const auto kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::broadcast})
    check_folds(on_all_ranks(cluster, one_collective(kind, Bytes(kS), algorithm)), cluster);
}

BOOST_AUTO_TEST_CASE(two_nics_fold_on_a_fat_tree_whose_cables_carry_both) {
  Cluster cluster = fat_tree_cluster(6, 2);
  cluster.groups[0].node.nics = 2;
  std::get<FatTree>(cluster.fabric).bandwidth = BytesPerSecond(2 * kNic);
  for (const auto algorithm : {Algorithm::ring, Algorithm::hierarchical})
    check_folds(
        on_all_ranks(cluster, one_collective(CollectiveKind::all_reduce, Bytes(kS), algorithm)),
        cluster);
}

BOOST_AUTO_TEST_CASE(a_single_node_stands_for_itself) {
  const Cluster cluster = star_cluster(1, 8);
  check_folds(
      on_all_ranks(cluster, one_collective(CollectiveKind::all_reduce, Bytes(kS), Algorithm::ring)),
      cluster);
}

BOOST_AUTO_TEST_CASE(folded_groups_are_played_at_flow_fidelity_whatever_is_asked) {
  const Cluster cluster = star_cluster(6, 2);
  for (const auto algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::hierarchical})
    check_folds(
        on_all_ranks(cluster, one_collective(CollectiveKind::all_reduce, Bytes(kS), algorithm)),
        cluster, Fidelity::hop);
}

BOOST_DATA_TEST_CASE(rings_on_nics_that_burst_fold,
                     data::make({Algorithm::ring, Algorithm::hierarchical}) *
                         data::make({2, 5, 8}) * data::make({1, 4}),
                     algorithm, nodes, gpus) {
  for (const int nics : {1, gpus}) {
    Cluster cluster = star_cluster(nodes, gpus, nics);
    cluster.groups[0].node.nic_burst = Bytes(kS / 8);
    for (const auto kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast})
      check_folds(on_all_ranks(cluster, one_collective(kind, Bytes(kS), algorithm), 2), cluster);
  }
}

// Like DDP beside FSDP: three computations, each followed by an all_reduce of the world on one lane
// and by an all_gather on another, so that collectives share the network and slow the compute; the
// next iteration waits for all of them.
Program overlapping(Algorithm algorithm) {
  Program program{
      .name = "worker",
      .lanes = {
          {"compute"}, {"nccl", LaneKind::communication}, {"gather", LaneKind::communication}}};
  for (std::size_t i = 0; i < 3; ++i) {
    const OpId compute(program.ops.size());
    program.ops.push_back(
        {.of = "compute", .lane = LaneId(0), .work = Compute{.duration = Seconds(0.01)}});
    if (i == 0) program.ops.back().after = {{OpId(7), 1}, {OpId(8), 1}};
    const Bytes size((1.0 + static_cast<double>(i)) * kS / 2);
    program.ops.push_back({.of = "all_reduce",
                           .lane = LaneId(1),
                           .work = Collective{.size = size, .algorithm = algorithm},
                           .after = {{compute}}});
    program.ops.push_back({.of = "all_gather",
                           .lane = LaneId(2),
                           .work = Collective{CollectiveKind::all_gather, 0, Bytes(kS), algorithm},
                           .after = {{compute}}});
  }
  return program;
}

BOOST_DATA_TEST_CASE(collectives_in_flight_beside_compute_fold,
                     data::make({Algorithm::ring, Algorithm::hierarchical}) *
                         data::make({2, 3, 8}) * data::make({1, 4}),
                     algorithm, nodes, gpus) {
  const Cluster cluster = star_cluster(nodes, gpus);
  Schedule schedule = on_all_ranks(cluster, overlapping(algorithm), 3);
  schedule.overlap_slowdown = 1.3;
  check_folds(schedule, cluster);
}

// Where something else is in flight, a tree's light nodes leave it more than the two that stand for
// the busiest.
BOOST_DATA_TEST_CASE(trees_beside_other_collectives_fold_to_a_tenth_of_a_percent,
                     data::xrange(2, 17) * data::make({1, 2, 4}), nodes, gpus) {
  const Cluster cluster = star_cluster(nodes, gpus);
  Schedule schedule = on_all_ranks(cluster, overlapping(Algorithm::tree), 3);
  schedule.overlap_slowdown = 1.3;
  check_folds(schedule, cluster, Fidelity::flow, 0.1);
}

// Sharded inside the node, replicated across: slot 0 is the node, slot 1 the like local ranks of
// all nodes.
Schedule hybrid(const Cluster& cluster) {
  Program program = one_collective(CollectiveKind::reduce_scatter, Bytes(kS), Algorithm::ring);
  program.lanes.push_back({"nccl (replicas)", LaneKind::communication});
  program.ops.push_back(
      {.of = "all_reduce",
       .lane = LaneId(1),
       .work = Collective{.group = 1, .size = Bytes(kS / 4), .algorithm = Algorithm::ring},
       .after = {{OpId(0)}}});
  Schedule schedule = on_all_ranks(cluster, program, 2);
  const auto gpus = static_cast<std::size_t>(cluster.groups[0].node.gpus);
  const std::size_t nodes = cluster.node_count();
  schedule.groups.clear();
  schedule.groups.assign(nodes, {.name = "shards", .members = {}, .ranks = gpus, .nodes = 1});
  schedule.groups.resize(nodes + gpus,
                         {.name = "replicas", .members = {}, .ranks = nodes, .nodes = nodes});
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    schedule.ranks[r].groups = {GroupId(r / gpus), GroupId(nodes + r % gpus)};
    for (const GroupId group : schedule.ranks[r].groups)
      schedule.groups[group.index()].members.emplace_back(r);
  }
  return schedule;
}

BOOST_DATA_TEST_CASE(shards_in_a_node_and_replicas_across_fold,
                     data::make({2, 5, 8}) * data::make({1, 4}), nodes, nics) {
  const Cluster cluster = star_cluster(nodes, 4, nics);
  check_folds(hybrid(cluster), cluster);
}

// --- Where two nodes cannot stand for all

std::string refusal(const Schedule& schedule, const Cluster& cluster) {
  std::string why_not;
  return fold(schedule, cluster, why_not) ? "folded" : why_not;
}

Schedule plain(const Cluster& cluster, Algorithm algorithm = Algorithm::ring) {
  return on_all_ranks(cluster, one_collective(CollectiveKind::all_reduce, Bytes(kS), algorithm));
}

BOOST_AUTO_TEST_CASE(unlike_ranks_do_not_fold) {
  const Cluster cluster = star_cluster(4);
  Schedule schedule = plain(cluster);
  BOOST_CHECK_EQUAL(refusal(schedule, cluster), "folded");
  schedule.jitter = {Jitter::Distribution::measured};
  BOOST_CHECK_EQUAL(refusal(schedule, cluster), "the times of operations vary from rank to rank");
  schedule.queues.push_back({"server", RankId(0)});
  BOOST_CHECK_EQUAL(refusal(schedule, cluster), "ranks share a server");
  schedule.queues.clear();
  schedule.events.push_back({"applied"});
  BOOST_CHECK_EQUAL(refusal(schedule, cluster), "ranks share a server");
  schedule.programs.push_back(schedule.programs[0]);
  BOOST_CHECK_EQUAL(refusal(schedule, cluster), "ranks run different programs");
}

BOOST_AUTO_TEST_CASE(unlike_nodes_and_fabrics_that_nodes_share_do_not_fold) {
  Cluster cluster = star_cluster(4);
  cluster.groups = {{"a", 2, cluster.groups[0].node}, {"b", 2, cluster.groups[0].node}};
  BOOST_CHECK_EQUAL(refusal(plain(cluster), cluster), "nodes are unlike");
  cluster = fat_tree_cluster(4, 1);
  BOOST_CHECK_EQUAL(refusal(plain(cluster), cluster), "folded");
  std::get<FatTree>(cluster.fabric).up = {1, 1};
  BOOST_CHECK_EQUAL(refusal(plain(cluster), cluster), "the fat-tree is oversubscribed");
  cluster = fat_tree_cluster(4, 1);
  std::get<FatTree>(cluster.fabric).bandwidth = BytesPerSecond(kNic / 2);
  BOOST_CHECK_EQUAL(refusal(plain(cluster), cluster), "the fat-tree is oversubscribed");
  cluster = fat_tree_cluster(4, 2);
  cluster.groups[0].node.nics = 2;
  BOOST_CHECK_EQUAL(refusal(plain(cluster), cluster),
                    "the NICs of a node share one route through the fat-tree");
  for (const auto algorithm : {Algorithm::tree, Algorithm::automatic})
    BOOST_CHECK_EQUAL(refusal(plain(fat_tree_cluster(4, 2), algorithm), fat_tree_cluster(4, 2)),
                      "trees share the fat-tree's fixed routes unevenly");
  cluster.fabric = Torus{.dimensions = {4}, .bandwidth = BytesPerSecond(kNic), .latency = {}};
  BOOST_CHECK_EQUAL(refusal(plain(cluster), cluster),
                    "the fabric is neither a star, a fat-tree nor rails");
  cluster.fabric =
      Dragonfly{.groups = 2, .routers = 2, .bandwidth = BytesPerSecond(kNic), .latency = {}};
  BOOST_CHECK_EQUAL(refusal(plain(cluster), cluster),
                    "the fabric is neither a star, a fat-tree nor rails");
}

BOOST_AUTO_TEST_CASE(nodes_on_shared_cores_do_not_fold) {
  Cluster cluster = star_cluster(4);
  cluster.shared_cores = 8;
  BOOST_CHECK_EQUAL(refusal(plain(cluster), cluster), "nodes share cores");
}

BOOST_AUTO_TEST_CASE(trees_on_nics_that_burst_do_not_fold) {
  Cluster cluster = star_cluster(4);
  for (const auto algorithm : {Algorithm::tree, Algorithm::automatic}) {
    cluster.groups[0].node.nic_burst = Bytes(1);
    BOOST_CHECK_EQUAL(refusal(plain(cluster, algorithm), cluster),
                      "trees share the bursts of NICs unevenly");
    cluster.groups[0].node.nic_burst = Bytes(0);
    BOOST_CHECK_EQUAL(refusal(plain(cluster, algorithm), cluster), "folded");
  }
}

BOOST_AUTO_TEST_CASE(messages_to_single_ranks_do_not_fold) {
  const Cluster cluster = star_cluster(4);
  BOOST_CHECK_EQUAL(refusal(plain(cluster, Algorithm::direct), cluster),
                    "direct collectives send from everyone to everyone");
  Schedule schedule = plain(cluster);
  schedule.programs[0].ops[0].work = Transfer{{}, RankId(0), Bytes(kS)};
  BOOST_CHECK_EQUAL(refusal(schedule, cluster), "ranks send to single ranks");
  schedule.programs[0].ops[0].work =
      Collective{.kind = CollectiveKind::send_recv, .size = Bytes(kS)};
  BOOST_CHECK_EQUAL(refusal(schedule, cluster), "ranks send to single ranks");
}

BOOST_AUTO_TEST_CASE(groups_that_do_not_repeat_from_node_to_node_do_not_fold) {
  const Cluster cluster = star_cluster(4);
  Schedule schedule = plain(cluster);
  schedule.groups = {{.name = "even", .members = {RankId(0), RankId(2)}, .ranks = 2, .nodes = 2},
                     {.name = "odd", .members = {RankId(1), RankId(3)}, .ranks = 2, .nodes = 2}};
  for (const std::size_t r : {1, 3}) schedule.ranks[r].groups = {GroupId(1)};
  BOOST_CHECK_EQUAL(refusal(schedule, cluster),
                    "the ranks of group \"even\" do not repeat from node to node");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
