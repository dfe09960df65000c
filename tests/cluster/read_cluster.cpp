#include <algorithm>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "cluster/cluster.hpp"
#include "cluster_text.hpp"
#include "kernels/kernel_curves.hpp"
#include "platform_file.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(read_cluster_test)
BOOST_AUTO_TEST_CASE(an_inline_cluster_of_the_generic_gpu_is_read) {
  const Cluster cluster = read(
      "nodes: 4\n"
      "node: {gpus: 1, gpu: generic, memory: 16GiB, nic: 10Gbps, nic_latency: 5us}\n"
      "fabric: {star: {}}\n");
  BOOST_TEST(cluster.node_count() == 4U);
  BOOST_TEST(cluster.gpu_count() == 4U);
  BOOST_TEST(first(cluster).gpu.name == "generic");
  BOOST_TEST(first(cluster).gpu.memory.value() == 16 * kGiB);
  BOOST_TEST(first(cluster).nic_bandwidth.value() == 1.25e9, kTolerance);
  BOOST_TEST(first(cluster).nic_latency.value() == 5 * kUs, kTolerance);
  BOOST_TEST(std::holds_alternative<Star>(cluster.fabric));
  BOOST_TEST(cluster.comm_profile == "");
}

BOOST_AUTO_TEST_CASE(every_key_of_a_node_is_read) {
  const Cluster cluster = read(
      "name: mine\n"
      "source: a test\n"
      "nodes: 2\n"
      "node:\n"
      "  gpus: 8\n"
      "  gpu: {name: X1, fp32: 10TFLOPs, tf32: 20TFLOPs, fp16: 40TFLOPs, bf16: 41TFLOPs,\n"
      "        memory: 80GB, memory_bandwidth: 2039GBps}\n"
      "  nvlink: 300GBps\n"
      "  nvlink_latency: 0.7us\n"
      "  pcie: 25GBps\n"
      "  pcie_latency: 1.5us\n"
      "  pcie_peer_to_peer: false\n"
      "  host_bandwidth: 90GBps\n"
      "  nics: 4\n"
      "  nic: 100Gbps\n"
      "  nic_latency: 2us\n"
      "  nic_burst: 128KiB\n"
      "  speed: 0.5\n"
      "  tdp: 0.35kW\n"
      "  usd_per_hour: {on_demand: 32.77, reserved: 20.1, spot: 11.3}\n"
      "shared_cores: 16\n"
      "busy_cores: {slowdown: 1.25, spread: 0.1}\n");
  BOOST_TEST(cluster.name == "mine");
  BOOST_TEST(cluster.source == "a test");
  const Node& node = first(cluster);
  BOOST_TEST(node.gpus == 8);
  BOOST_TEST(node.gpu.name == "X1");
  BOOST_TEST(node.gpu.fp32.value() == 10e12, kTolerance);
  BOOST_TEST(node.gpu.tf32.value() == 20e12, kTolerance);
  BOOST_TEST(node.gpu.fp16.value() == 40e12, kTolerance);
  BOOST_TEST(node.gpu.bf16.value() == 41e12, kTolerance);
  BOOST_TEST(node.gpu.memory.value() == 80e9, kTolerance);
  BOOST_TEST(node.gpu.memory_bandwidth.value() == 2039e9, kTolerance);
  BOOST_TEST_REQUIRE(node.nvlink.has_value());
  BOOST_TEST(node.nvlink->bandwidth.value() == 300e9, kTolerance);
  BOOST_TEST(node.nvlink->latency.value() == 0.7 * kUs, kTolerance);
  BOOST_TEST(node.pcie.bandwidth.value() == 25e9, kTolerance);
  BOOST_TEST(node.pcie.latency.value() == 1.5 * kUs, kTolerance);
  BOOST_TEST(node.pcie.peer_to_peer == false);
  BOOST_TEST(node.pcie.host_bandwidth.value() == 90e9, kTolerance);
  BOOST_TEST(node.nics == 4);
  BOOST_TEST(node.nic_bandwidth.value() == 12.5e9, kTolerance);
  BOOST_TEST(node.speed == 0.5);
  BOOST_TEST(node.nic_burst.value() == 131072.0);
  BOOST_TEST(node.gpu.tdp.value().value() == 350, kTolerance);
  BOOST_TEST(node.prices.on_demand.value() == 32.77);
  BOOST_TEST(node.prices.reserved.value() == 20.1);
  BOOST_TEST(node.prices.spot.value() == 11.3);
  BOOST_TEST(cluster.shared_cores.value() == 16);
  BOOST_TEST(cluster.busy_cores.value().slowdown == 1.25);
  BOOST_TEST(cluster.busy_cores.value().spread == 0.1);
}

BOOST_AUTO_TEST_CASE(defaults_that_were_taken_stand_in_the_document) {
  const auto document = Document::parse("nodes: 2\nnode: {nic: 10Gbps}\n", "test.yaml");
  const Cluster cluster = read_cluster(document->root());
  BOOST_TEST(first(cluster).gpu.name == "generic");
  const std::vector<std::string>& taken = document->defaults_taken();
  for (const char* key : {"gpus", "gpu", "pcie", "pcie_latency", "pcie_peer_to_peer", "speed",
                          "host_bandwidth", "nics", "nic_latency", "transport"}) {
    const std::string start = "node." + std::string(key) + " = ";
    BOOST_TEST_CONTEXT(key) {
      BOOST_TEST(std::any_of(taken.begin(), taken.end(),
                             [&](const std::string& line) { return line.rfind(start, 0) == 0; }));
    }
  }
  BOOST_TEST(taken.size() == 11U);  // and the fabric
  // What a cluster mostly has none of is no assumption about it.
  BOOST_TEST(first(cluster).nic_burst.value() == 0.0);
  BOOST_TEST(!cluster.shared_cores.has_value());
}

BOOST_AUTO_TEST_CASE(a_cluster_of_one_node_needs_no_nic) {
  const Cluster cluster = read("nodes: 1\nnode: {gpus: 2, nvlink: 300GBps}\n");
  BOOST_TEST(first(cluster).nics == 0);
  BOOST_TEST(first(cluster).nvlink.has_value());
}

BOOST_AUTO_TEST_CASE(groups_of_unlike_nodes_keep_their_order_and_names) {
  const Cluster cluster = read(
      "groups:\n"
      "  - {nodes: 2, node: {gpus: 4, gpu: A100-SXM-80, nic: 100Gbps}}\n"
      "  - {name: server, nodes: 1, node: {gpus: 0, nic: 10Gbps}}\n");
  BOOST_TEST_REQUIRE(cluster.groups.size() == 2U);
  BOOST_TEST(cluster.groups[0].name == "group0");
  BOOST_TEST(cluster.groups[1].name == "server");
  BOOST_TEST(cluster.gpu_count() == 8U);
  BOOST_TEST(cluster.node(NodeId(2)).gpus == 0);
}

BOOST_AUTO_TEST_CASE(every_fabric_is_read) {
  const std::string nodes = "nodes: 16\nnode: {nic: 10Gbps}\nfabric: ";
  const Fabric fat = read(nodes +
                          "{fat_tree: {down: [4, 4], up: [1, 2], links: [1, 2], "
                          "bandwidth: 25GBps, latency: 1us}}")
                         .fabric;
  BOOST_TEST((std::get<FatTree>(fat).down == std::vector<int>{4, 4}));
  BOOST_TEST((std::get<FatTree>(fat).up == std::vector<int>{1, 2}));
  BOOST_TEST((std::get<FatTree>(fat).links == std::vector<int>{1, 2}));
  BOOST_TEST(std::get<FatTree>(fat).bandwidth.value() == 25e9, kTolerance);
  BOOST_TEST(std::get<FatTree>(fat).latency.value() == 1 * kUs, kTolerance);
  const Fabric torus = read(nodes + "{torus: {dimensions: [2, 8], bandwidth: 25GBps}}").fabric;
  BOOST_TEST((std::get<Torus>(torus).dimensions == std::vector<int>{2, 8}));
  BOOST_TEST(std::get<Torus>(torus).latency.value() == 0.15 * kUs, kTolerance);
  const Fabric fly = read(nodes +
                          "{dragonfly: {groups: 2, chassis: 2, routers: 2, nodes_per_router: 2, "
                          "group_links: 3, bandwidth: 25GBps}}")
                         .fabric;
  BOOST_TEST(std::get<Dragonfly>(fly).group_links == 3);
  BOOST_TEST(std::get<Dragonfly>(fly).router_links == 1);
}

BOOST_AUTO_TEST_CASE(a_nic_whose_transport_nobody_says_goes_by_its_rate) {
  const auto node = [](const std::string& keys) {
    return first(read("nodes: 2\nnode: {" + keys + "}"));
  };
  const Node slow = node("nic: 25Gbps"), fast = node("nic: 100Gbps");
  BOOST_TEST((slow.transport.kind == NicTransport::Kind::tcp && !slow.transport.stated));
  BOOST_TEST((fast.transport.kind == NicTransport::Kind::rdma && !fast.transport.stated));
  BOOST_TEST(slow.nic_latency.value() == 25 * kUs, kTolerance);
  BOOST_TEST(fast.nic_latency.value() == 5 * kUs, kTolerance);
  BOOST_TEST(nic_rate(slow).value() == 1.9e9, kTolerance);
  BOOST_TEST(nic_rate(node("nic: 10Gbps")).value() == 1.25e9, kTolerance);
  const Node said = node("nic: 100Gbps, transport: {rdma: {efficiency: 0.81, per_message: 13us}}");
  BOOST_TEST(said.transport.stated);
  BOOST_TEST(nic_rate(said).value() == 0.81 * 12.5e9, kTolerance);
  BOOST_TEST(said.transport.per_message.value() == 13 * kUs, kTolerance);
}

BOOST_AUTO_TEST_CASE(what_is_staged_shares_the_hosts_rate) {
  const auto node = [](const std::string& keys) {
    return first(read("nodes: 1\nnode: {gpus: 4, pcie_peer_to_peer: false" + keys + "}"));
  };
  BOOST_TEST(staging_rate(node("")).value() == 21e9, kTolerance);
  BOOST_TEST(!node("").pcie.staged_rate_stated);
  BOOST_TEST(staging_rate(node(", staged_rate: 8GBps")).value() == 8e9, kTolerance);
  BOOST_TEST(staging_rate(node(", host_bandwidth: 10GBps")).value() == 10e9, kTolerance);
}

BOOST_AUTO_TEST_CASE(hosts_of_pcie_5_stage_what_their_memory_lets_through) {
  const auto rate = [](const std::string& keys) {
    const Node node =
        first(read("nodes: 1\nnode: {gpus: 8, pcie_peer_to_peer: false" + keys + "}"));
    BOOST_TEST(node.pcie.staged_rate_stated == (keys.find("staged") != std::string::npos));
    return staging_rate(node).value() / 1e9;
  };
  // Eight cards on two Xeon 8480+ reach 28 GB/s of busbw, a share of 224 GB/s each.
  BOOST_TEST(rate(", pcie: 50GBps") == 0.73 * 307, kTolerance);
  BOOST_TEST(rate(", pcie: 24GBps, host_bandwidth: 307GBps") == 0.73 * 307, kTolerance);
  BOOST_TEST(rate(", pcie: 50GBps, host_bandwidth: 45GBps") == 0.73 * 45, kTolerance);
  BOOST_TEST(rate(", pcie: 24GBps, host_bandwidth: 205GBps") == 21, kTolerance);
  // What is stated counts, whatever the memory.
  BOOST_TEST(rate(", staged_rate: 200GBps") == 200, kTolerance);
}

BOOST_AUTO_TEST_CASE(tcp_gives_what_its_sockets_and_hosts_do) {
  const auto rate = [](const std::string& tcp, const std::string& nic = "100Gbps") {
    return nic_rate(
               first(read("nodes: 2\nnode: {gpus: 8, nic: " + nic + ", transport: " + tcp + "}")))
               .value() /
           1e9;
  };
  BOOST_TEST(rate("tcp") == 2.8, kTolerance);
  BOOST_TEST(rate("{tcp: {sockets: 2}}") == 4.6, kTolerance);
  BOOST_TEST(rate("{tcp: {sockets: 16}}") == 4.6, kTolerance);
  BOOST_TEST(rate("{tcp: {sockets: 16}}", "25Gbps") == 3.125, kTolerance);
  BOOST_TEST(rate("{tcp: {sockets: 16, host_rate: 9GBps}}") == 9, kTolerance);
  BOOST_TEST(rate("{tcp: {sockets: 4, socket_rate: 0.1GBps}}") == 0.8, kTolerance);
  BOOST_TEST(rate("{tcp: {rate: 11GBps}}") == 11, kTolerance);
  const auto shipped = [](const std::string& name) {
    return nic_rate(first(read("use: " + name + "\nnodes: 2"))).value() / 1e9;
  };
  BOOST_TEST(shipped("aws_g5_12xlarge") == 4.6, kTolerance);
  BOOST_TEST(shipped("gcp_a2_highgpu") == 4.6, kTolerance);
  BOOST_TEST(shipped("lambda_h100") == 2.8, kTolerance);
}

BOOST_AUTO_TEST_CASE(profiles_are_named_from_where_they_are_named) {
  // A folder with a cluster, what it was calibrated with, and nothing else.
  const Scratch folder;
  std::filesystem::create_directories(folder / "compute");
  folder.write("comm.yaml", "not read here\n");
  const std::filesystem::path file =
      folder.write("cluster.yaml",
                   "nodes: 1\n"
                   "node: {gpus: 2, gpu: {fp32: 1TFLOPs, memory: 8GiB, memory_bandwidth: 20GBps,\n"
                   "                     profiles: compute}}\n"
                   "comm_profile: comm.yaml\n");
  const Cluster cluster = read("use: " + file.string());
  BOOST_TEST(cluster.comm_profile == (folder / "comm.yaml").string());
  BOOST_TEST(first(cluster).gpu.profiles == (folder / "compute").string());
  // Those of a name of its own stand for themselves.
  const Cluster shipped = read("{use: aws_p4d, comm_profile: p4d_a100}");
  BOOST_TEST(shipped.comm_profile ==
             (platforms_folder() / "profiles" / "comm" / "p4d_a100.yaml").string());
}

BOOST_AUTO_TEST_CASE(a_platforms_folder_that_is_not_there_is_missing) {
  const std::string folder = platforms_folder().string();
  setenv("REHEARSE_PLATFORMS", "/nowhere/platforms", 1);
  BOOST_CHECK_THROW(cluster_names(), MissingError);
  BOOST_CHECK_THROW(gpu_names(), MissingError);
  setenv("REHEARSE_PLATFORMS", folder.c_str(), 1);
}

BOOST_AUTO_TEST_CASE(every_known_gpu_is_complete) {
  for (const std::string& name : gpu_names()) {
    const Cluster cluster = read("nodes: 1\nnode: {gpu: " + name + "}\n");
    const Gpu& gpu = first(cluster).gpu;
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(gpu.name == name);
      BOOST_TEST(gpu.source != "given");
      BOOST_TEST((gpu.fp16 >= gpu.fp32));
      // Rates and sizes of no GPU so far: a slip in a unit.
      BOOST_TEST((gpu.fp32.value() > 1e12 && gpu.fp16.value() < 3e15));
      BOOST_TEST((gpu.memory.value() > 8e9 && gpu.memory.value() < 320e9));
      BOOST_TEST((gpu.memory_bandwidth.value() > 2e11 && gpu.memory_bandwidth.value() < 1e13));
    }
  }
  BOOST_TEST(gpu_names().size() >= 12U);
}

// 150 of 300 W for 125 of 149.7 TFLOP/s; 400 of 700 W for 148 of 989. The architecture of an RTX
// 4090 is another than its relative's.
BOOST_AUTO_TEST_CASE(relatives_of_less_power_compute_slower) {
  const auto share = [](const char* name) {
    return known_gpu(name).curves->products.at("tensor").share;
  };
  const auto sustained = [](const char* name) { return known_gpu(name).curves->sustained; };
  const double slower = std::sqrt(150 / 125.0 / (300 / 149.7));
  BOOST_CHECK_CLOSE(share("A10"), slower * share("A40"), 1e-6);
  BOOST_CHECK_CLOSE(known_gpu("A10").kernels->matrix_fp32,
                    slower * known_gpu("A40").kernels->matrix_fp32, 1e-6);
  BOOST_TEST(sustained("H20") == 1);
  BOOST_TEST(share("H20") == share("H100-SXM"));
  BOOST_TEST(share("RTX-4090") == share("RTX-3090"));
  BOOST_TEST(sustained("GB300") > sustained("GB200"));
}

BOOST_AUTO_TEST_CASE(files_of_clusters_say_everything_themselves) {
  for (const auto& file : std::filesystem::directory_iterator(platforms_folder() / "clusters")) {
    const auto document = Document::load(file.path());
    for (const std::string& name : document->root().as_map().keys())
      read_cluster(document->root().as_map().require(name));
    // What hosts pass on of staged copies follows from their generation, and nobody measured it.
    for (const std::string& line : document->defaults_taken())
      BOOST_TEST(line.find("staged_rate") != std::string::npos, file.path().string() << line);
  }
}

BOOST_DATA_TEST_CASE(every_shipped_cluster_is_described,
                     boost::unit_test::data::make(cluster_names()), name) {
  BOOST_TEST(read("{use: " + name + "}").source != "");
  BOOST_TEST(read("{use: " + name + ", nodes: 3}").name == name);
  BOOST_TEST(describe_cluster(name).find('\n') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_descriptions_of_platforms_name_gpus_links_and_network) {
  BOOST_TEST(describe_cluster("aws_p4d") ==
             "1 x 8 A100-SXM-40, NVLink 300 GB/s, 4 x NIC 12.5 GB/s; star; "
             "21.96 USD a node and hour");
  BOOST_TEST(describe_cluster("aws_g5_12xlarge") ==
             "1 x 4 A10G, PCIe 24.0 GB/s through host memory, 1 x NIC 5.00 GB/s; star; "
             "5.67 USD a node and hour");
  BOOST_TEST(describe_cluster("lightning_a10g") ==
             "4 x 1 A10G, 1 x NIC 313 MB/s; 1 x CPU node, 1 x NIC 313 MB/s; star");
}
// NCCL reads whose NIC it is; a host's TCP lets 4.6 GB/s through at the most.
BOOST_AUTO_TEST_CASE(sockets_go_by_the_nics_vendor_and_rate) {
  const auto rate = [](const std::string& nic) {
    const std::string node = "{nodes: 2, node: {gpus: 8, gpu: T4, " + nic + "}}";
    return nic_rate(first(read_cluster(Document::parse(node, "c.yaml")->root()))).value();
  };
  BOOST_TEST(rate("nic: 50Gbps, transport: tcp") == 1.9e9, kTolerance);
  BOOST_TEST(rate("nic: 100Gbps, transport: tcp") == 2.8e9, kTolerance);
  BOOST_TEST(rate("nic: 50Gbps, transport: tcp, nic_vendor: google") == 4.6e9, kTolerance);
  BOOST_TEST(rate("nic: 100Gbps, transport: tcp, nic_vendor: amazon") == 4.6e9, kTolerance);
  BOOST_TEST(rate("nic: 100Gbps, transport: {tcp: {sockets: 1}}, nic_vendor: amazon") == 2.8e9,
             kTolerance);
  BOOST_TEST(rate("nic: 100Gbps, transport: {tcp: {socket_rate: 1GBps}}") == 2e9, kTolerance);
  BOOST_TEST(rate("nic: 100Gbps, transport: {tcp: {rate: 3GBps}}, nic_vendor: amazon") == 3e9,
             kTolerance);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
