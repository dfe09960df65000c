#pragma once

#include "base/quantity.hpp"
#include "cluster/cluster.hpp"
#include "profile/collective_kind.hpp"

namespace rehearse::inline collective {

/// Half-width of the 90 % interval of ln(time) of a collective by Gloo: hosts' TCP differs as much.
inline constexpr double kGlooError = 0.3;

/// A ring of Gloo takes this. `latency` is waiting, beside which another one may be worked on: its
/// steps, what one is slower alone, and copies of GPUs' bytes to the host and back. `transfer` is
/// the CPU's or the NIC's.
struct GlooTime {
  Seconds latency, transfer;
};
/// With n ranks and S bytes: 2(n-1) steps for all_reduce, n-1 else, each `per_step`; 2 S over PCIe;
/// bus_factor S over `alone`, of which bus_factor S over min(rate, NIC) is transfer. `node`: one of
/// the group's.
GlooTime gloo_time(CollectiveKind kind, Bytes size, int ranks, int nodes, const Node& node,
                   const GlooOptions& options);

}  // namespace rehearse::inline collective
