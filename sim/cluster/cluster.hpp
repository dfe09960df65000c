#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/id.hpp"
#include "base/quantity.hpp"
#include "cluster/gloo_options.hpp"
#include "cluster/gpu_architecture.hpp"
#include "cluster/nccl_options.hpp"
#include "cluster/power.hpp"
#include "cluster/prices.hpp"
#include "config/document.hpp"
#include "model/model.hpp"
#include "profile/comm_links.hpp"

namespace rehearse::inline kernels {
struct KernelCurves;
}

namespace rehearse::inline cluster {

/// Shares of a GPU's datasheet figures that real kernels reach. A kernel takes `launch` and the
/// larger of two times: its FLOPs over a share of the peak, its bytes over a share of the memory
/// bandwidth.
struct KernelShares {
  double matrix = 0;         ///< of the peak: matrix products and convolutions on tensor cores
  double matrix_fp32 = 0;    ///< the same in fp32, without tensor cores
  double matrix_memory = 0;  ///< of the bandwidth: operands of matrix products
  double attention = 0;      ///< of the peak: fused attention, forward and backward
  double memory = 0;         ///< of the bandwidth: all other kernels
  Seconds launch;            ///< of one kernel, on the GPU
  std::string source;
  /// The GPU that they were measured on, where all or some are carried over from a relative.
  std::string relative{};
};

/// A GPU's datasheet: dense rates, no sparsity.
struct Gpu {
  std::string name;
  FlopsPerSecond fp32, tf32, fp16, bf16;  ///< 0 where the GPU lacks the format (falls back to fp32)
  FlopsPerSecond fp8{0}, fp4{0};          ///< 0: it has no such unit
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  std::string source;
  std::shared_ptr<const GpuArchitecture> architecture = unknown_architecture();
  /// Folder of compute profiles measured on this GPU; empty: none.
  std::string profiles{};
  /// The most that it draws for long (thermal design power); nothing: not known.
  std::optional<Watts> tdp{};
  /// Shares that its kernels reach; nothing: they are not known of this GPU.
  std::optional<KernelShares> kernels{};
  /// Curves fitted to its kernels, or to those of the relative that `kernels` names; null if there
  /// are none.
  std::shared_ptr<const KernelCurves> curves{};
  /// Rate of all its NVLinks in one direction; 0: it has none, or nobody says.
  BytesPerSecond nvlink{0};
  /// Streaming multiprocessors (of AMD: compute units); nothing: as many as `curves` are of.
  std::optional<int> sms{};

  /// Peak rate of matrix products under a precision.
  FlopsPerSecond matrix_peak(Precision precision) const;
  /// `sms`, or as many as `curves` are of; 0: not known.
  double multiprocessors() const;
};

/// NVLink or NVSwitch inside a node: each GPU has one port with this rate per direction.
struct NvLink {
  BytesPerSecond bandwidth;
  Seconds latency;
};

/// PCI Express inside a node: each GPU has one port per direction. Without peer-to-peer every byte
/// between two GPUs is staged through host memory: written there by one and read by the other.
struct Pcie {
  BytesPerSecond bandwidth;
  Seconds latency;
  bool peer_to_peer = true;
  /// Rate of the host memory (or root complex) that all staged copies of the node share.
  BytesPerSecond host_bandwidth;
  /// The host's rate for all staged copies together; 0: half of host_bandwidth.
  BytesPerSecond staged_rate{0};
  bool staged_rate_stated = true;  ///< false: as hosts of its kind do, at most host_bandwidth
  /// Root complexes that the node's GPUs are shared out to in their order.
  int roots = 1;
  /// Rate of copies between peers behind unlike roots, per direction: over the CPUs' own link.
  BytesPerSecond root_link{0};
};

/// One kind of machine.
struct Node {
  int gpus = 1;  ///< 0: a CPU node (a parameter server)
  Gpu gpu;
  std::optional<NvLink> nvlink;
  Pcie pcie;                     ///< host to device, and between GPUs where there is no NVLink
  int nics = 1;                  ///< 0: none, of a cluster's only node
  BytesPerSecond nic_bandwidth;  ///< one NIC as sold, per direction
  Seconds nic_latency;           ///< one way from NIC to NIC over the fabric's first switch
  /// Bytes that an idle NIC lets pass at once, per NIC and direction, before its rate holds (a
  /// token bucket: a cloud's burst credits, `tc tbf`).
  Bytes nic_burst{};
  NicTransport transport{};  ///< what it leaves of nic_bandwidth
  NicVendor nic_vendor = NicVendor::other;
  bool nic_ways_shared = false;  ///< both directions of a NIC share its rate
  double speed = 1;              ///< relative compute speed of its GPUs
  std::optional<int> cores{};    ///< of its CPUs, no hyper-threads; nothing: unknown
  /// Rate of all its NVMe drives, reads and writes alike; nothing: it has none that hold states.
  std::optional<BytesPerSecond> nvme{};
  /// CPU time of an eager operator on its host; nothing: unknown (cost.hpp, kHostOperator).
  std::optional<Seconds> host_launch{};
  NodePrices prices{};
};

struct NodeGroup {
  std::string name;
  int nodes = 1;
  Node node;
};

/// All nodes on one non-blocking switch.
struct Star {};
/// Levels of switches from the leaves up; `down[i]` children and `up[i]` parents of a level-i
/// switch, `links[i]` parallel cables. Product of `down` = nodes. Oversubscription is down > up *
/// links.
struct FatTree {
  std::vector<int> down, up, links;
  BytesPerSecond bandwidth;  ///< of one cable
  Seconds latency;           ///< of one cable
  /// Bytes that an idle cable lets pass at once, per direction, as Node::nic_burst; nothing: all
  /// that the NICs let pass. The other fabrics have the same.
  std::optional<Bytes> burst{};
};
/// Groups x chassis x routers x nodes per router, as in Cray Cascade (Kim et al. 2008; SimGrid's
/// dragonfly zone).
struct Dragonfly {
  int groups = 1, chassis = 1, routers = 1, nodes_per_router = 1;
  int group_links = 1, chassis_links = 1, router_links = 1;
  BytesPerSecond bandwidth;
  Seconds latency;
  std::optional<Bytes> burst{};
};
struct Torus {
  std::vector<int> dimensions;
  BytesPerSecond bandwidth;
  Seconds latency;
  std::optional<Bytes> burst{};
};
/// The i-th NICs of each `nodes` nodes hang on one switch, a rail. To other rails, and to the rails
/// of other nodes, bytes go up one of its `uplinks` cables to a spine and down another.
struct Rail {
  int nodes = 1, uplinks = 1;
  BytesPerSecond bandwidth;
  Seconds latency;
  std::optional<Bytes> burst{};

  /// Number of the group of nodes that share their switches.
  std::size_t pod_of(NodeId node) const { return node.index() / static_cast<std::size_t>(nodes); }
};
/// Each `nodes` nodes are a site, on a non-blocking switch of its own. A site has one link to the
/// others, which meet nowhere else.
struct Sites {
  int nodes = 1;
  BytesPerSecond bandwidth;  ///< of a site's link, per direction
  Seconds latency;           ///< one way between two sites, beside the NICs'

  std::size_t site_of(NodeId node) const { return node.index() / static_cast<std::size_t>(nodes); }
};
using Fabric = std::variant<Star, FatTree, Dragonfly, Torus, Rail, Sites>;

/// Basis of a collective's cost where no curve says it: the links' closed forms, NCCL's times, or
/// Gloo's.
enum class CollectiveModel { links, nccl, gloo };

/// Head start as measured between two hosts at 100 to 400 Mbit/s (tests/validation/head_start.py;
/// 0.03 to 0.17).
constexpr double kHeadStart = 0.1;

struct Cluster {
  std::string name;
  std::vector<NodeGroup> groups;
  Fabric fabric;
  /// File of the calibrated collective costs to use, or empty: links alone.
  std::string comm_profile;
  CollectiveModel collectives = CollectiveModel::links;  ///< of a file: nccl where it is silent
  NcclOptions nccl{};
  GlooOptions gloo{};
  std::string source;
  /// Cores of the one machine on which all nodes are containers: every computation, a parameter
  /// server's included, takes one thread of them. Nothing: each rank computes on hardware of its
  /// own.
  std::optional<int> shared_cores{};
  /// Effects of all shared cores computing at once. `slowdown`: a computation's time over what it
  /// takes alone. `spread`: its spread within seconds then (Compute::spread). `drift`: how far the
  /// speed of one core is from another's, or from its own some seconds later, as the standard
  /// deviation of its logarithm.
  struct BusyCores {
    double slowdown = 1, spread = 0, drift = 0;
  };
  std::optional<BusyCores> busy_cores{};
  /// A recorded run's threads waited so long in the run queue of its CPUs, as the kernel counts it
  /// (/proc/PID/schedstat). `ready`: of a step's `step`, in which a rank's thread was ready and had
  /// no core. `ranks` of `threads_per_rank` shared the `cores` of one machine then.
  struct RunQueue {
    Seconds ready, step;
    int ranks = 1, threads_per_rank = 1, cores = 1;
  };
  std::optional<RunQueue> run_queue{};
  /// Head start over sockets: the mean part of a message that those under way through a sender's
  /// port get ahead of one that comes to it. It counts before they share the port; 0: nothing, 1 or
  /// more: mostly all.
  double head_start = kHeadStart;
  /// Steps that were measured on these machines: of each what its error consists of, as the share
  /// of the step by mechanism (platforms/intervals.yaml). They narrow the intervals of others.
  std::vector<std::map<std::string, double>> measured_steps{};

  std::size_t node_count() const;
  std::size_t gpu_count() const;
  /// Threads that compute on the cores of one machine, of its nodes the fullest. Nothing: neither
  /// shared_cores nor run_queue says how many cores there are.
  struct CoreLoad {
    int threads = 1, cores = 1;
    double on_each() const { return static_cast<double>(threads) / cores; }
  };
  std::optional<CoreLoad> core_load() const;
  /// The node with this index, counted through the groups in order.
  const Node& node(NodeId id) const;
  const NodeGroup& group_of(NodeId id) const;
};

/// Where a rank lives. `gpu` counts inside the node; -1 is the node's CPU.
struct Place {
  NodeId node;
  int gpu = 0;
  auto operator<=>(const Place&) const = default;
};

/// One place per GPU: node by node, GPU by GPU. Rank i of a job is place i.
std::vector<Place> gpu_places(const Cluster& cluster);

/// Index of the NIC that a GPU (or the CPU: 0) sends through: rail-aligned, gpu * nics / gpus.
int nic_of(const Node& node, int gpu);

/// Rate that one NIC carries: its own rate times its transport's efficiency, at most the
/// transport's rate.
BytesPerSecond nic_rate(const Node& node);
/// Rate at which a node's host passes on staged copies, at most half of its memory's rate.
BytesPerSecond staging_rate(const Node& node);
/// The links of a node, as a profile of collectives records them; and of a cluster's first node
/// with GPUs.
CommLinks links_of(const Node& node);
CommLinks links_of(const Cluster& cluster);
/// Cluster of so many like nodes with these links, on a star, with places for `ranks` GPUs.
Cluster cluster_on(const CommLinks& links, int ranks, int nodes);

/// Cables between two unlike nodes beyond their NICs: 0 on a star.
int fabric_links_between(const Cluster& cluster, NodeId a, NodeId b);

/// One-way latency between two unlike places: of NVLink, of PCIe (twice where staged), or of the
/// larger NIC latency plus the fabric's cables.
Seconds path_latency(const Cluster& cluster, const Place& a, const Place& b);

/// Where a flow enters or leaves the network. Every port has one rate per direction and nothing
/// inside it is shared, except that flows between two PCIe ports of a node without peer-to-peer
/// also share its host memory.
enum class PortKind { nvlink, pcie, cpu, nic };
struct Port {
  PortKind kind = PortKind::nic;
  NodeId node;
  int index = 0;  ///< the GPU's for nvlink and pcie, the NIC's for nic, 0 for cpu
  auto operator<=>(const Port&) const = default;
};
struct PortPair {
  Port source, target;
};

/// Ports that a point-to-point flow between two unlike places uses: NVLink or PCIe inside a node
/// (PCIe and CPU port if one end is the CPU), the places' own NICs between nodes.
PortPair ports_between(const Cluster& cluster, const Place& source, const Place& target);
/// Rate of a port, per direction.
BytesPerSecond port_bandwidth(const Cluster& cluster, const Port& port);
/// True if flows between the two ports are staged through the node's host memory.
bool staged(const Cluster& cluster, const PortPair& ports);

/// Reads a cluster: inline (`nodes`, `node`, `groups`, `fabric`) or `use:` a cluster of
/// `platforms/` (or a .yaml file of the user's own) with `nodes`, `gpus_per_node`, network and
/// price changed. `nodes` is the number of nodes with GPUs; CPU nodes stay. InputError with its
/// place for everything that is wrong or impossible, a profile's file or folder that is not there
/// included.
Cluster read_cluster(const Value& value);

/// The GPUs known by name (platforms/gpus.yaml) and the clusters shipped
/// (platforms/clusters), sorted.
std::vector<std::string> gpu_names();
std::vector<std::string> cluster_names();
/// A name of platforms/gpus.yaml or a map {name, fp32, tf32, fp16, bf16, memory, memory_bandwidth,
/// kernels, profiles}. InputError at the place that is wrong.
Gpu read_gpu(const Value& value);
/// The GPU with this name in platforms/gpus.yaml; it must be there. Its profiles are those of
/// platforms/profiles/compute/NAME where that folder is.
Gpu known_gpu(const std::string& name);
/// One line about a shipped cluster.
std::string describe_cluster(const std::string& name);

/// Where shipped compute profiles lie: a folder for each device, those of gpus.yaml by their name.
std::filesystem::path compute_profiles_folder();

}  // namespace rehearse::inline cluster
