#include "cluster/scale.hpp"

namespace rehearse::inline cluster {
namespace {

void scale_inside(LinkPart part, double factor, Node& node) {
  if (part == LinkPart::nvlink && node.nvlink) node.nvlink->bandwidth *= factor;
  if (part == LinkPart::pcie) {
    node.pcie.bandwidth *= factor;
    node.pcie.host_bandwidth *= factor;
    node.pcie.staged_rate *= factor;
    node.pcie.root_link *= factor;
  }
  if (part == LinkPart::nic) {
    node.nic_bandwidth *= factor;
    node.transport.scale_rates(factor);
  }
}

}  // namespace

void scale_bandwidth(LinkPart part, double factor, Cluster& cluster) {
  for (NodeGroup& group : cluster.groups) scale_inside(part, factor, group.node);
  if (part != LinkPart::fabric) return;
  std::visit(
      [factor](auto& fabric) {
        if constexpr (requires { fabric.bandwidth; }) fabric.bandwidth *= factor;
      },
      cluster.fabric);
}

void scale_bandwidths(double factor, Cluster& cluster) {
  for (const LinkPart part : {LinkPart::nvlink, LinkPart::pcie, LinkPart::nic, LinkPart::fabric})
    scale_bandwidth(part, factor, cluster);
}

void scale_latencies(double factor, Cluster& cluster) {
  for (NodeGroup& group : cluster.groups) {
    if (group.node.nvlink) group.node.nvlink->latency *= factor;
    group.node.pcie.latency *= factor;
    group.node.nic_latency *= factor;
    group.node.transport.per_message *= factor;
    group.node.transport.per_chunk *= factor;
  }
  std::visit(
      [factor](auto& fabric) {
        if constexpr (requires { fabric.latency; }) fabric.latency *= factor;
      },
      cluster.fabric);
}

}  // namespace rehearse::inline cluster
