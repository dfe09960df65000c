#pragma once

#include "cluster/cluster.hpp"

namespace rehearse::inline cluster {

/// Parts of a cluster that carry bytes.
enum class LinkPart {
  nvlink,
  pcie,   ///< with the host memory that it is staged through
  nic,    ///< with what its transport reaches
  fabric  ///< cables between switches, where there are some
};

/// What is faster or slower of a machine is changed here alone: bandwidths of a part times
/// `factor`.
void scale_bandwidth(LinkPart part, double factor, Cluster& cluster);
/// Of all parts.
void scale_bandwidths(double factor, Cluster& cluster);
/// Latencies of all parts, and what a message costs, times `factor`.
void scale_latencies(double factor, Cluster& cluster);

}  // namespace rehearse::inline cluster
