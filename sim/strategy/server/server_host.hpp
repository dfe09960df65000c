#pragma once

#include <string>
#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// What goes through a host's memory for one server that applies gradients, in bytes that are read
/// or written per second. A server on a CPU applies with so many threads as it likes, and how many
/// these are is not known: one, or as many as fill the memory. `best` is of four (what MXNet sums
/// with, MXNET_KVSTORE_REDUCTION_NTHREADS, and BytePS, BYTEPS_OMP_THREAD_PER_GPU). On cores that
/// the whole cluster shares each server has one.
struct HostTraffic {
  BytesPerSecond low, best, high;  ///< a 90 % interval
  int threads = 1;                 ///< of `best`
  bool operator==(const HostTraffic&) const = default;
};

/// Of one of `servers` on a node, which share its cores and its memory evenly. One core moves 18
/// GB/s (12 to 27) and all of them 0.78 of the memory's rate, which is twice the node's
/// `host_bandwidth`, as Stream measures them: 12 GB/s on one core of a Skylake-SP, half as much
/// again on Broadwell-EP, 27 GB/s on an EPYC 7601 (AnandTech 11544, "Memory Subsystem: Bandwidth",
/// 2017), where Intel's best is 199 of 256 GB/s.
HostTraffic host_traffic(const Cluster& cluster, NodeId node, int servers);

/// The node of each server: of the group that is named, else of those without GPUs, else of the
/// workers; servers take nodes in turn. InputError where no group has the name.
std::vector<NodeId> server_hosts(const ParameterServer& options, const Cluster& cluster);
/// host_traffic() of each server.
std::vector<HostTraffic> server_traffic(const ParameterServer& options, const Cluster& cluster);

/// Bytes that a server reads and writes for a byte of gradients as parameters are stored: 3 where
/// these are summed (a synchronous server, or how far local steps led without an outer optimizer);
/// else what the optimizer's step, or the outer one's, moves in one pass. Of what arrives
/// compressed so much less is read.
double moved_per_gradient_byte(const ParameterServer& options, const Optimizer& optimizer,
                               Precision precision);
/// And for a byte of parameters at the end of a synchronous round; 0 of other servers.
double moved_per_updated_byte(const ParameterServer& options, const Optimizer& optimizer,
                              Precision precision);

/// What server_traffic() makes of gradients, for people: "24.0 GB/s (4.00 to 52.0) of gradients, 4
/// threads of its host's memory"; one text for each kind of host. Empty where the rate is given.
std::vector<std::string> derived_rates(const ParameterServer& options, const Cluster& cluster,
                                       const Optimizer& optimizer, Precision precision);

/// Servers of platforms/servers.yaml, "ours" first.
std::vector<std::string> server_names();
/// What takes messages of servers through CPUs where nobody says it, by platforms/servers.yaml:
/// ParameterServer::worker_cpu_rate, server_cpu_rate, per_message and the error of these. On one
/// node they are those of messages that stay there; ours then go through its memory, and take none.
void take_usual_messages(ParameterServer& options, const Cluster& cluster);

/// One server that stands for all, and where it is.
struct OneServer {
  ParameterServer options;
  Cluster cluster;
};
/// Servers that share every unit evenly, each on a node of its own with one NIC, are alike: what a
/// worker sends to one it sends to all at once. One with the rates of all takes the same times
/// where no worker is beside it. Where each node has a worker and a server, as many NICs' worth of
/// rate carries what servers send and receive, whoever sends it: then its times are those of
/// messages that are spread evenly. Nothing: they are not alike.
std::optional<OneServer> one_for_like_servers(const Strategy& strategy, const Cluster& cluster);

/// Who exchanges with the servers: GPUs, nodes with GPUs (ParameterServer::aggregate), or replicas
/// over the ranks of a layout.
std::size_t worker_count(const Strategy& strategy, const Cluster& cluster);

}  // namespace rehearse::inline strategy
