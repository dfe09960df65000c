#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cluster/cluster.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(paths_test)
namespace {

constexpr double kUs = 1e-6;

Place gpu(std::size_t node, int index) { return {NodeId(node), index}; }
Place cpu(std::size_t node) { return {NodeId(node), -1}; }

/// Eight GPUs, four NICs of 12.5 GB/s and 2 us, PCIe of 24 GB/s and 1 us.
Node eight_gpus() {
  Node node;
  node.gpus = 8;
  node.nics = 4;
  node.nic_bandwidth = BytesPerSecond(12.5e9);
  node.nic_latency = Seconds(2 * kUs);
  node.pcie = {.bandwidth = BytesPerSecond(24e9),
               .latency = Seconds(1 * kUs),
               .peer_to_peer = true,
               .host_bandwidth = BytesPerSecond(100e9)};
  return node;
}

Node with_nvlink() {
  Node node = eight_gpus();
  node.nvlink = NvLink{.bandwidth = BytesPerSecond(300e9), .latency = Seconds(0.5 * kUs)};
  return node;
}

Node without_peer_to_peer() {
  Node node = eight_gpus();
  node.pcie.peer_to_peer = false;
  return node;
}

/// A CPU node with one NIC of 1.25 GB/s and 5 us.
Node cpu_node() {
  Node node;
  node.gpus = 0;
  node.nic_bandwidth = BytesPerSecond(1.25e9);
  node.nic_latency = Seconds(5 * kUs);
  node.pcie.host_bandwidth = BytesPerSecond(100e9);
  return node;
}

Cluster cluster_of(std::vector<NodeGroup> groups, Fabric fabric = Star{}) {
  Cluster cluster;
  cluster.groups = std::move(groups);
  cluster.fabric = std::move(fabric);
  return cluster;
}

/// Nodes 0 and 1 have NVLink, 2 to 4 have PCIe without peer-to-peer, 5 is a CPU node.
Cluster mixed() {
  return cluster_of({{.name = "fast", .nodes = 2, .node = with_nvlink()},
                     {.name = "slow", .nodes = 3, .node = without_peer_to_peer()},
                     {.name = "server", .nodes = 1, .node = cpu_node()}});
}

bool same(const Port& port, PortKind kind, std::size_t node, int index) {
  return port.kind == kind && port.node == NodeId(node) && port.index == index;
}

double us(Seconds time) { return time.value() / kUs; }

const auto kTolerance = boost::test_tools::tolerance(1e-9);

}  // namespace

BOOST_AUTO_TEST_CASE(nodes_are_counted_through_the_groups_in_order) {
  const Cluster cluster = mixed();
  BOOST_TEST(cluster.node_count() == 6U);
  BOOST_TEST(cluster.gpu_count() == 40U);
  const std::string names[] = {"fast", "fast", "slow", "slow", "slow", "server"};
  for (std::size_t i = 0; i < 6; ++i) BOOST_TEST(cluster.group_of(NodeId(i)).name == names[i]);
  BOOST_TEST(cluster.node(NodeId(5)).gpus == 0);
  BOOST_CHECK_THROW(cluster.node(NodeId(6)), InternalError);
}

BOOST_AUTO_TEST_CASE(rank_i_lives_on_gpu_i_counted_node_by_node) {
  const std::vector<Place> places = gpu_places(mixed());
  BOOST_TEST_REQUIRE(places.size() == 40U);
  for (std::size_t i = 0; i < places.size(); ++i) {
    BOOST_TEST((places[i] == gpu(i / 8, static_cast<int>(i % 8))));
  }
}

BOOST_AUTO_TEST_CASE(gpus_share_nics_rail_by_rail_and_the_cpu_takes_the_first) {
  const Node node = eight_gpus();
  const int expected[] = {0, 0, 1, 1, 2, 2, 3, 3};
  for (int i = 0; i < 8; ++i) BOOST_TEST(nic_of(node, i) == expected[i]);
  BOOST_TEST(nic_of(node, -1) == 0);
  BOOST_TEST(nic_of(cpu_node(), -1) == 0);
  BOOST_CHECK_THROW(nic_of(node, 8), InternalError);
}

BOOST_AUTO_TEST_CASE(inside_a_node_nvlink_is_paid_once_and_pcie_twice_where_staged) {
  const Cluster cluster = mixed();
  BOOST_TEST(us(path_latency(cluster, gpu(0, 0), gpu(0, 7))) == 0.5, kTolerance);
  BOOST_TEST(us(path_latency(cluster, gpu(2, 0), gpu(2, 7))) == 2.0, kTolerance);
  BOOST_TEST(us(path_latency(cluster, gpu(0, 0), cpu(0))) == 1.0, kTolerance);
  BOOST_TEST(us(path_latency(cluster, cpu(2), gpu(2, 3))) == 1.0, kTolerance);
  const Cluster peers = cluster_of({{.name = "all", .nodes = 1, .node = eight_gpus()}});
  BOOST_TEST(us(path_latency(peers, gpu(0, 0), gpu(0, 1))) == 1.0, kTolerance);
  BOOST_CHECK_THROW(path_latency(cluster, gpu(0, 0), gpu(0, 0)), InternalError);
}

BOOST_AUTO_TEST_CASE(between_nodes_the_larger_nic_latency_and_the_fabrics_cables_are_paid) {
  const Cluster star = mixed();
  BOOST_TEST(us(path_latency(star, gpu(0, 0), gpu(1, 0))) == 2.0, kTolerance);
  BOOST_TEST(us(path_latency(star, gpu(0, 0), cpu(5))) == 5.0, kTolerance);
  BOOST_TEST(us(path_latency(star, cpu(5), gpu(0, 0))) == 5.0, kTolerance);
  // 2 us + 2 cables under one switch, 4 through the second level, of 0.25 us each.
  const FatTree tree{.down = {2, 3},
                     .up = {1, 2},
                     .links = {1, 1},
                     .bandwidth = BytesPerSecond(25e9),
                     .latency = Seconds(0.25 * kUs)};
  const Cluster fat = cluster_of({{.name = "all", .nodes = 6, .node = eight_gpus()}}, tree);
  BOOST_TEST(us(path_latency(fat, gpu(0, 0), gpu(1, 0))) == 2.5, kTolerance);
  BOOST_TEST(us(path_latency(fat, gpu(0, 0), gpu(2, 0))) == 3.0, kTolerance);
}

BOOST_AUTO_TEST_CASE(flows_take_nvlink_then_pcie_inside_a_node_and_nics_between) {
  const Cluster cluster = mixed();
  const PortPair nvlink = ports_between(cluster, gpu(1, 2), gpu(1, 5));
  BOOST_TEST(same(nvlink.source, PortKind::nvlink, 1, 2));
  BOOST_TEST(same(nvlink.target, PortKind::nvlink, 1, 5));
  const PortPair pcie = ports_between(cluster, gpu(3, 2), gpu(3, 5));
  BOOST_TEST(same(pcie.source, PortKind::pcie, 3, 2));
  BOOST_TEST(same(pcie.target, PortKind::pcie, 3, 5));
  const PortPair offload = ports_between(cluster, gpu(0, 4), cpu(0));
  BOOST_TEST(same(offload.source, PortKind::pcie, 0, 4));
  BOOST_TEST(same(offload.target, PortKind::cpu, 0, 0));
  const PortPair nics = ports_between(cluster, gpu(0, 7), gpu(4, 2));
  BOOST_TEST(same(nics.source, PortKind::nic, 0, 3));
  BOOST_TEST(same(nics.target, PortKind::nic, 4, 1));
  const PortPair server = ports_between(cluster, gpu(0, 7), cpu(5));
  BOOST_TEST(same(server.target, PortKind::nic, 5, 0));
}

BOOST_AUTO_TEST_CASE(a_port_has_the_rate_of_its_kind) {
  const Cluster cluster = mixed();
  const auto rate = [&](PortKind kind, std::size_t node) {
    return port_bandwidth(cluster, {.kind = kind, .node = NodeId(node), .index = 0}).value();
  };
  BOOST_TEST(rate(PortKind::nvlink, 0) == 300e9);
  BOOST_TEST(rate(PortKind::pcie, 0) == 24e9);
  BOOST_TEST(rate(PortKind::cpu, 0) == 100e9);
  BOOST_TEST(rate(PortKind::nic, 0) == 12.5e9);
  BOOST_TEST(rate(PortKind::nic, 5) == 1.25e9);
  BOOST_CHECK_THROW(rate(PortKind::nvlink, 2), InternalError);
}

BOOST_AUTO_TEST_CASE(only_flows_between_two_gpus_without_peer_access_are_staged) {
  const Cluster cluster = mixed();
  BOOST_TEST(staged(cluster, ports_between(cluster, gpu(2, 0), gpu(2, 1))));
  BOOST_TEST(!staged(cluster, ports_between(cluster, gpu(2, 0), cpu(2))));
  BOOST_TEST(!staged(cluster, ports_between(cluster, gpu(0, 0), gpu(0, 1))));
  BOOST_TEST(!staged(cluster, ports_between(cluster, gpu(2, 0), gpu(3, 0))));
  const Cluster peers = cluster_of({{.name = "all", .nodes = 1, .node = eight_gpus()}});
  BOOST_TEST(!staged(peers, ports_between(peers, gpu(0, 0), gpu(0, 1))));
}

BOOST_AUTO_TEST_CASE(a_format_that_the_gpu_lacks_runs_at_the_fp32_rate) {
  Gpu gpu_card;
  gpu_card.fp32 = FlopsPerSecond(10);
  gpu_card.fp16 = FlopsPerSecond(40);
  const auto peak = [&](Precision precision) { return gpu_card.matrix_peak(precision).value(); };
  BOOST_TEST(peak(Precision::fp32) == 10);
  BOOST_TEST(peak(Precision::tf32) == 10);
  BOOST_TEST(peak(Precision::fp16) == 40);
  BOOST_TEST(peak(Precision::bf16) == 10);
  gpu_card.tf32 = FlopsPerSecond(20);
  gpu_card.bf16 = FlopsPerSecond(30);
  BOOST_TEST(peak(Precision::fp32) == 10);
  BOOST_TEST(peak(Precision::tf32) == 20);
  BOOST_TEST(peak(Precision::bf16) == 30);
  BOOST_TEST(peak(Precision::bf16_pure) == 30);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
