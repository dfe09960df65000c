// What NCCL takes of a GPU's multiprocessors: figures of its logs and its source.
#include <boost/test/unit_test.hpp>

#include "collective/collective_cost.hpp"
#include "collective/nccl_buffers.hpp"
#include "collective/nccl_model.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(nccl_channels_test)
namespace {

constexpr double kGiB = 1073741824;

NcclMachine machine(const std::string& cluster, int nodes) {
  const Cluster read = read_cluster(
      Document::parse("{" + cluster + ", nodes: " + std::to_string(nodes) + "}", "c.yaml")->root());
  const std::vector<Place> places = gpu_places(read);
  return nccl_machine(read, places, static_cast<int>(places.size()), nodes);
}

int channels(const NcclMachine& on, CollectiveKind kind, double size = kGiB) {
  return nccl_channels(on, kind, Bytes(size), nccl_estimate(on, kind, Bytes(size)));
}

// NCCL's issue 1225 says 24 for a DGX A100, 1646 has 32 in the log of a DGX B200, 892 has 16 in
// that of eight H800s, whose GPUs have 8 links. Logs of eight H100s have 24.
BOOST_AUTO_TEST_CASE(one_node_has_as_many_as_its_links_are_worth) {
  BOOST_TEST(channels(machine("use: dgx_a100", 1), CollectiveKind::all_reduce) == 24);
  BOOST_TEST(channels(machine("use: dgx_h100", 1), CollectiveKind::all_gather) == 24);
  BOOST_TEST(channels(machine("use: dgx_b200", 1), CollectiveKind::reduce_scatter) == 32);
  const std::string h800 = "node: {gpus: 8, gpu: H800-SXM, nvlink: 200GBps}";
  BOOST_TEST(channels(machine(h800, 1), CollectiveKind::all_gather) == 16);
}

/// MiB of a communicator's buffers.
double buffers(const std::string& cluster, int nodes = 1) {
  return nccl_buffers(machine(cluster, nodes)).value() / (1024 * 1024);
}

BOOST_AUTO_TEST_CASE(a_communicator_has_ten_mebibytes_for_each_connection) {
  // Of 24 channels; on Hopper the switch's 16 besides, up and down, for each of a node's ranks.
  BOOST_TEST(buffers("use: dgx_a100") == 24 * 30);
  BOOST_TEST(buffers("use: dgx_h100") == 24 * 30 + 2 * 16 * 8 * 4);
  BOOST_TEST(buffers("use: dgx_h100, nccl: {algorithms: [Ring]}") == 24 * 30);
  BOOST_TEST(buffers("use: dgx_h100, nccl: {version: 2.14}") == 24 * 30);
}

// src/transport/nvls.cc: 16 on Hopper, 24 on Blackwell.
BOOST_AUTO_TEST_CASE(the_switch_needs_fewer) {
  const NcclEstimate by_switch{.algorithm = NcclAlgorithm::nvls};
  const auto of = [&](const char* cluster) {
    return nccl_channels(machine(cluster, 1), CollectiveKind::all_reduce, Bytes(kGiB), by_switch);
  };
  BOOST_TEST(channels(machine("use: dgx_h100", 1), CollectiveKind::all_reduce) == 16);
  BOOST_TEST(of("use: dgx_h100") == 16);
  BOOST_TEST(of("use: dgx_b200") == 24);
}

BOOST_AUTO_TEST_CASE(between_nodes_each_nic_has_two) {
  BOOST_TEST(channels(machine("use: dgx_h100", 4), CollectiveKind::all_gather) == 16);
  BOOST_TEST(channels(machine("use: aws_p4d", 4), CollectiveKind::all_gather) == 8);
}

BOOST_AUTO_TEST_CASE(pcie_has_one_ring_twice) {
  const std::string cards = "node: {gpus: 8, gpu: L40S}";
  BOOST_TEST(channels(machine(cards, 1), CollectiveKind::all_reduce) == 2);
}

BOOST_AUTO_TEST_CASE(few_bytes_have_fewer) {
  const NcclMachine on = machine("use: dgx_a100", 1);
  BOOST_TEST(channels(on, CollectiveKind::all_reduce, 4) == 1);
  int last = 1;
  for (const double size : {1e4, 1e5, 1e6, 1e7, 1e8})
    for (const CollectiveKind kind : {CollectiveKind::all_gather}) {
      const int now = channels(on, kind, size);
      BOOST_TEST(now >= 1);
      BOOST_TEST(now <= 24);
      if (size >= 1e7) BOOST_TEST(now >= last);
      last = now;
    }
}

BOOST_AUTO_TEST_CASE(an_exchange_takes_a_power_of_two) {
  BOOST_TEST(channels(machine("use: dgx_a100", 1), CollectiveKind::all_to_all) == 32);
  BOOST_TEST(channels(machine("use: aws_p4d", 4), CollectiveKind::all_to_all) == 8);
}

BOOST_AUTO_TEST_CASE(compute_has_what_is_left) {
  const NcclMachine h100 = machine("use: dgx_h100", 1);
  BOOST_TEST(h100.multiprocessors == 132);
  BOOST_TEST(nccl_compute_slowdown(h100, 24) == 132.0 / 108);
  BOOST_TEST(nccl_compute_slowdown(h100, 1000) == 2);
}

BOOST_AUTO_TEST_CASE(nothing_is_said_of_gpus_that_are_not_known) {
  BOOST_TEST(nccl_compute_slowdown(machine("node: {gpus: 8, nvlink: 300GBps}", 1), 24) == 1);
  BOOST_TEST(
      nccl_compute_slowdown(machine("node: {gpus: 8, gpu: MI300X, nvlink: 300GBps}", 1), 24) == 1);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
