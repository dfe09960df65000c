#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>
#include <string>

#include "base/error.hpp"
#include "cluster/cluster.hpp"
#include "platform_file.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(impossible_clusters_test)
namespace {

/// An input, and the place, the message and the remedy that its error must have; no remedy: the
/// caret ends the text.
struct Impossible {
  const char* yaml;
  const char* place;
  const char* message;
  const char* remedy;
};

std::ostream& operator<<(std::ostream& out, const Impossible& input) { return out << input.yaml; }

// Beginnings that are right in themselves.
#define TWO "nodes: 2\nnode: {nic: 10Gbps}\n"
#define EIGHT "nodes: 8\nnode: {nic: 10Gbps}\n"

constexpr Impossible kImpossible[] = {
    // Sizes.
    {"nodes: 0\nnode: {nic: 10Gbps}\n", "1:8",
     "nodes: expected a whole number from 1 to 1000000; got \"0\"", ""},
    {"nodes: 500000\nnode: {gpus: 8, nic: 10Gbps}\n", "1:1",
     "the cluster has 4000000 GPUs; at most 1000000 can be simulated", ""},
    {"groups:\n  - {nodes: 1000000, node: {nic: 1Gbps}}\n  - {nodes: 1, node: {gpus: 0, nic: "
     "1Gbps}}\n",
     "1:1", "the cluster has 1000001 nodes; at most 1000000 can be simulated", ""},
    {"nodes: 2\nnode: {gpus: 0, nic: 10Gbps}\n", "1:1", "the cluster has no GPU",
     "give at least one node gpus: 1 or more"},
    {"{use: aws_p4d, nodes: 200000}", "1:1",
     "the cluster has 1600000 GPUs; at most 1000000 can be simulated", ""},
    // Nodes.
    {"nodes: 2\n", "1:1", "the key \"node\" is missing",
     "write what a node has, such as node: {gpus: 8, gpu: H100-SXM}"},
    {"nodes: 2\nnode: {gpus: 1}\n", "2:7", "node: the key \"nic\" is missing", ""},
    {"nodes: 1\nnode: {nics: 2}\n", "2:8", "node.nics: describes a NIC without its rate",
     "give its rate per direction too, such as `nic: 25Gbps`"},
    {"nodes: 1\nnode: {nic_burst: 1MB}\n", "2:8",
     "node.nic_burst: describes a NIC without its rate",
     "give its rate per direction too, such as `nic: 25Gbps`"},
    {TWO "shared_cores: 1000001\n", "3:15",
     "shared_cores: expected a whole number from 1 to 1000000; got \"1000001\"", ""},
    {"{use: aws_p4d, shared_cores: 0}", "1:30",
     "shared_cores: expected a whole number from 1 to 1000000; got \"0\"", ""},
    {"{use: aws_p4d, busy_cores: {slowdown: 1.2}}", "1:28",
     "busy_cores: busy_cores needs shared_cores", "give shared_cores, too"},
    {TWO "shared_core: 4\nbusy_cores: {slowdown: 1.2}\n", "3:1",
     "shared_core: unknown key; known keys here: busy_cores, collectives, comm_profile, "
     "fabric, gloo, groups, head_start, kernels, measured_steps, name, nccl, node, nodes, "
     "run_queue, shared_cores, source, "
     "usd_per_hour",
     "did you mean \"shared_cores\"?"},
    {"{use: aws_p4d, busy_cores: {slowdown: 1.2}, shared_core: 4}", "1:45",
     "shared_core: unknown key; known keys here: busy_cores, collectives, comm_profile, cores, "
     "fabric, gloo, "
     "gpus_per_node, head_start, host_bandwidth, kernels, measured_steps, memory, name, nccl, nic, "
     "nic_burst, "
     "nic_latency, nic_vendor, nics, "
     "nodes, nvlink, nvlink_latency, nvme, pcie, pcie_latency, run_queue, shared_cores, speed, "
     "staged_rate, tdp, "
     "transport, usd_per_hour, use",
     "did you mean \"shared_cores\"?"},
    {"{use: aws_p4d, run_queue: {ready: 2ms, step: 1ms}}", "1:35",
     "run_queue.ready: a thread is ready for no longer than the step takes", "give `step` or less"},
    {"{use: aws_p4d, run_queue: {ready: 0ms, step: 0ms}}", "1:46",
     "run_queue.step: a step takes time", "give its length"},
    {"{use: aws_p4d, shared_cores: 4, busy_cores: {slowdown: 0.9}}", "1:56",
     "busy_cores.slowdown: cores are no faster for being busy", "give 1 or more"},
    {"{use: aws_p4d, shared_cores: 4, busy_cores: {slowdown: 1, drift: -0.1}}", "1:66",
     "busy_cores.drift: expected a number of at least 0; got \"-0.1\"", ""},
    {"{use: aws_p4d, head_start: -1}", "1:28",
     "head_start: expected a number of at least 0; got \"-1\"", ""},
    {"{use: aws_p4d, nic_burst: 10Gbps}", "1:27",
     "nic_burst: expected a size with its unit, such as \"25MiB\" or \"80GB\"; got \"10Gbps\" "
     "(units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)",
     ""},
    {"nodes: 1\nnode: {nvlnk: 300GBps}\n", "2:8",
     "node.nvlnk: unknown key; known keys here: cores, gpu, gpus, host_bandwidth, host_launch, "
     "memory, "
     "nic, nic_burst, nic_latency, nic_vendor, nics, nvlink, nvlink_latency, nvme, pcie, "
     "pcie_latency, "
     "pcie_peer_to_peer, pcie_roots, root_link, "
     "speed, staged_rate, tdp, transport, usd_per_hour",
     "did you mean \"nvlink\"?"},
    {"nodes: 2\nnode: {gpus: 8, nic: 10Gbps, nics: 0}\n", "2:36",
     "node.nics: expected a whole number from 1 to 128; got \"0\"", ""},
    {"nodes: 2\nnode: {gpus: 4, nic: 10Gbps, nics: 8}\n", "2:36",
     "node.nics: 8 NICs for 4 GPUs; a GPU sends through one",
     "nics: 4, and nic stays the rate of one: the others are idle"},
    {"nodes: 2\nnode: {gpus: 0, gpu: A10G, nic: 10Gbps}\n", "2:17",
     "node.gpu: describes a GPU, but the node has none (gpus: 0)",
     "remove it, or set gpus to 1 or more"},
    {"nodes: 2\nnode: {gpus: 0, nvlink: 300GBps, nic: 10Gbps}\n", "2:17",
     "node.nvlink: describes a GPU, but the node has none (gpus: 0)",
     "remove it, or set gpus to 1 or more"},
    {"nodes: 1\nnode: {nvlink_latency: 1us}\n", "2:8",
     "node.nvlink_latency: a latency of NVLink without NVLink",
     "give its rate per GPU and direction too, such as `nvlink: 300GBps`"},
    {"nodes: 1\nnode: {gpu: A100-SMX-80}\n", "2:13",
     "node.gpu: expected one of A10, A100-PCIe-40, A100-PCIe-80, A100-SXM-40, A100-SXM-80, A10G, "
     "A30, A40, A800-PCIe-40, A800-PCIe-80, A800-SXM-80, B200, B300, GB10, GB200, GB300, GH200-96, "
     "H100-NVL, H100-PCIe, H100-SXM, H100-SXM-96, H20, H200-SXM, H800-SXM, L20, L4, L40S, MI210, "
     "MI250, MI250X, MI300X, MI325X, MI355X, RTX-3090, RTX-4090, RTX-5090, RTX-6000-Ada, "
     "RTX-A5000, RTX-A6000, RTX-PRO-6000, T4, V100-PCIe-16, V100-SXM2-16, V100-SXM2-32, "
     "generic; got \"A100-SMX-80\"",
     "did you mean \"A100-SXM-80\"?"},
    {"nodes: 1\nnode: {gpu: {fp32: 10TFLOPs, memory: 16GiB}}\n", "2:13",
     "node.gpu: the key \"memory_bandwidth\" is missing", ""},
    {"nodes: 1\nnode: {memory: 0}\n", "2:16", "node.memory: expected a size above zero; got 0", ""},
    // Groups.
    {"nodes: 1\nnode: {}\ngroups: [{nodes: 1, node: {}}]\n", "1:1",
     "nodes: a cluster has either `nodes` and `node` or `groups`; got both",
     "make it one more entry of groups"},
    {"groups: []\n", "1:9", "groups: expected at least one group of nodes; got an empty list", ""},
    {"groups:\n  - {name: a, nodes: 1, node: {nic: 1Gbps}}\n  - {name: a, nodes: 1, node: {nic: "
     "1Gbps}}\n",
     "3:5", "groups.1: a second group named \"a\"", "give each group a name of its own"},
    // Fabrics.
    {EIGHT "fabric: {fat_tree: {down: [4, 4], up: [1, 2], links: [1, 2], bandwidth: 1GBps}}\n",
     "3:27", "fabric.fat_tree.down: 4 x 4 = 16 nodes, but the cluster has 8",
     "choose numbers whose product is 8, or another number of nodes"},
    {EIGHT "fabric: {fat_tree: {down: [1000000, 1000000], up: [1, 1], links: [1, 1], bandwidth: "
           "1GBps}}\n",
     "3:27",
     "fabric.fat_tree.down: 1000000 x 1000000 = more than 1000000 nodes, but the cluster has 8",
     "choose numbers whose product is 8, or another number of nodes"},
    {EIGHT "fabric: {fat_tree: {down: [2, 4], up: [1], links: [1, 1], bandwidth: 1GBps}}\n", "3:39",
     "fabric.fat_tree.up: expected 2 numbers, one for each level of `down`; got 1", ""},
    {EIGHT
     "fabric: {fat_tree: {down: [2, 4], up: [1000, 1001], links: [1, 1], bandwidth: 1GBps}}\n",
     "3:39", "fabric.fat_tree.up: the tree has more than 1000000 switches", ""},
    {EIGHT "fabric: {fat_tree: {down: [], up: [], links: [], bandwidth: 1GBps}}\n", "3:27",
     "fabric.fat_tree.down: expected at least one number; got an empty list", ""},
    {EIGHT "fabric: {torus: {dimensions: [3, 3], bandwidth: 1GBps}}\n", "3:30",
     "fabric.torus.dimensions: 3 x 3 = 9 nodes, but the cluster has 8",
     "choose numbers whose product is 8, or another number of nodes"},
    {EIGHT "fabric: {torus: {dimensions: [1, 1, 1, 1, 1, 1, 1, 1, 8], bandwidth: 1GBps}}\n", "3:30",
     "fabric.torus.dimensions: expected at most 8 numbers; got 9", ""},
    {EIGHT "fabric: {dragonfly: {groups: 2, chassis: 1, routers: 2, nodes_per_router: 4, "
           "bandwidth: 1GBps}}\n",
     "3:21", "fabric.dragonfly: 2 x 1 x 2 x 4 = 16 nodes, but the cluster has 8",
     "choose numbers whose product is 8, or another number of nodes"},
    {EIGHT "fabric: {dragonfly: {groups: 4, chassis: 1, routers: 2, nodes_per_router: 1, "
           "bandwidth: 1GBps}}\n",
     "3:22", "fabric.dragonfly.groups: 4 groups need as many routers in a chassis, which has 2",
     "a group hangs on one router of the first chassis of every other group: raise routers"},
    {TWO "fabric: {fattree: {}}\n", "3:10",
     "fabric.fattree: unknown key; known keys here: dragonfly, fat_tree, rail, sites, star, torus",
     "did you mean \"fat_tree\"?"},
    {TWO "fabric: {}\n", "3:9",
     "fabric: expected one of star, fat_tree, dragonfly, torus, rail, sites; got 0",
     "write, for example, `fabric: {star: {}}`"},
    {TWO "fabric: {star: {}, torus: {dimensions: [2], bandwidth: 1GBps}}\n", "3:9",
     "fabric: expected one of star, fat_tree, dragonfly, torus, rail, sites; got 2",
     "write, for example, `fabric: {star: {}}`"},
    // Platforms.
    {"{use: dgx_h10}", "1:7",
     "use: expected one of aws_g4dn_metal, aws_g5_12xlarge, aws_g5_48xlarge, "
     "aws_g6_48xlarge, aws_g6e_48xlarge, aws_p3dn, aws_p4d, aws_p4de, aws_p5, aws_p5e, "
     "aws_p5en, aws_p6_b200, aws_p6_b300, azure_nd_a100_v4, azure_nd_h100_v5, "
     "azure_nd_h200_v5, azure_nd_mi300x_v5, azure_ndm_a100_v4, bytedance_v100_pcie, "
     "coreweave_h100, dgx1_v100, "
     "dgx_a100, dgx_b200, dgx_b300, dgx_gb200_nvl72, dgx_gb300_nvl72, dgx_h100, dgx_h200, "
     "gcp_a2_highgpu, gcp_a2_ultragpu, gcp_a3_high, gcp_a3_mega, gcp_a3_ultra, gcp_a4_high, "
     "generic, "
     "gmu_hopper_a100, lambda_b200, lambda_h100, lambda_h100_cluster, lightning_a10g, "
     "nebius_b200, nebius_h200, oracle_a100, oracle_b200, oracle_bm_gpu4, oracle_h100, "
     "oracle_h200, oracle_mi300x, "
     "oracle_mi355x, rtx_3090_8x, rtx_4090_8x, verda_h100; got \"dgx_h10\"",
     "did you mean \"dgx_h100\"?"},
    {"{use: gmu_hopper_a100, gpus_per_node: 8}", "1:39",
     "gpus_per_node: a node of gmu_hopper_a100 has 4 GPUs; got 8",
     "use more nodes, or write the node inline"},
    {"{use: aws_p4d, nics: 9}", "1:22", "nics: 9 NICs for 8 GPUs; a GPU sends through one",
     "nics: 8, and nic stays the rate of one: the others are idle"},
    {"{use: aws_p4d, node: {nic: 10Gbps}}", "1:16",
     "node: `use` takes its machines from the platform; they cannot be given too",
     "remove `use`, or change the platform by keys that `rehearse list keys cluster.` names"},
    {"{use: aws_p4d, collectives: links, nccl: {version: \"2.23.4\"}}", "1:42",
     "nccl: collectives go by links alone, where NCCL has no options",
     "remove it, or `collectives: links`"},
    {"{use: aws_p4d, nccl: {version: new}}", "1:32",
     "nccl.version: expected a version of NCCL; got \"new\"",
     "write it as NCCL prints it, such as `version: \"2.23.4\"`"},
    {"{use: aws_p4d, nccl: {protocols: [LL, Fast]}}", "1:39",
     "nccl.protocols.1: expected one of LL, LL128, Simple; got \"Fast\"", ""},
    {"{use: aws_p4d, transport: ib}", "1:27", "transport: expected one of rdma, tcp; got \"ib\"",
     ""},
    {"{use: aws_p4d, transport: {rdma: {efficiency: 2}}}", "1:47",
     "transport.rdma.efficiency: expected a share of the NIC's rate, at most 1", ""},
    {"{use: aws_p4d, transport: {rdma: {}, tcp: {}}}", "1:27",
     "transport: expected one of rdma, tcp", "write, for example, `transport: rdma`"},
    {"{use: aws_p4d, staged_rate: 3GBps}", "1:16",
     "staged_rate: nothing is staged between GPUs with peer-to-peer access", "remove it"},
    {"{use: aws_g5_48xlarge, nvlink: 300GBps}", "1:24",
     "nvlink: the GPUs of aws_g5_48xlarge have no NVLink", "write the node inline"},
    {"nodes: 1\nnode: {gpus: 2, staged_rate: 3GBps}\n", "2:17",
     "node.staged_rate: nothing is staged between GPUs with peer-to-peer access",
     "remove it, or give `pcie_peer_to_peer: false` too"},
    {"{use: aws_p4d, memory: 0B}", "1:24", "memory: expected a size above zero; got 0B", ""},
};

std::string error_of(const std::string& yaml) {
  try {
    read_cluster(Document::parse(yaml, "c.yaml")->root());
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

BOOST_DATA_TEST_CASE(an_impossible_cluster_names_its_place_its_fault_and_its_remedy,
                     boost::unit_test::data::make(kImpossible), input) {
  const std::string error = error_of(input.yaml);
  const std::string first = error.substr(0, error.find('\n'));
  const std::string last = error.substr(error.rfind('\n') + 1);
  BOOST_TEST(first == "c.yaml:" + std::string(input.place) + ": error: " + input.message);
  if (*input.remedy != '\0') {
    BOOST_TEST(last == "remedy: " + std::string(input.remedy));
  } else {
    BOOST_TEST(last.substr(last.find_first_not_of(' ')) == "^");
  }
}

BOOST_AUTO_TEST_CASE(more_nodes_than_the_platforms_fabric_has_are_refused_at_nodes) {
  const PlatformFile file(
      "name: rack\nnodes: 4\nnode: {nic: 10Gbps}\n"
      "fabric: {torus: {dimensions: [2, 2], bandwidth: 1GBps}}\n");
  BOOST_TEST(error_of(file.use("nodes: 8")) ==
             "c.yaml:2:1: error: nodes: the torus of rack has 4 nodes; the cluster would have 8\n"
             "nodes: 8\n^\n"
             "remedy: give a fabric of that size too, such as `fabric: {star: {}}`");
  BOOST_TEST(error_of(file.use("nodes: 4")) == "no error");
  BOOST_TEST(error_of(file.use("nodes: 8\nfabric: {star: {}}")) == "no error");
}

BOOST_AUTO_TEST_CASE(several_nodes_of_a_platform_without_network_need_one) {
  const PlatformFile file("name: desk\nnodes: 1\nnode: {gpus: 2}\n");
  const std::string error = error_of(file.use("nodes: 2"));
  BOOST_TEST(error.substr(0, error.find('\n')) ==
             "c.yaml:1:1: error: the nodes of desk have no NIC to reach each other");
  BOOST_TEST(error_of(file.use("nodes: 2\nnic: 25Gbps")) == "no error");
}

BOOST_AUTO_TEST_CASE(nodes_of_a_platform_with_two_kinds_of_gpu_nodes_are_ambiguous) {
  const PlatformFile file(
      "name: mixed\ngroups:\n  - {nodes: 1, node: {nic: 1Gbps}}\n  - {nodes: 1, node: {nic: "
      "1Gbps}}\n");
  const std::string error = error_of(file.use("nodes: 2"));
  BOOST_TEST(error.substr(0, error.find('\n')) ==
             "c.yaml:2:8: error: nodes: mixed has several groups with GPUs; which one is meant?");
}

BOOST_AUTO_TEST_CASE(groups_of_a_platform_may_have_rates_of_their_own) {
  const PlatformFile file(
      "name: mixed\ngroups:\n  - {name: a, nodes: 1, node: {nic: 1Gbps}}\n"
      "  - {name: b, nodes: 1, node: {nic: 1Gbps}}\n");
  const Cluster cluster =
      read_cluster(Document::parse(file.use("nic: [350Mbps, 8Gbps]"), "c.yaml")->root());
  BOOST_TEST(cluster.groups[0].node.nic_bandwidth.value() == 43.75e6);
  BOOST_TEST(cluster.groups[1].node.nic_bandwidth.value() == 1e9);
  const std::string error = error_of(file.use("nic: [1Gbps]"));
  BOOST_TEST(error.substr(0, error.find('\n')) ==
             "c.yaml:2:6: error: nic: mixed has 2 groups of nodes; got 1 value");
}

BOOST_AUTO_TEST_CASE(a_platform_file_that_is_not_there_is_missing) {
  BOOST_CHECK_THROW(error_of("use: nowhere.yaml\n"), MissingError);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
