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

/// Multiplies the bandwidths of a part by `factor`. Only the functions of this file make a machine
/// faster or slower.
void scale_bandwidth(LinkPart part, double factor, Cluster& cluster);
/// Multiplies the bandwidths of all parts by `factor`.
void scale_bandwidths(double factor, Cluster& cluster);
/// Multiplies the latencies of all parts, and what a message costs, by `factor`.
void scale_latencies(double factor, Cluster& cluster);

}  // namespace rehearse::inline cluster
