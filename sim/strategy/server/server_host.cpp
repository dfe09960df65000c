// Where a parameter server runs, and how fast it goes there.
#include "strategy/server/server_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "strategy/outer/outer_step.hpp"

namespace rehearse::inline strategy {
namespace {

constexpr BytesPerSecond kSlowCore{12e9}, kCore{18e9}, kFastCore{27e9};
constexpr double kMemoryShare = 0.78;
constexpr int kThreads = 4;
/// Of gradients and their sum: two are read, one is written.
constexpr double kSummed = 3;

/// Node groups that may host servers: the one that is named, else those without GPUs, else the
/// workers' own.
std::vector<NodeId> possible_hosts(const ParameterServer& options, const Cluster& cluster) {
  std::vector<NodeId> named, without_gpus, workers;
  std::size_t node = 0;
  for (const NodeGroup& group : cluster.groups) {
    for (int i = 0; i < group.nodes; ++i, ++node) {
      if (group.name == options.server_host) named.emplace_back(node);
      (group.node.gpus == 0 ? without_gpus : workers).emplace_back(node);
    }
  }
  if (!named.empty()) return named;
  if (options.server_host == "worker") return workers;
  if (options.server_host.empty()) return without_gpus.empty() ? workers : without_gpus;
  std::string names = "\"worker\"";
  for (const NodeGroup& group : cluster.groups)
    if (!group.name.empty()) names += ", \"" + group.name + "\"";
  throw InputError("error: strategy.ps.server_host: the cluster has no group of nodes named \"" +
                   options.server_host + "\"\nremedy: choose one of " + names);
}

/// One pass over all that a step reads and writes, as a server's own loops do it; Nesterov's
/// direction needs no other. What workers' steps led to is added, or is the outer optimizer's
/// gradient.
double moved_by_a_step(const ParameterServer& options, Optimizer optimizer, Precision precision) {
  if (options.local_steps > 1 && !options.outer) return kSummed;
  if (options.outer) optimizer = as_optimizer(*options.outer, precision);
  optimizer.fused = true;
  return optimizer_bytes_per_parameter(optimizer) / parameter_element(precision);
}

/// What is not read of a byte of gradients because fewer arrive.
double unread(const ParameterServer& options, Precision precision) {
  const Bytes element = parameter_element(precision);
  return 1 - wire_element(options.compression, element) / element;
}

}  // namespace

HostTraffic host_traffic(const Cluster& cluster, NodeId id, int servers) {
  const Node& node = cluster.node(id);
  const BytesPerSecond memory = 2 * node.pcie.host_bandwidth * (kMemoryShare / servers);
  const bool one_thread = cluster.shared_cores.has_value();
  const auto traffic = [&](double threads, BytesPerSecond core) {
    const double cores = node.cores ? std::min(threads, 1.0 * *node.cores / servers) : threads;
    return std::min(memory, core * cores);
  };
  constexpr double kAll = 1e9;
  const int threads = one_thread ? 1 : std::min(kThreads, node.cores.value_or(kThreads));
  return {.low = traffic(1, kSlowCore),
          .best = traffic(threads, kCore),
          .high = traffic(one_thread ? 1 : kAll, kFastCore),
          .threads = threads};
}

std::vector<NodeId> server_hosts(const ParameterServer& options, const Cluster& cluster) {
  const std::vector<NodeId> possible = possible_hosts(options, cluster);
  std::vector<NodeId> hosts;
  for (std::size_t s = 0; s < static_cast<std::size_t>(options.servers); ++s)
    hosts.push_back(possible[s % possible.size()]);
  return hosts;
}

std::vector<HostTraffic> server_traffic(const ParameterServer& options, const Cluster& cluster) {
  const std::vector<NodeId> hosts = server_hosts(options, cluster);
  std::map<NodeId, int> servers;
  for (const NodeId host : hosts) ++servers[host];
  std::vector<HostTraffic> traffic;
  for (const NodeId host : hosts) traffic.push_back(host_traffic(cluster, host, servers[host]));
  return traffic;
}

double moved_per_gradient_byte(const ParameterServer& options, const Optimizer& optimizer,
                               Precision precision) {
  const double moved =
      options.staleness == 0U ? kSummed : moved_by_a_step(options, optimizer, precision);
  return moved - unread(options, precision);
}

double moved_per_updated_byte(const ParameterServer& options, const Optimizer& optimizer,
                              Precision precision) {
  return options.staleness == 0U ? moved_by_a_step(options, optimizer, precision) : 0;
}

std::vector<std::string> derived_rates(const ParameterServer& options, const Cluster& cluster,
                                       const Optimizer& optimizer, Precision precision) {
  std::vector<std::string> rates;
  if (options.apply_rate) return rates;
  const double moved = moved_per_gradient_byte(options, optimizer, precision);
  const double updated = moved_per_updated_byte(options, optimizer, precision);
  for (const HostTraffic& traffic : server_traffic(options, cluster)) {
    std::string text =
        fmt::format("{} ({} to {}) of gradients, by {} thread{} in its host's memory",
                    format(traffic.best / moved), format(traffic.low / moved),
                    format(traffic.high / moved), traffic.threads, traffic.threads == 1 ? "" : "s");
    // A rate that is stated has the update within it.
    if (updated > 0)
      text +=
          fmt::format("; parameters are updated after them, at {}", format(traffic.best / updated));
    if (std::ranges::find(rates, text) == rates.end()) rates.push_back(std::move(text));
  }
  return rates;
}

std::vector<std::string> server_names() {
  const auto document = Document::load(platforms_path("servers.yaml"));
  return document->root().as_map().keys();
}

void take_usual_messages(ParameterServer& options, const Cluster& cluster) {
  const auto document = Document::load(platforms_path("servers.yaml"));
  Map server = document->root().as_map().require(options.server).as_map();
  const bool tcp = std::ranges::any_of(cluster.groups, [](const NodeGroup& group) {
    return group.node.nics > 0 && group.node.transport.kind == NicTransport::Kind::tcp;
  });
  const std::string way = tcp ? "tcp" : "rdma";
  const bool inside = cluster.node_count() < 2;
  const auto rate = server.optional(inside ? way + "_inside" : way);
  if (rate) {
    options.usual_worker_cpu = !options.worker_cpu_rate;
    options.usual_server_cpu = !options.server_cpu_rate;
    if (options.usual_worker_cpu) options.worker_cpu_rate = rate->as_bytes_per_second();
    if (options.usual_server_cpu) options.server_cpu_rate = rate->as_bytes_per_second();
  }
  if (!options.per_message) options.per_message = server.require("per_message").as_seconds();
  options.messages_error = server.require("error").as_positive_number();
}

namespace {

/// The node that all like servers' rates are of, with the NICs of all.
Node node_of_all(const Node& node, int servers) {
  Node all = node;
  all.nic_bandwidth = nic_rate(node) * servers;
  all.transport = NicTransport{};
  return all;
}

}  // namespace

std::optional<OneServer> one_for_like_servers(const Strategy& strategy, const Cluster& cluster) {
  const ParameterServer& options = *server_in(strategy);
  const std::vector<NodeId> hosts = server_hosts(options, cluster);
  const NodeGroup& group = cluster.group_of(hosts.front());
  const bool apart = std::set(hosts.begin(), hosts.end()).size() == hosts.size();
  const bool one_kind =
      std::ranges::all_of(hosts, [&](NodeId host) { return &cluster.group_of(host) == &group; });
  const bool beside_workers = group.node.gpus > 0;
  if (hosts.size() < 2 || !apart || !one_kind || options.slice || strategy.layout ||
      cluster.shared_cores || options.partition != ParameterServer::Partition::size ||
      group.node.nics != 1 || group.node.nic_burst > Bytes(0) ||
      !std::holds_alternative<Star>(cluster.fabric))
    return std::nullopt;
  if (beside_workers && (cluster.groups.size() > 1 || hosts.size() != cluster.node_count()))
    return std::nullopt;
  OneServer one{options, cluster};
  one.options.servers = 1;
  one.options.stands_for = options.servers;
  Node all = node_of_all(group.node, options.servers);
  if (beside_workers) {
    all.gpus = 0;
    all.nic_ways_shared = true;
    one.options.server_host = "servers";
    one.cluster.groups.push_back({.name = "servers", .nodes = 1, .node = std::move(all)});
  } else {
    one.cluster.groups[static_cast<std::size_t>(&group - cluster.groups.data())].node =
        std::move(all);
  }
  return one;
}

std::size_t worker_count(const Strategy& strategy, const Cluster& cluster) {
  const bool in_parts = mesh_of(strategy).ranks() > 1;
  if (in_parts || server_in(strategy)->aggregate == ParameterServer::Aggregate::none)
    return replicas_on(strategy, cluster);
  std::size_t nodes = 0;
  for (const NodeGroup& group : cluster.groups)
    if (group.node.gpus > 0) nodes += static_cast<std::size_t>(group.nodes);
  return nodes;
}

}  // namespace rehearse::inline strategy
