#pragma once

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "engine/clusters.hpp"
#include "engine/play.hpp"
#include "strategy/strategy.hpp"

namespace rehearse {

inline constexpr double kMiB = 1024 * 1024;
inline constexpr double kMs = 1e-3;
inline constexpr double kPercent = 1e-7;  // BOOST_CHECK_CLOSE takes percent: 1e-9 relative

inline std::ostream& operator<<(std::ostream& out, TorchDdp::Compression compression) {
  static const char* const kNames[] = {"none", "fp16", "bf16"};
  return out << kNames[static_cast<int>(compression)];
}
inline std::ostream& operator<<(std::ostream& out, OuterCompression compression) {
  return out << static_cast<int>(compression);
}
inline std::ostream& operator<<(std::ostream& out, TorchFsdp1::Prefetch prefetch) {
  static const char* const kNames[] = {"none", "backward_pre", "backward_post"};
  return out << kNames[static_cast<int>(prefetch)];
}

inline const TorchDdp kRingDdp{.algorithm = CollectiveAlgorithm::ring};
/// Replicas of a layout, in buckets as small as PyTorch's.
inline const MegatronDdp kMegatronDdp{.bucket_cap_mb = 25};
inline const MegatronDdp kRingMegatron{.bucket_cap_mb = 25, .algorithm = CollectiveAlgorithm::ring};
/// The same with an optimizer that is sharded.
inline TorchDdp zero_1(TorchDdp ddp = {}) {
  ddp.zero_redundancy_optimizer = true;
  return ddp;
}
inline MegatronDdp zero_1(MegatronDdp ddp) {
  ddp.use_distributed_optimizer = true;
  return ddp;
}

/// A model made by hand with its costs, so that every time can be added up.
struct Toy {
  Model model;
  StepCosts costs;
};

/// One unit of one tensor of fp32 parameters.
struct ToyUnit {
  double parameter_bytes, forward, backward;  // bytes, seconds
  double activation = 0;                      // bytes
};

inline Toy toy(const std::vector<ToyUnit>& units, double optimizer) {
  Toy result;
  for (const ToyUnit& unit : units) {
    Unit made;
    made.name = "u" + std::to_string(result.model.units.size() + 1);
    if (unit.parameter_bytes > 0)
      made.tensors = {static_cast<std::int64_t>(unit.parameter_bytes / 4)};
    result.model.units.push_back(made);
    result.costs.units.push_back({.forward = Seconds(unit.forward),
                                  .backward = Seconds(unit.backward),
                                  .forward_launch = {},
                                  .backward_launch = {},
                                  .activation = Bytes(unit.activation),
                                  .workspace = {}});
  }
  result.costs.optimizer = Seconds(optimizer);
  return result;
}

inline Toy equal_units(std::size_t count, ToyUnit unit, double optimizer) {
  return toy(std::vector<ToyUnit>(count, unit), optimizer);
}

/// The same costs on every group of nodes that has GPUs.
inline Job job_of(const Toy& toy, const Cluster& cluster) {
  Job job{.model = toy.model,
          .cluster = cluster,
          .precision = Precision::fp32,
          .batch_per_gpu = 1,
          .optimizer = {.kind = OptimizerKind::adam, .fused = true},
          .costs = {}};
  for (const NodeGroup& group : cluster.groups)
    job.costs.push_back(group.node.gpus > 0 ? toy.costs : StepCosts{});
  return job;
}

inline Schedule schedule_of(const Strategy& strategy, const Toy& toy, const Cluster& cluster,
                            std::uint32_t iterations = 1) {
  Schedule schedule = build_schedule(strategy, job_of(toy, cluster));
  schedule.iterations = iterations;
  validate(schedule);
  return schedule;
}

inline Trace trace_of(const Strategy& strategy, const Toy& toy, const Cluster& cluster,
                      std::uint32_t iterations = 1) {
  return play(schedule_of(strategy, toy, cluster, iterations), cluster);
}

inline double step_of(const Strategy& strategy, const Toy& toy, const Cluster& cluster) {
  return trace_of(strategy, toy, cluster).end.value();
}

/// When a rank's operation (by the start of its label) of an iteration ran; the n-th if several
/// match.
inline Span span_of(const Schedule& schedule, const Trace& trace, std::size_t rank,
                    const std::string& label, std::uint32_t iteration = 0, std::size_t nth = 0) {
  const Program& program = schedule.program_of(RankId(rank));
  for (std::size_t op = 0; op < program.ops.size(); ++op) {
    if (!program.ops[op].label().starts_with(label) || nth-- > 0) continue;
    const auto found = std::find_if(trace.spans.begin(), trace.spans.end(), [&](const Span& span) {
      return span.rank.index() == rank && span.op.index() == op && span.iteration == iteration;
    });
    if (found != trace.spans.end()) return *found;
  }
  throw InternalError("no span of \"" + label + "\"");
}

inline std::size_t count_of(const Program& program, const std::string& label) {
  return static_cast<std::size_t>(
      std::count_if(program.ops.begin(), program.ops.end(),
                    [&](const Op& op) { return op.label().starts_with(label); }));
}

/// The sizes of a program's collectives of one kind, in order.
inline std::vector<double> sizes_of(const Program& program, CollectiveKind kind) {
  std::vector<double> sizes;
  for (const Op& op : program.ops)
    if (const auto* collective = std::get_if<Collective>(&op.work);
        collective && collective->kind == kind)
      sizes.push_back(collective->size.value());
  return sizes;
}

/// A ring over n one-GPU nodes: each of its steps moves a chunk of size/n.
inline double ring_steps(int steps, int n, double size) {
  return steps * (size / n / kNic + kNicLatency);
}
inline double all_reduce_time(int n, double size) { return ring_steps(2 * (n - 1), n, size); }
inline double all_gather_time(int n, double size) { return ring_steps(n - 1, n, size); }

/// `workers` one-GPU nodes and `servers` nodes without a GPU on a star.
inline Cluster server_cluster(int workers, int servers = 1) {
  Cluster cluster = star_cluster(workers);
  Node server = cluster.groups.front().node;
  server.gpus = 0;
  cluster.groups.push_back({"servers", servers, server});
  return cluster;
}

}  // namespace rehearse
