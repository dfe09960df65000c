// Chakra's traces, topologies, and one line of a log as a calibration.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "../scratch.hpp"
#include "base/error.hpp"
#include "foreign/calibrate.hpp"
#include "foreign/topology.hpp"
#include "foreign/traces/chakra_schedule.hpp"
#include "scenario/scenario.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(foreign_others)
namespace {

const std::string kToy =
    "model: {name: toy, batch_per_gpu: 8, optimizer_time: 0s, units: [{name: a, parameters: "
    "1000000, "
    "forward: 1ms, backward: 2ms, activation: 1MiB}, {name: b, parameters: 2000000, forward: 2ms, "
    "backward: 4ms, activation: 1MiB}]}\n"
    "cluster: {nodes: 2, node: {gpu: generic, gpus: 1, pcie: 24GBps, nic: 10Gbps}}\n"
    "strategy: {ddp: {}}\nrun: {jitter: none, speed_spread: 0}\n";

Schedule toy() { return make_schedule(read_scenario(*Document::parse(kToy, "toy.yaml"))); }

BOOST_AUTO_TEST_CASE(a_rank_goes_out_and_comes_back_as_it_was) {
  const Schedule schedule = toy();
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<ChakraNode> nodes = chakra_nodes(schedule, rank);
    BOOST_TEST(!nodes.empty());
    BOOST_CHECK(read_chakra(to_chakra(nodes), "toy.et") == nodes);
  }
}

BOOST_AUTO_TEST_CASE(a_trace_has_the_programs_computation_and_bytes) {
  std::uint64_t micros = 0;
  std::int64_t bytes = 0;
  for (const ChakraNode& node : chakra_nodes(toy(), 0)) {
    if (node.type == ChakraType::compute && !node.on_host) micros += node.duration_micros;
    if (node.type == ChakraType::collective) bytes += node.bytes;
  }
  BOOST_TEST(micros >= 9000u);      // forward and backward of both units
  BOOST_TEST(bytes == 12'000'000);  // 3 million gradients in fp32
}

BOOST_AUTO_TEST_CASE(every_dependency_is_a_node_before_it) {
  std::vector<std::uint64_t> seen;
  for (const ChakraNode& node : chakra_nodes(toy(), 1)) {
    for (const auto* list : {&node.control, &node.data})
      for (const std::uint64_t id : *list) BOOST_TEST((std::ranges::find(seen, id) != seen.end()));
    seen.push_back(node.id);
  }
}

BOOST_AUTO_TEST_CASE(empty_messages_are_refused_at_the_second) {
  BOOST_CHECK_THROW(read_chakra(std::string(1'000'000, '\0'), "zeros.et"), InputError);
}

BOOST_AUTO_TEST_CASE(nodes_in_a_circle_are_refused_by_their_file) {
  ChakraNode first, second;
  first.id = 1;
  first.data = {2};
  second.id = 2;
  second.control = {1};
  try {
    chakra_summary({{"rank0.et", {first, second}}});
    BOOST_ERROR("no error");
  } catch (const InputError& wrong) {
    BOOST_TEST(std::string(wrong.what()).starts_with("rank0.et: error: 2 of 2 nodes wait"));
  }
}

BOOST_AUTO_TEST_CASE(a_cut_trace_is_refused_at_its_byte) {
  const std::string whole = to_chakra(chakra_nodes(toy(), 0));
  int refused = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    try {
      read_chakra(std::string_view(whole).substr(0, length), "cut.et");
    } catch (const InputError& wrong) {
      ++refused;
      BOOST_TEST(std::string(wrong.what()).starts_with("cut.et: error: byte "));
    }
  }
  // Cuts between two messages leave a shorter trace.
  const std::size_t between = chakra_nodes(toy(), 0).size();
  BOOST_TEST(refused == static_cast<int>(whole.size() - between));
}

BOOST_AUTO_TEST_CASE(nvidia_smis_matrix_tells_links_and_nics) {
  const NodeTopology node = read_topology(
      "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\nGPU0\t X "
      "\tNV18\tPIX\t0-47\t0\n"
      "GPU1\tNV18\t X \tSYS\t0-47\t0\nNIC0\tPIX\tSYS\t X \t\t\n\nLegend:\n\n  X    = Self\n",
      "topo.txt");
  BOOST_TEST(node.gpus == 2);
  BOOST_TEST(node.nvlinks.value() == 18);
  BOOST_TEST(node.nics.value() == 1);
}

BOOST_AUTO_TEST_CASE(a_mesh_without_a_switch_is_told) {
  const NodeTopology node = read_topology(
      "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tNV2\tSYS\nGPU1\tNV2\tX\tSYS\nGPU2\tSYS\tSYS\tX\n", "topo.txt");
  BOOST_TEST(node.nvlinks.value() == 0);
  BOOST_TEST(node.untold.front().starts_with("nvlink: 1 of 3 pairs"));
  BOOST_TEST(node.paths.front() == "2 of 3 pairs of GPUs go through the link between sockets");
}

BOOST_AUTO_TEST_CASE(nccls_xml_tells_rates) {
  const NodeTopology node = read_topology(
      "<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0000:01:00.0\" class=\"0x030200\" "
      "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"90\">\n"
      "<nvlink target=\"0000:05:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>\n"
      "<nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\"/></nic></cpu></system>\n",
      "topo.xml");
  BOOST_TEST(node.gpus == 1);
  BOOST_TEST(node.nvlinks.value() == 18);
  BOOST_TEST(node.nic_gbps.value() == 400.0);
  BOOST_TEST(node.pcie_gbytes.value() == 32.0 * 16 / 8 * 128 / 130,
             boost::test_tools::tolerance(1e-9));
  const Cluster cluster =
      read_cluster(Document::parse(cluster_text(node, "H100-SXM", "t"), "t")->root());
  BOOST_TEST(cluster.groups.front().node.nics == 1);
}

/// Drivers since 2023 have a last column "GPU NUMA ID", which is no GPU.
BOOST_AUTO_TEST_CASE(columns_of_gpus_have_numbers) {
  const NodeTopology node = read_topology(
      "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
      "GPU0\t X \tNV18\tNODE\t0-47\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\t0-47\t0\t\tN/A\n",
      "topo.txt");
  BOOST_TEST(node.nvlinks.value() == 18);
  BOOST_TEST(cluster_text(node, "H100-SXM", "t").find("nvlink: 450GBps") != std::string::npos);
}

/// A DGX-1's V100s have six links each, to four others; behind a switch each pair shows all.
BOOST_AUTO_TEST_CASE(links_of_a_mesh_add_up_and_those_of_a_switch_do_not) {
  std::string mesh = "\tGPU0\tGPU1\tGPU2\tGPU3\n", switched = mesh;
  for (int i = 0; i < 4; ++i) {
    mesh += "GPU" + std::to_string(i);
    switched += "GPU" + std::to_string(i);
    for (int j = 0; j < 4; ++j) {
      mesh += i == j ? "\tX" : "\tNV2";
      switched += i == j ? "\tX" : "\tNV12";
    }
    mesh += "\n";
    switched += "\n";
  }
  const auto text = [](const std::string& matrix, const std::string& gpu) {
    return cluster_text(read_topology(matrix, "topo.txt"), gpu, "t");
  };
  BOOST_TEST(text(mesh, "V100-SXM2-32").find("nvlink: 150GBps  # 6 links") != std::string::npos);
  BOOST_TEST(text(switched, "A100-SXM-80").find("nvlink: 300GBps  # 12 links") !=
             std::string::npos);
}

/// Bridges join cards two by two; one pair alone is as a switch of two.
BOOST_AUTO_TEST_CASE(bridged_pairs_are_no_mesh) {
  const auto text = [](const std::string& matrix) {
    return cluster_text(read_topology(matrix, "topo.txt"), "RTX-A6000", "t");
  };
  const std::string pairs = text(
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
      "GPU0\t X \tNV4\tSYS\tSYS\t0-47\nGPU1\tNV4\t X \tSYS\tSYS\t0-47\n"
      "GPU2\tSYS\tSYS\t X \tNV4\t0-47\nGPU3\tSYS\tSYS\tNV4\t X \t0-47\n");
  BOOST_TEST(pairs.find("  nvlink:") == std::string::npos);
  BOOST_TEST(pairs.find("# nvlink: bridges join pairs of GPUs") != std::string::npos);
  const std::string two =
      text("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-47\nGPU1\tNV4\t X \t0-47\n");
  BOOST_TEST(two.find("nvlink: 56.25GBps  # 4 links of 14.06 GB/s") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(xgmi_links_and_impossible_nics_are_told) {
  const NodeTopology node = read_topology(
      "<system version=\"2\"><pci class=\"0x120000\" vendor=\"0x1002\" device=\"0x74a1\" "
      "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\">\n"
      "<xgmi target=\"a\" count=\"1\"/></gpu></pci><pci class=\"0x120000\"><gpu dev=\"1\">\n"
      "<xgmi target=\"b\" count=\"1\"/></gpu></pci>\n"
      "<nic><net name=\"cxi0\" speed=\"200000000\"/></nic></system>\n",
      "rccl.xml");
  BOOST_TEST(node.nvlinks.value() == 1);
  BOOST_TEST(node.nics.value() == 0);
  BOOST_TEST(node.untold.front().starts_with("nic: 1 NICs of 200000 Gbit/s"));
  BOOST_TEST(gpu_of_pci_device(node.pci_device) == "MI300X");
}

/// rocm-smi --showtopo has weights and hops above its links, and nvidia-smi's peers come behind.
BOOST_AUTO_TEST_CASE(of_several_matrices_the_links_count) {
  const NodeTopology rocm = read_topology(
      "===== Weight between two GPUs =====\n       GPU0         GPU1\n"
      "GPU0   0            15\nGPU1   15           0\n"
      "===== Hops between two GPUs =====\n       GPU0         GPU1\n"
      "GPU0   0            1\nGPU1   1            0\n"
      "===== Link Type between two GPUs =====\n       GPU0         GPU1\n"
      "GPU0   0            XGMI\nGPU1   XGMI         0\n",
      "rocm.txt");
  BOOST_TEST(rocm.gpus == 2);
  BOOST_TEST(rocm.nvlinks_to_all == 1);
  const NodeTopology peers = read_topology(
      "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-63\nGPU1\tPHB\t X \t0-63\n\n"
      " \tGPU0\tGPU1\n GPU0\tX\tGNS\n GPU1\tGNS\tX\n",
      "peers.txt");
  BOOST_TEST(peers.gpus == 2);
  const NodeTopology pcie = read_topology(
      "$ nvidia-smi topo -mp\n\tGPU0\tGPU1\nGPU0\t X \tNODE\nGPU1\tNODE\t X \n", "mp.txt");
  BOOST_TEST(pcie.untold.front().starts_with("nvlink: `topo -mp` leaves it out"));
  BOOST_TEST(peers.paths.front().find("1 of 1 pairs") != std::string::npos);
}

/// Of a step that its GPUs bind, speed is what a measured step tells, to the thousandth.
BOOST_AUTO_TEST_CASE(one_measured_step_is_a_calibration) {
  const Scratch scratch;
  std::string text = kToy;
  text.replace(text.find("10Gbps"), 6, "400Gbps");
  text.replace(text.find("nodes: 2"), 8, "nodes: 1");
  const auto file = scratch.write("toy.yaml", text);
  const SolvedNumber solved = solve_number(file, {}, 0.0100);
  BOOST_TEST(solved.key == "cluster.node.speed");
  BOOST_TEST(solved.before == 0.009, boost::test_tools::tolerance(1e-3));
  BOOST_TEST(solved.after == 0.0100, boost::test_tools::tolerance(2e-3));
  BOOST_TEST(solved.factor == 0.9, boost::test_tools::tolerance(2e-3));
  BOOST_CHECK_THROW(solve_number(file, {}, 1.0), InputError);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
