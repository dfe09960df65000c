#include "cluster/cluster.hpp"

#include <algorithm>
#include <type_traits>

#include "base/error.hpp"
#include "kernels/kernel_curves.hpp"

namespace rehearse::inline cluster {
namespace {

constexpr int kCpu = -1;  // Place::gpu of a node's CPU

bool is_cpu(const Place& place) { return place.gpu == kCpu; }

/// The rate of a format, or fp32's where the GPU has no unit for it: the product then runs on the
/// fp32 units (as bf16 does on a V100 or T4).
FlopsPerSecond rate_or(FlopsPerSecond rate, FlopsPerSecond fp32) {
  return rate > FlopsPerSecond(0) ? rate : fp32;
}

Seconds cable_latency(const Fabric& fabric) {
  return std::visit(
      [](const auto& shape) {
        if constexpr (std::is_same_v<std::decay_t<decltype(shape)>, Star>) {
          return Seconds(0);
        } else {
          return shape.latency;
        }
      },
      fabric);
}

bool uses_nvlink(const Node& node, const Place& a, const Place& b) {
  return node.nvlink.has_value() && !is_cpu(a) && !is_cpu(b);
}

constexpr int kThroughSpine = 2;

/// Where the NICs of both are of unlike rails.
bool change_rails(const Cluster& cluster, const Place& a, const Place& b) {
  return std::holds_alternative<Rail>(cluster.fabric) &&
         nic_of(cluster.node(a.node), a.gpu) != nic_of(cluster.node(b.node), b.gpu);
}

Seconds latency_inside(const Node& node, const Place& a, const Place& b) {
  if (uses_nvlink(node, a, b)) return node.nvlink->latency;
  const bool by_host_memory = !is_cpu(a) && !is_cpu(b) && !node.pcie.peer_to_peer;
  return by_host_memory ? 2 * node.pcie.latency : node.pcie.latency;
}

Port inner_port(const Place& place, bool by_nvlink) {
  if (is_cpu(place)) return {.kind = PortKind::cpu, .node = place.node, .index = 0};
  const PortKind kind = by_nvlink ? PortKind::nvlink : PortKind::pcie;
  return {.kind = kind, .node = place.node, .index = place.gpu};
}

Port nic_port(const Cluster& cluster, const Place& place) {
  return {.kind = PortKind::nic,
          .node = place.node,
          .index = nic_of(cluster.node(place.node), place.gpu)};
}

}  // namespace

FlopsPerSecond Gpu::matrix_peak(Precision precision) const {
  switch (precision) {
    case Precision::fp32:
      return fp32;
    case Precision::tf32:
      return rate_or(tf32, fp32);
    case Precision::fp16:
    case Precision::fp16_pure:
    case Precision::fp16_pure_autocast:
    case Precision::fp16_master:
      return rate_or(fp16, fp32);
    case Precision::bf16:
    case Precision::bf16_pure:
    case Precision::bf16_pure_autocast:
    case Precision::bf16_master:
    case Precision::fp8:
    case Precision::mxfp8:
    case Precision::nvfp4:
      return rate_or(bf16, fp32);
  }
  throw InternalError("internal error: a precision without a peak rate");
}

double Gpu::multiprocessors() const {
  if (sms) return *sms;
  return curves ? curves->sms : 0;
}

std::size_t Cluster::node_count() const {
  std::size_t count = 0;
  for (const NodeGroup& group : groups) count += static_cast<std::size_t>(group.nodes);
  return count;
}

std::size_t Cluster::gpu_count() const {
  std::size_t count = 0;
  for (const NodeGroup& group : groups) {
    count += static_cast<std::size_t>(group.nodes) * static_cast<std::size_t>(group.node.gpus);
  }
  return count;
}

std::optional<Cluster::CoreLoad> Cluster::core_load() const {
  if (!shared_cores && !run_queue) return std::nullopt;
  int ranks = static_cast<int>(gpu_count());
  if (!shared_cores) {
    ranks = 0;
    for (const NodeGroup& group : groups) ranks = std::max(ranks, group.node.gpus);
  }
  return CoreLoad{.threads = ranks * (run_queue ? run_queue->threads_per_rank : 1),
                  .cores = shared_cores ? *shared_cores : run_queue->cores};
}

const NodeGroup& Cluster::group_of(NodeId id) const {
  std::size_t end = 0;
  for (const NodeGroup& group : groups) {
    end += static_cast<std::size_t>(group.nodes);
    if (id.index() < end) return group;
  }
  throw InternalError("internal error: a node beyond the cluster's last");
}

const Node& Cluster::node(NodeId id) const { return group_of(id).node; }

std::vector<Place> gpu_places(const Cluster& cluster) {
  std::vector<Place> places;
  places.reserve(cluster.gpu_count());
  std::size_t node = 0;
  for (const NodeGroup& group : cluster.groups) {
    for (int i = 0; i < group.nodes; ++i, ++node) {
      for (int gpu = 0; gpu < group.node.gpus; ++gpu) places.push_back({NodeId(node), gpu});
    }
  }
  return places;
}

int nic_of(const Node& node, int gpu) {
  if (gpu < 0) return 0;
  check(gpu < node.gpus, "a GPU beyond its node's last");
  return gpu * node.nics / node.gpus;
}

BytesPerSecond nic_rate(const Node& node) {
  return std::min(node.nic_bandwidth * node.transport.efficiency, node.transport.most());
}

BytesPerSecond staging_rate(const Node& node) {
  const Pcie& pcie = node.pcie;
  if (pcie.staged_rate <= BytesPerSecond(0)) return pcie.host_bandwidth * 0.5;
  return pcie.staged_rate_stated ? pcie.staged_rate
                                 : std::min(pcie.staged_rate, pcie.host_bandwidth);
}

CommLinks links_of(const Node& node) {
  CommLinks links{.pcie = node.pcie.bandwidth,
                  .pcie_latency = node.pcie.latency,
                  .pcie_peer_to_peer = node.pcie.peer_to_peer,
                  .staged_rate = staging_rate(node),
                  .nics = node.nics};
  if (node.nvlink) {
    links.nvlink = node.nvlink->bandwidth;
    links.nvlink_latency = node.nvlink->latency;
  }
  if (node.nics == 0) return links;
  links.nic = node.nic_bandwidth;
  links.nic_latency = node.nic_latency;
  links.transport = node.transport;
  return links;
}

CommLinks links_of(const Cluster& cluster) {
  const auto with_gpus = std::ranges::find_if(
      cluster.groups, [](const NodeGroup& group) { return group.node.gpus > 0; });
  check(with_gpus != cluster.groups.end(), "a cluster without a GPU");
  return links_of(with_gpus->node);
}

Cluster cluster_on(const CommLinks& links, int ranks, int nodes) {
  Node node;
  node.gpus = (ranks + nodes - 1) / nodes;
  if (links.nvlink > BytesPerSecond(0)) node.nvlink = NvLink{links.nvlink, links.nvlink_latency};
  node.pcie = {.bandwidth = links.pcie,
               .latency = links.pcie_latency,
               .peer_to_peer = links.pcie_peer_to_peer,
               .host_bandwidth = links.staged_rate * 2,
               .staged_rate = links.staged_rate};
  node.nics = std::min(links.nics, node.gpus);
  node.nic_bandwidth = links.nic;
  node.nic_latency = links.nic_latency;
  node.transport = links.transport;
  Cluster cluster;
  cluster.groups = {{.name = "measured", .nodes = nodes, .node = node}};
  return cluster;
}

Seconds path_latency(const Cluster& cluster, const Place& a, const Place& b) {
  check(a != b, "a path from a place to itself");
  if (a.node == b.node) return latency_inside(cluster.node(a.node), a, b);
  const Seconds nics = std::max(cluster.node(a.node).nic_latency, cluster.node(b.node).nic_latency);
  const int cables =
      change_rails(cluster, a, b) ? kThroughSpine : fabric_links_between(cluster, a.node, b.node);
  return nics + cables * cable_latency(cluster.fabric);
}

PortPair ports_between(const Cluster& cluster, const Place& source, const Place& target) {
  check(source != target, "a flow from a place to itself");
  if (source.node != target.node) return {nic_port(cluster, source), nic_port(cluster, target)};
  const bool by_nvlink = uses_nvlink(cluster.node(source.node), source, target);
  return {inner_port(source, by_nvlink), inner_port(target, by_nvlink)};
}

BytesPerSecond port_bandwidth(const Cluster& cluster, const Port& port) {
  const Node& node = cluster.node(port.node);
  switch (port.kind) {
    case PortKind::nvlink:
      check(node.nvlink.has_value(), "an NVLink port of a node without NVLink");
      return node.nvlink->bandwidth;
    case PortKind::pcie:
      return node.pcie.bandwidth;
    case PortKind::cpu:
      return node.pcie.host_bandwidth;
    case PortKind::nic:
      return nic_rate(node);
  }
  throw InternalError("internal error: a port without a rate");
}

bool staged(const Cluster& cluster, const PortPair& ports) {
  return ports.source.kind == PortKind::pcie && ports.target.kind == PortKind::pcie &&
         ports.source.node == ports.target.node &&
         !cluster.node(ports.source.node).pcie.peer_to_peer;
}

}  // namespace rehearse::inline cluster
