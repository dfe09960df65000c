#include "explain/cause.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cluster/scale.hpp"
#include "explain/pace.hpp"

namespace rehearse::inline explanation {
namespace {

template <class Change>
void for_each_op(Schedule& schedule, const Change& change) {
  for (Program& program : schedule.programs)
    for (Op& op : program.ops) change(op);
}

template <class Holds>
bool any_op(const Schedule& schedule, const Holds& holds) {
  return std::ranges::any_of(schedule.programs, [&](const Program& program) {
    return std::ranges::any_of(program.ops, holds);
  });
}

bool computes_in(const Op& op, Phase phase) {
  const auto* compute = std::get_if<Compute>(&op.work);
  return compute && op.phase == phase && compute->duration > Seconds(0);
}

bool waits_for_communication(const Program& program, const Op& op) {
  if (op.phase == Phase::communication || op.phase == Phase::server) return false;
  return std::ranges::any_of(
      op.after, [&](const After& after) { return travels(program.ops[after.op.index()]); });
}

/// True if ranks send each other anything.
bool communicates(const Schedule& schedule) {
  return std::ranges::any_of(schedule.ranks, [&](const RankSpec& rank) {
    return std::ranges::any_of(schedule.programs[rank.program.index()].ops, [&](const Op& op) {
      const auto* collective = std::get_if<Collective>(&op.work);
      if (!collective) return travels(op);
      return schedule.groups[rank.groups[collective->group].index()].ranks > 1;
    });
  });
}

bool waits_for_communication(const Schedule& schedule) {
  return std::ranges::any_of(schedule.programs, [](const Program& program) {
    return std::ranges::any_of(program.ops,
                               [&](const Op& op) { return waits_for_communication(program, op); });
  });
}

bool has_interference(const Machine& machine) {
  if (machine.schedule.overlap_slowdown)
    return *machine.schedule.overlap_slowdown != 1 && communicates(machine.schedule);
  if (machine.schedule.channels_slow_compute) return communicates(machine.schedule);
  return machine.comm && !machine.comm->overlap.empty() && communicates(machine.schedule);
}

bool has(Cause cause, const Machine& machine) {
  const Schedule& schedule = machine.schedule;
  switch (cause) {
    case Cause::jitter:
      return schedule.jitter.distribution != Jitter::Distribution::none;
    case Cause::unequal:
      return !slow_ranks(schedule, 1).empty();
    case Cause::host:
      return any_op(schedule, [](const Op& op) { return computes_in(op, Phase::host); });
    case Cause::loading:
      return any_op(schedule, [](const Op& op) { return computes_in(op, Phase::loading); });
    case Cause::interference:
      return has_interference(machine);
    case Cause::shared_cores:
      return machine.cluster.shared_cores.has_value();
    case Cause::server:
      return any_op(schedule, [](const Op& op) { return computes_in(op, Phase::server); });
    case Cause::overlap:
      return communicates(schedule) && waits_for_communication(schedule);
    case Cause::network:
      return communicates(schedule);
  }
  throw InternalError("internal error: unknown cause");
}

void take_no_time(Schedule& schedule, Phase phase) {
  for_each_op(schedule, [phase](Op& op) {
    if (computes_in(op, phase)) std::get<Compute>(op.work).duration = Seconds(0);
  });
}

void wait_for_the_step_before(Schedule& schedule) {
  for (Program& program : schedule.programs) {
    for (Op& op : program.ops) {
      if (!waits_for_communication(program, op)) continue;
      for (After& after : op.after)
        if (travels(program.ops[after.op.index()])) ++after.distance;
    }
  }
}

/// None of those that are folded away is slower than the slowest that is there.
void level_crowd(Schedule& schedule) {
  if (!schedule.crowd) return;
  double most = 0;
  for (const RankSpec& rank : schedule.ranks) most = std::max(most, rank.slowdown);
  for (double& slowdown : schedule.crowd->slowdowns) slowdown = std::min(slowdown, most);
}

/// Nothing to carry, and no latency: members still meet.
void make_instant(Machine& machine) {
  for_each_op(machine.schedule, [](Op& op) {
    if (auto* collective = std::get_if<Collective>(&op.work)) collective->size = Bytes(0);
    if (auto* transfer = std::get_if<Transfer>(&op.work)) transfer->size = Bytes(0);
    if (is_copy(op)) std::get<Compute>(op.work).duration = Seconds(0);
  });
  scale_latencies(0, machine.cluster);
  machine.comm.reset();
}

}  // namespace

std::string to_string(Cause cause) {
  switch (cause) {
    case Cause::jitter:
      return "jitter";
    case Cause::unequal:
      return "unequal";
    case Cause::host:
      return "host";
    case Cause::loading:
      return "loading";
    case Cause::interference:
      return "interference";
    case Cause::shared_cores:
      return "shared_cores";
    case Cause::server:
      return "server";
    case Cause::overlap:
      return "overlap";
    case Cause::network:
      return "network";
  }
  throw InternalError("internal error: unknown cause");
}

std::string instead_of(Cause cause) {
  switch (cause) {
    case Cause::jitter:
      return "no jitter";
    case Cause::unequal:
      return "every rank like the median";
    case Cause::host:
      return "launches in no time";
    case Cause::loading:
      return "batches in no time";
    case Cause::interference:
      return "no slowdown by overlap";
    case Cause::shared_cores:
      return "a core for every rank";
    case Cause::server:
      return "server updates in no time";
    case Cause::overlap:
      return "perfect overlap";
    case Cause::network:
      return "an infinite network";
  }
  throw InternalError("internal error: unknown cause");
}

std::vector<Cause> causes_of(const Machine& machine) {
  std::vector<Cause> causes;
  for (const Cause cause :
       {Cause::jitter, Cause::unequal, Cause::host, Cause::loading, Cause::interference,
        Cause::shared_cores, Cause::server, Cause::overlap, Cause::network})
    if (has(cause, machine)) causes.push_back(cause);
  return causes;
}

void remove(Cause cause, Machine& machine) {
  switch (cause) {
    case Cause::jitter:
      machine.schedule.jitter = {};
      return;
    case Cause::unequal:
      for (const RankId rank : slow_ranks(machine.schedule, machine.schedule.ranks.size()))
        make_median(rank, machine);
      return level_crowd(machine.schedule);
    case Cause::host:
      return take_no_time(machine.schedule, Phase::host);
    case Cause::loading:
      return take_no_time(machine.schedule, Phase::loading);
    case Cause::interference:
      machine.schedule.overlap_slowdown = 1;
      return;
    case Cause::shared_cores:
      machine.cluster.shared_cores.reset();
      return;
    case Cause::server:
      return take_no_time(machine.schedule, Phase::server);
    case Cause::overlap:
      return wait_for_the_step_before(machine.schedule);
    case Cause::network:
      return make_instant(machine);
  }
}

}  // namespace rehearse::inline explanation
