#include "cluster/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "cluster/parts.hpp"
#include "cluster/whole_keys.hpp"

namespace rehearse::inline cluster {
namespace {

/// One value for all groups, or a list with one for each.
std::vector<Value> by_group(const Value& value, const Cluster& cluster) {
  if (!value.is_list()) return std::vector<Value>(cluster.groups.size(), value);
  const std::vector<Value> values = value.as_list();
  if (values.size() != cluster.groups.size()) {
    value.fail(fmt::format("{} has {} group{} of nodes; got {} value{}", cluster.name,
                           cluster.groups.size(), cluster.groups.size() == 1 ? "" : "s",
                           values.size(), values.size() == 1 ? "" : "s"),
               "give one value for all, or a list with one for each group");
  }
  return values;
}

}  // namespace

void override_network(Map& map, Cluster& cluster) {
  const ClusterKeys& keys = of_cluster();
  const std::optional<Value> nic_value = keys.nic.in(map);
  std::vector<Value> nic;
  if (nic_value) nic = by_group(*nic_value, cluster);
  const std::optional<Seconds> latency = keys.nic_latency.in(map);
  const std::optional<Bytes> burst = keys.nic_burst.in(map);
  const std::optional<Value> nics = keys.nics.in(map);
  const std::optional<Value> transport = keys.transport.in(map);
  const std::optional<Value> vendor = keys.nic_vendor.in(map);
  for (std::size_t i = 0; i < cluster.groups.size(); ++i) {
    Node& node = cluster.groups[i].node;
    if (!nic.empty()) {
      node.nic_bandwidth = nic[i].as_bytes_per_second();
      node.nics = std::max(1, node.nics);
      if (!node.transport.stated) node.transport = usual_transport(node.nic_bandwidth);
    }
    if (transport) node.transport = read_nic_transport(*transport);
    if (vendor) node.nic_vendor = read_nic_vendor(*vendor);
    if (!nic.empty() || transport || vendor)
      settle_sockets(node.transport, node.nic_vendor, node.nic_bandwidth);
    if (latency) node.nic_latency = *latency;
    if (burst) node.nic_burst = *burst;
    // A CPU node keeps its own: how many NICs the GPUs of the others have says nothing about it.
    if (nics && node.gpus > 0) node.nics = read_nics(*nics, node.gpus);
    if (cluster.node_count() > 1 && node.nics == 0) {
      map.where().fail(fmt::format("the nodes of {} have no NIC to reach each other", cluster.name),
                       "give its rate per direction, such as `nic: 25Gbps`");
    }
  }
}

void override_inner_links(Map& map, Cluster& cluster) {
  const ClusterKeys& keys = of_cluster();
  const std::optional<BytesPerSecond> nvlink = keys.nvlink.in(map);
  const std::optional<Seconds> nvlink_latency = keys.nvlink_latency.in(map);
  const std::optional<BytesPerSecond> pcie = keys.pcie.in(map);
  const std::optional<Seconds> pcie_latency = keys.pcie_latency.in(map);
  const std::optional<BytesPerSecond> staged = keys.staged_rate.in(map);
  for (NodeGroup& group : cluster.groups) {
    Node& node = group.node;
    if (node.gpus == 0) continue;
    if ((nvlink || nvlink_latency) && !node.nvlink)
      map.at_key(nvlink ? "nvlink" : "nvlink_latency")
          .fail(fmt::format("the GPUs of {} have no NVLink", cluster.name),
                "write the node inline");
    if (nvlink) node.nvlink->bandwidth = *nvlink;
    if (nvlink_latency) node.nvlink->latency = *nvlink_latency;
    if (pcie) node.pcie.bandwidth = *pcie;
    if (pcie_latency) node.pcie.latency = *pcie_latency;
    if (!staged) continue;
    if (node.pcie.peer_to_peer)
      map.at_key("staged_rate")
          .fail("nothing is staged between GPUs with peer-to-peer access", "remove it");
    node.pcie.staged_rate = *staged;
    node.pcie.staged_rate_stated = true;
  }
}

void override_hosts(Map& map, Cluster& cluster) {
  if (const std::optional<Value> bandwidth = of_cluster().host_bandwidth.in(map)) {
    const std::vector<Value> values = by_group(*bandwidth, cluster);
    for (std::size_t i = 0; i < values.size(); ++i)
      cluster.groups[i].node.pcie.host_bandwidth = values[i].as_bytes_per_second();
  }
  if (const auto nvme = of_cluster().nvme.in(map))
    for (NodeGroup& group : cluster.groups) group.node.nvme = nvme;
  if (const std::optional<Value> cores = of_cluster().cores.in(map)) {
    const std::vector<Value> values = by_group(*cores, cluster);
    for (std::size_t i = 0; i < values.size(); ++i)
      cluster.groups[i].node.cores = read_cores(values[i]);
  }
}

void override_gpus(Map& map, Cluster& cluster) {
  const std::optional<double> speed = of_cluster().speed.in(map);
  const std::optional<Bytes> memory = of_cluster().memory.in(map);
  const std::optional<Watts> tdp = of_cluster().tdp.in(map);
  for (NodeGroup& group : cluster.groups) {
    if (group.node.gpus == 0) continue;
    if (speed) group.node.speed = *speed;
    if (memory) group.node.gpu.memory = *memory;
    if (tdp) group.node.gpu.tdp = tdp;
  }
}

void override_fabric(Map& map, Cluster& cluster) {
  if (const std::optional<Value> fabric = of_cluster().fabric.in(map)) {
    cluster.fabric = read_fabric(*fabric, cluster.node_count());
    return;
  }
  const std::optional<std::size_t> places = fabric_nodes(cluster.fabric);
  if (!places || *places == cluster.node_count()) return;
  map.at_key("nodes").fail(
      fmt::format("the {} of {} has {} nodes; the cluster would have {}",
                  fabric_name(cluster.fabric), cluster.name, *places, cluster.node_count()),
      "give a fabric of that size too, such as `fabric: {star: {}}`");
}

}  // namespace rehearse::inline cluster
