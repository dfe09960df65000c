// What keys beside `use` change of a shipped cluster.
#include <boost/test/unit_test.hpp>
#include <string>
#include <variant>

#include "base/error.hpp"
#include "cluster/cluster.hpp"
#include "cluster_text.hpp"
#include "platform_file.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(overrides_test)
BOOST_AUTO_TEST_CASE(a_used_platform_takes_every_override) {
  const Cluster cluster = read(
      "{use: aws_p4d, nodes: 4, gpus_per_node: 4, nic: 50Gbps, nic_latency: 9us, "
      "nic_burst: 1MB, shared_cores: 3, speed: 0.5, memory: 10GiB, usd_per_hour: 1.5, "
      "comm_profile: none, transport: tcp, nvlink: 200GBps, nvlink_latency: 1us, pcie: 6GBps, "
      "pcie_latency: 2us, host_bandwidth: 90GBps, "
      "fabric: {torus: {dimensions: [4], bandwidth: 25GBps}}}");
  BOOST_TEST(cluster.name == "aws_p4d");
  BOOST_TEST(cluster.node_count() == 4U);
  const Node& node = first(cluster);
  BOOST_TEST(node.gpus == 4);
  BOOST_TEST(node.nic_bandwidth.value() == 6.25e9, kTolerance);
  BOOST_TEST(node.nic_latency.value() == 9 * kUs, kTolerance);
  BOOST_TEST(node.nic_burst.value() == 1e6);
  BOOST_TEST(node.transport.sockets == 16);  // of Amazon's NICs
  BOOST_TEST(nic_rate(node).value() == 4.6e9, kTolerance);
  BOOST_TEST(node.nvlink->bandwidth.value() == 200e9, kTolerance);
  BOOST_TEST(node.nvlink->latency.value() == kUs, kTolerance);
  BOOST_TEST(node.pcie.bandwidth.value() == 6e9, kTolerance);
  BOOST_TEST(node.pcie.latency.value() == 2 * kUs, kTolerance);
  BOOST_TEST(node.pcie.host_bandwidth.value() == 90e9, kTolerance);
  BOOST_TEST(cluster.shared_cores.value() == 3);
  BOOST_TEST(node.speed == 0.5);
  BOOST_TEST(node.gpu.memory.value() == 10 * kGiB);
  BOOST_TEST(node.prices.on_demand.value() == 1.5);
  BOOST_TEST(cluster.comm_profile == "");
  BOOST_TEST(std::holds_alternative<Torus>(cluster.fabric));
}

BOOST_AUTO_TEST_CASE(fewer_gpus_of_a_node_keep_the_nics_that_were_theirs) {
  // Eight GPUs on four NICs: GPUs 0 and 1 on NIC 0, 2 and 3 on NIC 1.
  const Node whole = first(read("{use: aws_p4d}"));
  for (int gpus = 1; gpus <= 8; ++gpus) {
    const Node part = first(read("{use: aws_p4d, gpus_per_node: " + std::to_string(gpus) + "}"));
    for (int i = 0; i < gpus; i += 2) {
      if (gpus % 2 == 0) BOOST_TEST(nic_of(part, i) == nic_of(whole, i));
    }
    BOOST_TEST(part.nics == (gpus + 1) / 2);
  }
}

BOOST_AUTO_TEST_CASE(more_nodes_of_a_platform_with_a_server_are_more_workers) {
  const Cluster cluster = read("{use: lightning_a10g, nodes: 8}");
  BOOST_TEST(cluster.gpu_count() == 8U);
  BOOST_TEST(cluster.node_count() == 9U);
  BOOST_TEST(cluster.groups[1].nodes == 1);
}

BOOST_AUTO_TEST_CASE(overrides_change_every_network_but_only_gpu_nodes_compute) {
  const PlatformFile file(
      "groups:\n"
      "  - {nodes: 2, node: {gpus: 4, nic: 10Gbps}}\n"
      "  - {nodes: 1, node: {gpus: 0, nic: 10Gbps}}\n");
  const Cluster cluster = read(file.use(
      "nic: 100Gbps\nnic_latency: 2us\nnics: 2\nspeed: 0.5\nmemory: 1GiB\nusd_per_hour: 3"));
  const Node& worker = cluster.groups[0].node;
  const Node& server = cluster.groups[1].node;
  for (const Node* node : {&worker, &server}) {
    BOOST_TEST(node->nic_bandwidth.value() == 12.5e9, kTolerance);
    BOOST_TEST(node->nic_latency.value() == 2 * kUs, kTolerance);
  }
  BOOST_TEST(worker.nics == 2);
  BOOST_TEST(server.nics == 1);
  BOOST_TEST(worker.speed == 0.5);
  BOOST_TEST(server.speed == 1.0);
  BOOST_TEST(worker.gpu.memory.value() == kGiB);
  BOOST_TEST(server.gpu.memory.value() == 0.0);
  BOOST_TEST(worker.prices.on_demand.value() == 3.0);
  BOOST_TEST(!server.prices.any());
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
