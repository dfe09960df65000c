#pragma once

#include "base/quantity.hpp"
#include "cluster/cluster.hpp"

// Constants of NCCL's times that all generations of GPUs share; platforms/architectures.yaml has
// each one's own. They are fitted to open curves (tests/data/collectives) by
// tests/collective/fit.py; its README has the errors. All are of nccl-tests, one process a GPU or
// threads of one, warm.

namespace rehearse::nccl {

/// GPUs that meet over PCIe, of any generation: aiconfigurator's L40S and RTX PRO 6000, two nodes
/// across sockets. Shares are of what the ring's slowest PCIe edge gives.
inline constexpr NcclGeneration kCards{Seconds(5e-6), Seconds(1.17e-6), 0.5, 0.9, 1, 1, 1};

/// Share of PCIe's rate, as copies see it, that peers behind one switch reach (A100, H100 PCIe
/// nodes).
inline constexpr double kPeerToPeer = 0.95;

// Launch and step of LL128 and Simple over LL's, inside one node.
inline constexpr Seconds kLl128Launch(10e-6), kSimpleLaunch(4.1e-6);
inline constexpr double kLl128Step = 2.5, kSimpleStep = 1.67;
// Of Simple between nodes: NCCL itself reckons 8.4 us and 3.4 us a step of NVLink (tuning.cc). In a
// node NCCL takes Simple for large sizes alone, whose steps overlap.
inline constexpr Seconds kSimpleLaunchBetween(8.3e-6);
inline constexpr double kSimpleStepBetween = 4;
/// A step of LL128 between nodes over one of LL: NCCL's table has twice that.
inline constexpr Seconds kLl128Between(2e-6);

/// Fill of Simple's pipeline, k sqrt(l V) / (1 + sqrt(V / (h l))): latency l, volume V.
struct Fill {
  double k, h;
};
inline constexpr Fill kFillInside{1.21, 196}, kFillBetween{1.52, 32};

/// The switch's adding up (NVLink SHARP): what it takes to begin, and its fill.
inline constexpr Seconds kNvlsBegin(15.9e-6);
inline constexpr double kNvlsFill = 1.23;
/// Ranks of a node above which NCCL takes it: open curves have it at 8 and not at 4.
inline constexpr int kNvlsAbove = 4;

/// Few ranks copy more of their own data: rates go by (1 - q/n) / (1 - q/8).
inline constexpr double kOwnAllReduce = 0.44, kOwnGather = 0.86, kOwnScatter = 0.95;
/// A peer of an all_to_all, or of a send, adds this to its launch.
inline constexpr Seconds kPeer(0.5e-6);
/// Share of NVLink that one pair of a send and a recv reaches.
inline constexpr double kSend = 0.95;

// Between nodes: what protocols reach of the NICs' payload.
inline constexpr double kNetworkSimple = 0.96, kNetworkLl128 = 0.88, kNetworkLl = 0.48;

// A chain inside the nodes of a tree: a step over a ring's; what it reaches of a GPU's NVLink by
// protocol, and of PCIe, where bytes go both up and down.
inline constexpr double kChainStep = 2.37;
inline constexpr double kChainLl = 0.037, kChainLl128 = 0.27, kChainSimple = 0.292;
inline constexpr double kChainPcie = 0.5;
/// NCCL's buffer of one channel (NCCL_BUFFSIZE), of which Simple's steps send an eighth.
inline constexpr Bytes kChannelBuffer(4.0 * 1024 * 1024);
/// Fill of trees: of one step's chunk, and the share of all buffers at which half of it is paid.
inline constexpr Bytes kTreeChunk(0.275e6);
inline constexpr double kTreeHalf = 0.083, kNvlsTreeFill = 2.0, kNvlsTreeHalf = 0.194;

/// Channels of each NVLink, and of one ring, which NCCL always doubles.
inline constexpr double kChannelsOfLink = 2;
inline constexpr int kRing = 2;
/// Bytes that a channel has at least: threads of a block, times a threshold by protocol; LL's ring
/// has that of each rank.
inline constexpr Bytes kSimpleOfChannel(512.0 * 64), kLl128OfChannel(640.0 * 8),
    kLlOfChannel(512.0 * 8);

/// Versions: before it, all_reduces over two nodes go at a ring's pace (a guess between 2.14.3,
/// with which vTrain's tensor groups of 16 do, and 2.23, a p4d curve of which does not); NVLS; NVLS
/// trees; PAT. The sources of 2.3.7 have no trees and those of 2.4.8 no LL128; the next ones do.
inline constexpr NcclVersion kTrees{2, 4}, kLl128Versions{2, 5};
inline constexpr NcclVersion kTwoNodeTrees{2, 15}, kNvls{2, 17}, kNvlsTrees{2, 18}, kPat{2, 23};

}  // namespace rehearse::nccl
