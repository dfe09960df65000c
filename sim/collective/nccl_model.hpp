#pragma once

#include <algorithm>
#include <vector>

#include "base/quantity.hpp"
#include "cluster/cluster.hpp"
#include "profile/collective_kind.hpp"

namespace rehearse::inline collective {

/// Links through which GPUs of a group reach each other inside a node.
enum class InnerLink {
  nvlink,
  peer_to_peer,  ///< PCIe
  staged         ///< PCIe, each byte through the host's memory
};

/// Facts of the ranks of one group on which NCCL's times depend.
struct NcclMachine {
  std::shared_ptr<const GpuArchitecture> architecture = unknown_architecture();  ///< of its GPUs
  int ranks = 2, nodes = 1;
  InnerLink inner = InnerLink::nvlink;
  /// Rate of a GPU's port inside its node, per direction; with `staged` its share of what the host
  /// passes on.
  BytesPerSecond inside{0};
  Seconds inside_latency{0};  ///< of an edge inside a node
  /// So many peers of a GPU inside its node have no link to it. Bytes for them pass the host's
  /// memory, at a GPU's share of its rate.
  int unlinked = 0;
  BytesPerSecond through_host{0};
  int nics = 0;                ///< of a node that its ranks own
  BytesPerSecond nic{0};       ///< payload that one of them carries, per direction
  Seconds between{0};          ///< a step between nodes: path, proxy thread, transport
  Seconds chunk_between{0};    ///< what such a step takes more with Simple
  bool low_latency = true;     ///< LL and LL128 may go between nodes (a plugin may refuse)
  double multiprocessors = 0;  ///< of the GPU that has fewest; 0: not known
  NcclOptions options{};

  /// Ranks of a node, of the fullest one.
  int local() const { return (ranks + nodes - 1) / nodes; }
};

/// An algorithm and protocol that NCCL may choose, with the time that they take.
struct NcclEstimate {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  /// Launch, the steps' latencies one after the other, and the filling of pipelines.
  Seconds latency{0};
  /// Bytes over the rate that the protocol reaches: on the links inside nodes, where they pass
  /// some, and on the network.
  Seconds inside{0}, between{0};

  Seconds transfer() const { return std::max(inside, between); }
  Seconds total() const { return latency + transfer(); }
};

/// Every algorithm and protocol that NCCL has for this collective on this machine; at least one.
///
/// Forms, with n ranks on N nodes, g to a node, S bytes as nccl-tests counts them, B the rate
/// inside, R what a node's NICs carry, w S the bytes on the busiest port (bus_factor):
///   ring: launch + (steps inside) a + (steps between) L + w S / rate + fill. Of the s steps
///     (2(n-1) for all_reduce, n-1 else) 2(N-1) or N-1 leave a node (NCCL, src/graph/tuning.cc).
///   tree: 2 (g-1) chain steps and 2 log2(N) between; over two nodes the bytes cross once, over
///     more twice (its double tree); NVLS tree likewise, with the switch inside the nodes.
///   NVLS: the switch adds up; PAT: log2(N) steps, one rank to a node; CollNet: the network adds
///     up, so that bytes leave a node once.
/// LL costs half of the wire, LL128 a sixteenth; Simple fills a pipeline: sqrt(latency x volume)
/// while chunks are few, a constant later. Constants and their source: nccl_constants.hpp. Errors
/// on open data by band: tests/collective/README.md.
std::vector<NcclEstimate> nccl_candidates(const NcclMachine& machine, CollectiveKind kind,
                                          Bytes size);

/// The candidate that takes least.
NcclEstimate nccl_estimate(const NcclMachine& machine, CollectiveKind kind, Bytes size);

/// Half-width of the 90 % interval of ln(time) of a tree over two nodes where nobody says NCCL's
/// version: it sends the bytes once since some version after 2.14, and 1.9 times before.
inline constexpr double kTwoNodeTreeError = 0.65;
/// The same of an estimate, by kind of machine and size: what
/// open curves lie within (between nodes: curves left out of the fit).
double nccl_uncertainty(const NcclMachine& machine, CollectiveKind kind, Bytes size,
                        const NcclEstimate& estimate);

/// Blocks that NCCL's kernel has for it; each has a multiprocessor for itself. Their most is that
/// of the links: two for each NVLink (NCCL issues 1225 and 1703) up to what logs show (24 on eight
/// H100, 32 on eight B200), or each NIC's ring twice; NVLS has its own (src/transport/nvls.cc). Few
/// bytes have fewer: NCCL's thresholds (src/enqueue.cc). Sends take a power of two.
int nccl_channels(const NcclMachine& machine, CollectiveKind kind, Bytes size,
                  const NcclEstimate& estimate);

/// How many times as long compute takes on the multiprocessors that are left beside it; 1: they are
/// not known. The whole of what bounds compute is taken for multiprocessors: a kernel that memory
/// bounds loses bandwidth instead, which is not modelled.
double nccl_compute_slowdown(const NcclMachine& machine, int channels);

/// The part of a cluster that a group's ranks have. `slowed`: the cluster's links take so many
/// times what they are known for; the machine has them as they are known.
NcclMachine nccl_machine(const Cluster& cluster, const std::vector<Place>& members, int ranks,
                         int nodes, double slowed = 1);

}  // namespace rehearse::inline collective
