#pragma once

#include <string>
#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse {

/// Writes a program operation by operation, in the order in which the host issues them.
class ProgramBuilder {
 public:
  ProgramBuilder(std::string name, const StepCosts& costs, const Model& model);

  LaneId lane(std::string name, LaneKind kind);
  /// Appends an operation; the reference holds until the next call.
  Op& add(Op op);
  OpId last() const { return OpId(program.ops.size() - 1); }
  Op& operator[](OpId id) { return program.ops[id.index()]; }

  /// A unit's forward or backward on the compute lane, preceded by its launch on the host lane
  /// where that takes time. Forward takes the saved activations, backward gives them back.
  OpId forward(std::size_t unit, std::vector<After> after = {});
  OpId backward(std::size_t unit, std::vector<After> after = {});
  OpId optimizer(Seconds duration, std::vector<After> after);
  /// Issued by the host after all that it has launched so far.
  OpId collective(LaneId lane, std::string what, Collective collective, std::vector<After> after);
  /// Holds the host back until `after` is over (an event.synchronize()); what it issues later waits
  /// with it. Without a host lane there is nothing to hold, and the caller's own edges must say it.
  void block_host(std::string what, std::vector<After> after);
  /// The thread that issues operations also computes: what it issues comes after what it computed.
  bool host_computes() const { return costs_.host_computes; }

  void resident(MemoryKind kind, Bytes size);

  LaneId compute_lane() const { return compute_; }
  const StepCosts& costs() const { return costs_; }
  const Model& model() const { return model_; }

  Program program;

 private:
  OpId unit_op(std::size_t unit, Phase phase, Seconds duration, std::vector<After> after);

  const StepCosts& costs_;
  const Model& model_;
  LaneId compute_;
  std::optional<LaneId> host_;
  std::optional<OpId> last_on_host_;
};

/// Bytes of a unit's parameters.
Bytes parameter_bytes(const Unit& unit, Precision precision);
Bytes parameter_bytes(const Model& model, Precision precision);
/// Optimizer state of all parameters, the master copy included.
Bytes optimizer_state_bytes(const Model& model, const Job& job);

/// A schedule with one program per group of nodes that has GPUs and one rank per GPU, its slowdown
/// from the node's speed; `make` writes each group's program.
template <class Make>
Schedule schedule_by_node_group(const Job& job, Make make) {
  Schedule schedule;
  std::vector<std::optional<ProgramId>> programs(job.cluster.groups.size());
  for (std::size_t g = 0; g < job.cluster.groups.size(); ++g) {
    if (job.cluster.groups[g].node.gpus == 0) continue;
    programs[g] = ProgramId(schedule.programs.size());
    schedule.programs.push_back(make(job.cluster.groups[g], job.costs[g]));
  }
  std::size_t node = 0;
  for (std::size_t g = 0; g < job.cluster.groups.size(); ++g) {
    const NodeGroup& group = job.cluster.groups[g];
    for (int i = 0; i < group.nodes; ++i, ++node)
      for (int gpu = 0; gpu < group.node.gpus; ++gpu)
        schedule.ranks.push_back({.program = *programs[g],
                                  .place = {NodeId(node), gpu},
                                  .slowdown = 1 / group.node.speed,
                                  .groups = {}});
  }
  return schedule;
}

/// A group of given ranks, its node count taken from their places.
Group make_group(std::string name, std::vector<RankId> members, const Schedule& schedule);
/// Puts all ranks into one group, as slot 0 of every rank.
void add_world(Schedule& schedule);

/// InputError unless the cluster has a GPU.
void require_gpus(const Job& job);

}  // namespace rehearse
