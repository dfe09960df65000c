#pragma once

#include <limits>
#include <string>

#include "base/quantity.hpp"
#include "config/document.hpp"

namespace rehearse::inline profile {

// Latencies and rates where none is given, per direction.
// NVLink and PCIe: what NCCL's tuning assumes for a hop of its low-latency protocol (NCCL 2.19,
// src/graph/tuning.cc, hwLat, ring LL: NVLink 0.6 us, PCI 1.0 us).
inline constexpr Seconds kNvLinkLatency{0.6e-6};
inline constexpr Seconds kPcieLatency{1e-6};
/// PCIe 4.0 x16 carries 31.5 GB/s and gives about 24 GB/s to copies (CUDA's bandwidthTest).
inline constexpr BytesPerSecond kPcieBandwidth{24e9};
/// Rate at which a node's host passes on copies between GPUs without peer access, all of them
/// together. Rings of NCCL over such cards reach a busbw of 5 to 7 GB/s at 4 ranks and 1.3 to 2.6
/// at 8 (nccl-tests on A100 and V100 over SYS, 2080 Ti, Titan RTX, 3090, L40S). By their number
/// that is 21 GB/s, on hosts of PCIe 3.0 and 4.0.
inline constexpr BytesPerSecond kStagedRate{21e9};
/// Hosts of PCIe 5.0 and DDR5 pass on ten times as much: 28 GB/s of busbw with 8 cards on two Xeon
/// 8480+ (NVIDIA/nccl issue 1639), 0.73 of what their 16 channels write and read (307 GB/s each).
inline constexpr double kStagedShare = 0.73;
/// NCCL's hwLat for a network hop: 2.7 us (ring) to 5.0 us (tree). RDMA over InfiniBand takes 2 to
/// 3 us, over Ethernet more.
inline constexpr Seconds kRdmaLatency{5e-6};
/// TCP between machines of one zone of a cloud: about 50 us both ways.
inline constexpr Seconds kTcpLatency{25e-6};

/// Whose NIC it is, as NCCL reads it from the PCI bus to know how many sockets to open.
enum class NicVendor { other, amazon, google };

/// Transport that carries bytes from NIC to NIC, and what it leaves of the NIC's rate.
struct NicTransport {
  enum class Kind { rdma, tcp };
  Kind kind = Kind::rdma;
  double efficiency = 1;  ///< payload over the NIC's rate
  /// The most that one NIC gives; infinite: nobody says it, and over TCP sockets and hosts do.
  BytesPerSecond rate{std::numeric_limits<double>::infinity()};
  /// NCCL_SOCKET_NTHREADS times NCCL_NSOCKS_PERTHREAD, of each of NCCL's connections.
  int sockets = 1;
  BytesPerSecond socket_rate{std::numeric_limits<double>::infinity()};  ///< of one of them
  /// The most that a host's TCP gets through for one NIC, over however many sockets.
  BytesPerSecond host_rate{std::numeric_limits<double>::infinity()};
  /// Time that each step of a collective between nodes takes beside the NIC's latency: NCCL's proxy
  /// thread, and over TCP the copies and system calls.
  Seconds per_message{0};
  /// Time that a step of NCCL's Simple protocol takes beside that: a chunk that a proxy copies or
  /// stages.
  Seconds per_chunk{0};
  bool low_latency = true;  ///< false: its plugin refuses NCCL's LL and LL128
  bool stated = true;       ///< false: chosen by the NIC's rate
  bool rate_known = true;   ///< false: most() rests on other machines' sockets and hosts
  bool sockets_stated = false, socket_rate_stated = false;

  /// The least of `rate`, all sockets of a NIC's two connections, and `host_rate`.
  BytesPerSecond most() const;
  /// Each of the three that many times.
  void scale_rates(double factor);

  bool operator==(const NicTransport& other) const {
    return kind == other.kind && efficiency == other.efficiency && most() == other.most() &&
           per_message == other.per_message && per_chunk == other.per_chunk &&
           low_latency == other.low_latency;
  }
};

/// RDMA (InfiniBand, RoCE, EFA): all of the NIC's rate, and 7 us a step: a step of NCCL's LL takes
/// about 10 us where the wire takes 3. TCP: 28 us a step (nccl-tests between two nodes over sockets
/// take 99 us at 4 bytes: aws-do-eks, karpenter).
///
/// TCP's rate is what most() says. NCCL opens two connections a NIC (its least number of channels),
/// and each has one socket of 0.95 GB/s: two reach 1.9 GB/s on 25 Gbit/s (Horovod's pull request
/// 44), four 4 to 6 on 100 Gbit/s (NVIDIA/nccl issue 450). Hosts get 4.6 GB/s through whatever the
/// sockets: at least 32 Gbit/s on p3dn (arXiv:2006.10103), 5.1 there with NCCL 2.3 (issue 209), 4
/// to 6 in issue 450. settle_sockets() knows more.
NicTransport transport_of(NicTransport::Kind kind);
/// Over TCP, where nobody says them: the sockets of each connection by the NIC's vendor (Amazon's
/// 16, 2 threads of 8; Google's 4, 4 of 1; others' 1: NCCL's src/transport/net_socket.cc,
/// ncclNetSocketGetNsockNthread), and one socket's rate, 1.4 GB/s in hosts with NICs of 100 Gbit/s
/// and more. Chosen with ResNet-50 on V100s with ConnectX-4 (Li et al., VLDB 2020, figures 7 and 8)
/// and VGG-16 with ConnectX-5 (ByteScheduler, SOSP 2019) in view.
void settle_sockets(NicTransport& transport, NicVendor vendor, BytesPerSecond nic);
/// Where nobody says: TCP below 100 Gbit/s, where NICs mostly are Ethernet's; RDMA from there on.
NicTransport usual_transport(BytesPerSecond nic);
std::string to_string(NicTransport::Kind kind);
/// `rdma`, `tcp`, or one of them with its `efficiency`, `rate`, `per_message`, `per_chunk` and
/// `low_latency`; of tcp also `sockets`, `socket_rate` and `host_rate`.
NicTransport read_nic_transport(const Value& value);

/// The links of a machine that collectives were measured on.
struct CommLinks {
  BytesPerSecond nvlink{0};  ///< 0: none
  Seconds nvlink_latency = kNvLinkLatency;
  BytesPerSecond pcie = kPcieBandwidth;
  Seconds pcie_latency = kPcieLatency;
  bool pcie_peer_to_peer = true;
  BytesPerSecond staged_rate = kStagedRate;  ///< without peer-to-peer
  int nics = 0;                              ///< 0: none, of a machine of one node
  BytesPerSecond nic{0};
  Seconds nic_latency{0};
  NicTransport transport{};
};

/// A map with a node's keys of the same names. InputError where it is none.
CommLinks read_comm_links(const Value& value);
/// `{nvlink: 300GBps, ...}`, which read_comm_links reads back.
std::string to_yaml(const CommLinks& links);
/// Differences in words ("nic 50.0 GB/s, measured at 12.5 GB/s"), of the links `inside` a node and
/// of those `between` nodes; empty where nothing differs.
std::string differences(const CommLinks& here, const CommLinks& measured, bool inside,
                        bool between);

}  // namespace rehearse::inline profile
