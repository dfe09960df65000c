// Collectives that a fabric bounds: a faster link is never slower, whatever bounds NCCL's time.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/clusters.hpp"
#include "engine/play.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(slow_fabrics_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kGiga = 1e9;

/// Four H100s to a node, on the fabric, with NICs of that many GB/s.
Cluster nodes_on(const Fabric& fabric, double nic, bool nvlink = true, int nodes = 4) {
  Cluster cluster = star_cluster(nodes, 4, 2);
  Node& node = cluster.groups[0].node;
  node.gpu.architecture = gpu_architecture("hopper");
  node.nvlink = NvLink{BytesPerSecond(300 * kGiga), Seconds(6e-7)};
  if (!nvlink) node.nvlink.reset();
  node.nic_bandwidth = BytesPerSecond(nic * kGiga);
  cluster.collectives = CollectiveModel::nccl;
  cluster.fabric = fabric;
  return cluster;
}

double time_of(const Cluster& cluster, CollectiveKind kind, double size) {
  const Schedule schedule =
      on_all_ranks(cluster, one_collective(kind, Bytes(size), CollectiveAlgorithm::automatic));
  return play(schedule, cluster).end.value();
}

Sites sites(double rate) {
  return {.nodes = 2, .bandwidth = BytesPerSecond(rate * kGiga), .latency = Seconds(1e-3)};
}
Rail rails(double rate) {
  return {.nodes = 2, .uplinks = 1, .bandwidth = BytesPerSecond(rate * kGiga), .latency = {}};
}
Torus torus(double rate) {
  return {.dimensions = {2, 2}, .bandwidth = BytesPerSecond(rate * kGiga), .latency = {}};
}
FatTree tree(double rate) {
  return {.down = {2, 2},
          .up = {1, 1},
          .links = {1, 1},
          .bandwidth = BytesPerSecond(rate * kGiga),
          .latency = {}};
}
Fabric fabric_of(int which, double rate) {
  switch (which) {
    case 0:
      return sites(rate);
    case 1:
      return rails(rate);
    case 2:
      return torus(rate);
    case 3:
      return tree(rate);
    default:
      return Star{};
  }
}

}  // namespace

// Two sites of a node each: a ring's bytes cross their links 1.75 times (7/8, there and back), a
// tree's once. What a protocol leaves of a link is 0.96 of it.
BOOST_DATA_TEST_CASE(what_nvlink_bounds_crosses_a_site_s_link_as_it_is,
                     data::make({10.0, 50.0, 100.0, 200.0, 800.0}), nic) {
  const Cluster cluster =
      nodes_on(Sites{.nodes = 1, .bandwidth = BytesPerSecond(kGiga / 8), .latency = Seconds(1e-3)},
               nic, true, 2);
  const double time = time_of(cluster, CollectiveKind::all_reduce, kGiga);
  BOOST_TEST(time >= 8 / 0.96);
  BOOST_TEST(time <= 8 / 0.96 + 0.01);
}

BOOST_DATA_TEST_CASE(a_faster_nic_or_cable_is_not_slower,
                     data::make({0, 1, 2, 3, 4}) * data::make({0.01, 1.0, 30.0}) *
                         data::make({true, false}) *
                         data::make({CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                     CollectiveKind::reduce_scatter, CollectiveKind::all_to_all}),
                     fabric, rate, nvlink, kind) {
  for (const double size : {1e4, 1e6, 3e8}) {
    double before = 1e9;
    for (double nic = 1; nic < 500; nic *= 2) {
      const double now = time_of(nodes_on(fabric_of(fabric, rate), nic, nvlink), kind, size);
      BOOST_TEST(now <= before * (1 + 1e-9),
                 "NICs of " << nic << " GB/s: " << now << " s, not " << before << ", for " << size);
      before = now;
    }
    before = 1e9;
    for (double cable = rate; cable < 100 * rate; cable *= 2) {
      const double now = time_of(nodes_on(fabric_of(fabric, cable), 25, nvlink), kind, size);
      BOOST_TEST(now <= before * (1 + 1e-9), "cables of " << cable << " GB/s: " << now << " s, not "
                                                          << before << ", for " << size);
      before = now;
    }
  }
}

// What is listed of a collective is what it takes for itself.
BOOST_DATA_TEST_CASE(a_collective_takes_what_is_listed_of_it,
                     data::make({0, 1, 2, 3, 4}) * data::make({0.01, 1.0, 30.0}) *
                         data::make({CollectiveKind::all_reduce, CollectiveKind::all_gather}),
                     fabric, rate, kind) {
  const Cluster cluster = nodes_on(fabric_of(fabric, rate), 25);
  const Schedule schedule =
      on_all_ranks(cluster, one_collective(kind, Bytes(1e8), CollectiveAlgorithm::automatic));
  const std::string told = in_child_process([&] {
    std::vector<CollectiveAnswer> answers;
    const Trace trace = run({.schedule = schedule, .cluster = cluster}, {.answers = &answers});
    return std::to_string(trace.end / answers.front().cost.total());
  });
  BOOST_CHECK_CLOSE(std::stod(told), 1.0, 1e-3);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
