#pragma once

#include <ostream>

#include "cluster/cluster.hpp"
#include "collective/plan.hpp"
#include "schedule/schedule.hpp"

namespace rehearse {

inline std::ostream& operator<<(std::ostream& out, Fidelity fidelity) {
  return out << (fidelity == Fidelity::hop ? "hop" : "flow");
}

inline std::ostream& operator<<(std::ostream& out, CollectiveAlgorithm algorithm) {
  return out << to_string(algorithm);
}

inline std::ostream& operator<<(std::ostream& out, CollectiveKind kind) {
  return out << to_string(kind);
}

inline constexpr double kNic = 1e9, kNvlink = 1e11;                 // bytes per second
inline constexpr double kNicLatency = 5e-6, kNvlinkLatency = 1e-6;  // seconds

/// `nodes` nodes of `gpus` GPUs with NVLink on a star, each node with `nics` NICs.
inline Cluster star_cluster(int nodes, int gpus = 1, int nics = 1) {
  Node node;
  node.gpus = gpus;
  if (gpus > 1) node.nvlink = NvLink{BytesPerSecond(kNvlink), Seconds(kNvlinkLatency)};
  node.pcie = {BytesPerSecond(2e10), Seconds(2e-6), true, BytesPerSecond(1e11)};
  node.nics = nics;
  node.nic_bandwidth = BytesPerSecond(kNic);
  node.nic_latency = Seconds(kNicLatency);
  Cluster cluster;
  cluster.name = "test";
  cluster.groups = {{"workers", nodes, node}};
  return cluster;
}

/// Every GPU of the cluster runs `program`; slot 0 is the world.
inline Schedule on_all_ranks(const Cluster& cluster, Program program,
                             std::uint32_t iterations = 1) {
  Schedule schedule;
  schedule.programs = {std::move(program)};
  schedule.iterations = iterations;
  Group world{.name = "world", .ranks = cluster.gpu_count(), .nodes = cluster.node_count()};
  for (const Place& place : gpu_places(cluster)) {
    world.members.emplace_back(schedule.ranks.size());
    schedule.ranks.push_back({.place = place, .groups = {GroupId(0)}});
  }
  schedule.groups = {world};
  return schedule;
}

/// One collective on a lane of its own.
inline Program one_collective(CollectiveKind kind, Bytes size, CollectiveAlgorithm algorithm) {
  Program program{.name = "worker", .lanes = {{"nccl", LaneKind::communication}}};
  program.ops.push_back({.of = to_string(kind),
                         .phase = Phase::communication,
                         .lane = LaneId(0),
                         .work = Collective{.kind = kind, .size = size, .algorithm = algorithm}});
  return program;
}

}  // namespace rehearse
