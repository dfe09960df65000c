// What must hold of NCCL's model on every shipped cluster, without a measurement.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <map>
#include <optional>

#include "collective/nccl_constants.hpp"
#include "collective/nccl_model.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(nccl_properties_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kMiB = 1048576;
const auto kSizes = {4.0,      1024.0,    64 * 1024.0, 512 * 1024.0, kMiB,
                     4 * kMiB, 25 * kMiB, 64 * kMiB,   1024 * kMiB};

/// Read once.
Cluster shipped(const std::string& name, int nodes) {
  static std::map<std::pair<std::string, int>, Cluster> known;
  const auto [at, fresh] = known.try_emplace({name, nodes});
  if (fresh) {
    const std::string text = "{use: " + name + ", nodes: " + std::to_string(nodes) + "}";
    at->second = read_cluster(Document::parse(text, "c.yaml")->root());
  }
  return at->second;
}

/// The first `local` GPUs of each node.
NcclMachine machine(const Cluster& cluster, int local, int nodes) {
  std::vector<Place> places;
  for (const Place& place : gpu_places(cluster))
    if (place.gpu < local) places.push_back(place);
  return nccl_machine(cluster, places, local * nodes, nodes);
}

/// All GPUs; of a send two: of a node, or one of each of two nodes.
std::optional<NcclMachine> machine_for(CollectiveKind kind, const Cluster& cluster, int local,
                                       int nodes) {
  if (kind != CollectiveKind::send_recv)
    return local * nodes < 2 ? std::nullopt : std::optional(machine(cluster, local, nodes));
  if (nodes == 1) return local < 2 ? std::nullopt : std::optional(machine(cluster, 2, 1));
  return nodes == 2 ? std::optional(machine(cluster, 1, 2)) : std::nullopt;
}

double time_of(const NcclMachine& on, CollectiveKind kind, double size) {
  return nccl_estimate(on, kind, Bytes(size)).total().value();
}

// Eight GPUs behind two switches: 12 GB/s to the three neighbours, 5.4 over the CPUs.
BOOST_AUTO_TEST_CASE(peers_behind_two_roots_meet_over_the_cpus_link) {
  const Cluster cluster = shipped("bytedance_v100_pcie", 1);
  BOOST_TEST(machine(cluster, 4, 1).inside.value() == 12e9);
  BOOST_TEST(machine(cluster, 8, 1).inside.value() == 5.4e9);
  BOOST_TEST(machine(cluster, 5, 1).inside.value() == 5.4e9);
}

int gpus_of(const Cluster& cluster) { return cluster.groups[0].node.gpus; }

const auto kNames = data::make(cluster_names());
BOOST_DATA_TEST_CASE(more_bytes_take_longer, kNames* data::make({1, 2, 3, 16}), name, nodes) {
  const Cluster cluster = shipped(name, nodes);
  for (const CollectiveKind kind : kCollectiveKinds) {
    const auto on = machine_for(kind, cluster, gpus_of(cluster), nodes);
    if (!on) continue;
    double last = 0;
    for (const double size : kSizes) {
      const double time = time_of(*on, kind, size);
      BOOST_TEST(time > last, to_string(kind) << " of " << size);
      last = time;
    }
  }
}

// Layouts have groups of k ranks on each of n nodes. Fewer ranks own fewer NICs, so that small
// sizes alone must not get faster. NVLS, which comes in above four ranks, may be faster.
BOOST_DATA_TEST_CASE(more_ranks_on_each_node_take_longer_where_steps_decide,
                     kNames* data::make({2, 16}), name, nodes) {
  Cluster cluster = shipped(name, nodes);
  cluster.nccl.algorithms = {NcclAlgorithm::ring, NcclAlgorithm::tree, NcclAlgorithm::direct};
  for (const CollectiveKind kind : kCollectiveKinds) {
    if (kind == CollectiveKind::send_recv) continue;
    double last = 0;
    for (int local = 1; local <= gpus_of(cluster); ++local) {
      const double time = time_of(machine(cluster, local, nodes), kind, 4);
      BOOST_TEST(time >= last * (1 - 1e-12), to_string(kind) << " on " << local);
      last = time;
    }
  }
}

// A DGX-1's rings have unlike numbers of links, AMD's GPUs one to each other, and NVLS comes in
// above four ranks: there more ranks may be faster.
BOOST_DATA_TEST_CASE(more_ranks_of_a_node_take_longer, kNames, name) {
  Cluster cluster = shipped(name, 1);
  cluster.nccl.algorithms = {NcclAlgorithm::ring};
  const Node& node = cluster.groups[0].node;
  if (node.gpu.architecture->links != GpuLinks::switched) return;
  for (const CollectiveKind kind : kCollectiveKinds) {
    if (kind == CollectiveKind::send_recv) continue;
    for (const double size : kSizes) {
      double last = 0;
      for (int local = 2; local <= node.gpus; ++local) {
        const double time = time_of(machine(cluster, local, 1), kind, size);
        BOOST_TEST(time >= last * (1 - 1e-12), to_string(kind)
                                                   << " of " << size << " on " << local);
        last = time;
      }
    }
  }
}

// NVLink SHARP's trees over several racks were measured by nobody: the fill is that of eight GPUs a
// node, and with NICs as fast as GB300's two racks take 2 % less than one.
BOOST_DATA_TEST_CASE(more_nodes_take_longer, kNames, name) {
  if (name == "dgx_gb300_nvl72") return;
  for (const CollectiveKind kind : kCollectiveKinds) {
    if (kind == CollectiveKind::send_recv) continue;
    for (const double size : kSizes) {
      double last = 0;
      for (const int nodes : {1, 2, 3, 4, 8, 64}) {
        const Cluster cluster = shipped(name, nodes);
        const int gpus = gpus_of(cluster);
        if (gpus * nodes < 2) continue;
        const double time = time_of(machine(cluster, gpus, nodes), kind, size);
        BOOST_TEST(time >= last * (1 - 1e-12), to_string(kind)
                                                   << " of " << size << " on " << nodes);
        last = time;
      }
    }
  }
}

BOOST_DATA_TEST_CASE(four_bytes_are_slower_on_two_nodes_than_on_one, kNames, name) {
  const int gpus = gpus_of(shipped(name, 1));
  if (gpus < 2) return;
  for (const CollectiveKind kind : kCollectiveKinds) {
    BOOST_TEST(time_of(*machine_for(kind, shipped(name, 2), gpus, 2), kind, 4) >
                   time_of(*machine_for(kind, shipped(name, 1), gpus, 1), kind, 4),
               to_string(kind));
  }
}

// Between three nodes and more, a ring's and a double tree's bytes all pass the NICs; over two a
// tree sends them once where a ring sends them 2(n-1)/n times.
BOOST_DATA_TEST_CASE(busbw_is_never_above_what_the_links_allow, kNames* data::make({1, 2, 3, 16}),
                     name, nodes) {
  const Cluster cluster = shipped(name, nodes);
  const Node& node = cluster.groups[0].node;
  for (const CollectiveKind kind : kCollectiveKinds) {
    const auto asked = machine_for(kind, cluster, node.gpus, nodes);
    if (!asked) continue;
    const NcclMachine& on = *asked;
    const double factor = bus_factor(kind, on.ranks);
    for (const double size : kSizes) {
      const double busbw = size * factor / time_of(on, kind, size);
      double most = nodes == 1 ? on.inside.value() : on.nics * nic_rate(node).value();
      // All of a node's ranks send at once, each (nodes - 1) / nodes of its bytes out of it.
      if (nodes > 1 && kind == CollectiveKind::all_to_all)
        most *= factor * nodes / (on.local() * (nodes - 1.0));
      // The switch adds up, so that no port sends twice; a tree over two nodes crosses once.
      if (nodes == 1 && kind == CollectiveKind::all_reduce)
        most *= gpu_architecture("hopper")->nccl.nvls;
      if (nodes == 2 && kind == CollectiveKind::all_reduce) most *= factor;
      BOOST_TEST(busbw <= most, to_string(kind) << " of " << size << ": " << busbw / most);
    }
  }
}

// NCCL (src/graph/tuning.cc) counts nodes - 1 of a ring's steps between nodes, not all of them:
// 64 nodes of 8 H100s pass 63 such edges in an all_gather.
BOOST_AUTO_TEST_CASE(a_ring_pays_the_network_once_for_each_edge_between_nodes) {
  Cluster cluster = shipped("dgx_h100", 64);
  const NcclMachine on = machine(cluster, 8, 64);
  const double time = nccl_candidates(on, CollectiveKind::all_gather, Bytes(4))[0].latency.value();
  BOOST_TEST(time == 5.6e-6 + 448 * 0.756e-6 + 63 * 9.7e-6, boost::test_tools::tolerance(1e-6));
}

// A DGX-1's V100 has links to four of the seven others. The host passes half of 100 GB/s, of which
// each of eight GPUs gets its share.
BOOST_AUTO_TEST_CASE(v100s_without_a_link_reach_each_other_through_the_host) {
  const Cluster cluster = shipped("dgx1_v100", 1);
  const NcclMachine on = machine(cluster, 8, 1);
  const double size = 1024 * kMiB;
  const NcclEstimate one = nccl_estimate(on, CollectiveKind::all_to_all, Bytes(size));
  BOOST_TEST(
      one.inside.value() == size * 3 / 8 / (staging_rate(cluster.groups[0].node).value() / 8),
      boost::test_tools::tolerance(1e-9));
  BOOST_TEST(machine(cluster, 4, 1).unlinked == 0);
}

BOOST_AUTO_TEST_CASE(versions_and_choices_of_nccl_change_the_answer) {
  Cluster cluster = shipped("dgx_h100", 2);
  const auto chosen = [&](double size) {
    return nccl_estimate(machine(cluster, 8, 2), CollectiveKind::all_reduce, Bytes(size));
  };
  BOOST_TEST((chosen(1024 * kMiB).algorithm == NcclAlgorithm::nvls_tree));
  const double recent = chosen(1024 * kMiB).total().value();
  cluster.nccl.version = NcclVersion{2, 12};
  BOOST_TEST((chosen(1024 * kMiB).algorithm != NcclAlgorithm::nvls_tree));
  BOOST_TEST(chosen(1024 * kMiB).total().value() > 1.3 * recent);
  cluster.nccl.protocols = {NcclProtocol::simple};
  BOOST_TEST((chosen(4).protocol == NcclProtocol::simple));
  cluster.nccl = {.algorithms = {NcclAlgorithm::ring}};
  BOOST_TEST((chosen(4).algorithm == NcclAlgorithm::ring));
}

// Sixteen tensor ranks of vTrain's clusters: 97 GB/s, from steps with 1,456 such all_reduces.
BOOST_AUTO_TEST_CASE(two_nodes_go_at_a_rings_pace_up_to_nccl_2_14) {
  Cluster cluster = shipped("dgx_a100", 2);
  cluster.groups[0].node.nics = 4;
  const auto bus = [&](const NcclVersion& version) {
    cluster.nccl.version = version;
    const double size = 192 * kMiB;
    return 2 * 15 / 16.0 * size / time_of(machine(cluster, 8, 2), CollectiveKind::all_reduce, size);
  };
  BOOST_TEST(bus({2, 14}) > 80e9);
  BOOST_TEST(bus({2, 14}) < 100e9);
  BOOST_TEST(bus({2, 23}) > 140e9);
}

// One rank to a node: log2(64) rounds in place of 63 steps.
BOOST_AUTO_TEST_CASE(pat_takes_the_logarithm_of_the_nodes) {
  Cluster cluster = shipped("dgx_h100", 64);
  const auto time = [&] { return time_of(machine(cluster, 1, 64), CollectiveKind::all_gather, 4); };
  const double with = time();
  cluster.nccl.version = NcclVersion{2, 22};
  BOOST_TEST(with < 0.3 * time());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
