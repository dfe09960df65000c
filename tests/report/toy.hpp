#pragma once

#include <vector>

#include "report/report.hpp"

/// Small schedules and traces made by hand, with times that are easy to add up. Times in
/// milliseconds.
namespace toy {

using namespace rehearse;

inline Seconds ms(double value) { return Seconds(value * 1e-3); }

inline Span span(std::size_t rank, std::size_t op, std::uint32_t iteration, double ready,
                 double start, double end) {
  return {RankId(rank), OpId(op), iteration, ms(ready), ms(start), ms(end)};
}

inline Op computation(const std::string& label, Phase phase) {
  Op op;
  op.of = label;
  op.phase = phase;
  op.lane = LaneId(0);
  op.work = Compute{};
  return op;
}

inline Op collective(const std::string& label, Bytes size) {
  Op op;
  op.of = label;
  op.phase = Phase::communication;
  op.lane = LaneId(1);
  op.work = Collective{.kind = CollectiveKind::all_reduce,
                       .group = 0,
                       .size = size,
                       .algorithm = CollectiveAlgorithm::ring};
  return op;
}

/// Two nodes with one GPU each (80 GB, 100 TFLOP/s in fp32), 10 USD per hour and node.
inline Cluster two_gpus() {
  Node node;
  node.gpu.name = "toy";
  node.gpu.fp32 = FlopsPerSecond(100e12);
  node.gpu.memory = Bytes(80e9);
  node.prices.on_demand = 10;
  Cluster cluster;
  cluster.name = "pair";
  cluster.groups = {{.name = "workers", .nodes = 2, .node = node}};
  return cluster;
}

/// DDP on two ranks: forward, backward, all_reduce, optimizer; 2 GB of parameters, 6 GB of
/// activations.
inline Schedule ddp_schedule(std::uint32_t iterations) {
  const Bytes gigabyte(1e9);
  Program program{
      .name = "worker",
      .lanes = {{.name = "compute", .kind = LaneKind::compute},
                {.name = "nccl", .kind = LaneKind::communication}},
      .ops = {computation("forward", Phase::forward), computation("backward", Phase::backward),
              collective("all_reduce bucket 0 (2.0 GB)", gigabyte * 2),
              computation("optimizer", Phase::optimizer)},
      .tensors = {{MemoryKind::parameters, gigabyte * 2},
                  {MemoryKind::activations, gigabyte * 6},
                  {MemoryKind::gradients, gigabyte * 2}},
      .owners = {"model"},
      .setup = {{TensorId(0), TensorEvent::Action::take}}};
  const TensorId activations(1), gradients(2);
  program.ops[0].memory = {{activations, TensorEvent::Action::take}};
  program.ops[1].memory = {{gradients, TensorEvent::Action::take},
                           {activations, TensorEvent::Action::give}};
  program.ops[3].memory = {{gradients, TensorEvent::Action::give}};
  Schedule schedule;
  schedule.programs = {program};
  schedule.groups = {{.name = "world", .members = {RankId(0), RankId(1)}, .ranks = 2, .nodes = 2}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    schedule.ranks.push_back(
        {.program = ProgramId(0), .place = {NodeId(rank), 0}, .groups = {GroupId(0)}});
  }
  schedule.samples_per_iteration = 2 * 8;
  schedule.iterations = iterations;
  return schedule;
}

/// Each iteration, from its start t: rank 0 computes forward [0, 1], backward [1, 3], optimizer
/// [5, 5.5]; rank 1 is twice as fast: forward [0, 0.5], backward [0.5, 1.5], optimizer [5, 5.5].
/// The first bucket is ready early: rank 1 enters the all_reduce at 1.5, rank 0 at 2; it ends at 5.
/// The iteration's end (6 and later) is given: the rest is idle.
inline Trace ddp_trace(const std::vector<double>& iteration_ends) {
  Trace trace;
  trace.recorded_ranks = 2;
  trace.iteration_end.resize(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    double t = 0;
    for (std::uint32_t k = 0; k < iteration_ends.size(); ++k) {
      const double pace = rank == 0 ? 1 : 0.5;
      trace.spans.push_back(span(rank, 0, k, t, t, t + pace));
      trace.spans.push_back(span(rank, 1, k, t + pace, t + pace, t + 3 * pace));
      trace.spans.push_back(span(rank, 2, k, t + (rank == 0 ? 2 : 1.5), t + 2, t + 5));
      trace.spans.push_back(span(rank, 3, k, t + 5, t + 5, t + 5.5));
      t = iteration_ends[k];
      trace.iteration_end[rank].push_back(ms(t));
    }
  }
  trace.end = ms(iteration_ends.back());
  return trace;
}

/// A parameter server on rank `workers` with one queue: each worker pulls, computes, and its
/// gradient is applied.
inline Schedule server_schedule(std::size_t workers, std::uint32_t iterations) {
  Op pull;
  pull.verb = Verb::pull;
  pull.phase = Phase::communication;
  pull.lane = LaneId(1);
  pull.work = Transfer{.source = RankId(workers), .target = {}, .size = Bytes(1000)};
  pull.role = UpdateRole::read_parameters;
  Op push = pull;
  push.verb = Verb::push;
  push.work = Transfer{.source = {}, .target = RankId(workers), .size = Bytes(1000)};
  push.role = UpdateRole::none;
  Op apply;
  apply.verb = Verb::apply;
  apply.phase = Phase::server;
  apply.queue = QueueId(0);
  apply.work = Compute{};
  apply.role = UpdateRole::apply_update;
  Schedule schedule;
  schedule.programs = {{.name = "worker",
                        .lanes = {{.name = "compute", .kind = LaneKind::compute},
                                  {.name = "transfers", .kind = LaneKind::communication}},
                        .ops = {pull, computation("compute", Phase::forward), push, apply}},
                       {.name = "server"}};
  schedule.queues = {{.name = "update queue", .owner = RankId(workers)}};
  for (std::size_t rank = 0; rank <= workers; ++rank) {
    schedule.ranks.push_back({.program = ProgramId(rank < workers ? 0 : 1),
                              .place = {NodeId(rank < 2 ? rank : 1), rank < workers ? 0 : -1},
                              .groups = {}});
  }
  schedule.samples_per_iteration = static_cast<double>(8 * workers);
  schedule.iterations = iterations;
  return schedule;
}

/// One iteration of a worker: pull [t, t+1], computation until `pushed` - 1, push, then applied in
/// [applying, applied].
inline void add_iteration(Trace& trace, std::size_t rank, std::uint32_t k, double t, double pushed,
                          double applying, double applied) {
  trace.spans.push_back(span(rank, 0, k, t, t, t + 1));
  trace.spans.push_back(span(rank, 1, k, t + 1, t + 1, pushed - 1));
  trace.spans.push_back(span(rank, 2, k, pushed - 1, pushed - 1, pushed));
  trace.spans.push_back(span(rank, 3, k, pushed, applying, applied));
  trace.iteration_end[rank].push_back(ms(applied));
}

/// `workers` like workers that the server's queue alone holds up: worker w's iteration k is applied
/// in
/// [(k n + w) + 10, (k n + w) + 11], and each pulls again at once.
inline Trace saturated_trace(std::size_t workers, std::uint32_t iterations) {
  Trace trace;
  trace.recorded_ranks = workers + 1;
  trace.iteration_end.resize(workers + 1);
  trace.iteration_end[workers].resize(iterations);
  for (std::size_t w = 0; w < workers; ++w) {
    double t = 0;
    for (std::uint32_t k = 0; k < iterations; ++k) {
      const double applying = static_cast<double>(k * workers + w) + 10;
      add_iteration(trace, w, k, t, t + 2.5, applying, applying + 1);
      t = applying + 1;
    }
  }
  trace.end = trace.iteration_end[workers - 1].back();
  return trace;
}

/// A scenario around the schedules above: 1 GFLOP forward and 2 backward per sample, 8 samples per
/// GPU.
inline Scenario scenario_with(const Strategy& strategy) {
  Unit unit;
  unit.name = "layer";
  unit.tensors = {1000};
  unit.operators = {{.forward_flops = 1e9, .backward_flops = 2e9}};
  Scenario scenario;
  scenario.file = "toy.yaml";
  scenario.model.name = "toy";
  scenario.model.units = {unit};
  scenario.batch_per_gpu = 8;
  scenario.cluster = two_gpus();
  scenario.strategy = strategy;
  scenario.run.warmup_steps = 1;
  return scenario;
}

}  // namespace toy
