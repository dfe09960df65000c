#include "strategy/program_builder.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse {

ProgramBuilder::ProgramBuilder(std::string name, const StepCosts& costs, const Job& job,
                               std::optional<Precision> computes)
    : costs_(costs),
      job_(job),
      computes_(computes.value_or(computed_in(job.precision))),
      parameters_are_leaves_(!computes) {
  check(costs.units.size() == job.model.units.size(), "costs that are not the model's");
  program.name = std::move(name);
  compute_ = lane("compute", LaneKind::compute);
  const bool launches = std::any_of(
      costs.units.begin(), costs.units.end(),
      [](const UnitCost& unit) { return unit.forward_launch + unit.backward_launch > Seconds(0); });
  if (launches) host_ = lane("host", LaneKind::host);
  if (costs.host_computes) host_ = compute_;
  read_tape();
}

LaneId ProgramBuilder::lane(std::string name, LaneKind kind) {
  program.lanes.push_back({std::move(name), kind});
  return LaneId(program.lanes.size() - 1);
}

Op& ProgramBuilder::add(Op op) { return program.ops.emplace_back(std::move(op)); }

OpId ProgramBuilder::unit_op(std::size_t unit, const std::string& pass, Phase phase,
                             const PassCost& cost, std::vector<After> after) {
  const std::string label = pass + " " + job_.model.units[unit].name;
  if (host_ && !host_computes()) {
    add({.label = "launch " + label,
         .phase = Phase::host,
         .lane = host_,
         .work = Compute{.duration = cost.launch, .jittered = false}});
    last_on_host_ = last();
    after.push_back({last()});
  }
  add({.label = label,
       .phase = phase,
       .lane = compute_,
       .work = Compute{.duration = cost.time, .step = step_, .spread = cost.spread},
       .after = std::move(after)});
  if (host_computes()) last_on_host_ = last();
  return last();
}

OpId ProgramBuilder::forward(std::size_t unit, std::vector<After> after) {
  const UnitCost& cost = costs_.units[unit];
  const OpId op =
      unit_op(unit, "forward", Phase::forward,
              {cost.forward, cost.forward_launch, cost.forward_spread}, std::move(after));
  for (const TensorEvent& event : tapes_[unit].forward) note(op, event);
  return op;
}

OpId ProgramBuilder::backward(std::size_t unit, Gradients gradients, std::vector<After> after) {
  const UnitCost& cost = costs_.units[unit];
  if (is_checkpointed(unit)) {
    const OpId again =
        unit_op(unit, "recompute", Phase::backward,
                {cost.forward, cost.forward_launch, cost.forward_spread}, std::move(after));
    for (const TensorEvent& event : tapes_[unit].recompute) note(again, event);
    after.clear();
  }
  const OpId op =
      unit_op(unit, "backward", Phase::backward,
              {cost.backward, cost.backward_launch, cost.backward_spread}, std::move(after));
  note_backward(op, unit, gradients);
  return op;
}

OpId ProgramBuilder::optimizer(Seconds duration, std::vector<After> after) {
  add({.label = "optimizer",
       .phase = Phase::optimizer,
       .lane = compute_,
       .work = Compute{.duration = duration, .step = step_},
       .after = std::move(after)});
  return last();
}

std::optional<OpId> ProgramBuilder::copy(const std::string& what, Bytes moved,
                                         std::vector<After> after) {
  const Seconds time = costs_.copy_time(moved);
  if (time <= Seconds(0)) return std::nullopt;
  add({.label = "copy " + what,
       .phase = Phase::backward,
       .lane = compute_,
       .work = Compute{.duration = time, .step = step_},
       .after = std::move(after)});
  if (host_computes()) last_on_host_ = last();
  return last();
}

OpId ProgramBuilder::collective(LaneId lane, std::string what, Collective collective,
                                std::vector<After> after) {
  if (last_on_host_) after.push_back({*last_on_host_});  // the host issues it no earlier
  add({.label = to_string(collective.kind) + " " + std::move(what) + " (" +
                format(collective.size) + ")",
       .phase = Phase::communication,
       .lane = lane,
       .work = collective,
       .after = std::move(after)});
  return last();
}

void ProgramBuilder::block_host(std::string what, std::vector<After> after) {
  if (!host_ || after.empty()) return;
  add({.label = "wait for " + std::move(what),
       .phase = Phase::host,
       .lane = host_,
       .work = Join{},
       .after = std::move(after)});
  last_on_host_ = last();
}

Bytes parameter_bytes(const Unit& unit, Precision precision) {
  return static_cast<double>(unit.parameters()) * parameter_element(precision);
}

Bytes parameter_bytes(const Model& model, Precision precision) {
  return static_cast<double>(model.parameters()) * parameter_element(precision);
}

Group make_group(std::string name, std::vector<RankId> members, const Schedule& schedule) {
  Group group{.name = std::move(name), .members = std::move(members)};
  group.ranks = group.members.size();
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    const NodeId node = schedule.ranks[group.members[i].index()].place.node;
    if (i == 0 || node != schedule.ranks[group.members[i - 1].index()].place.node) ++group.nodes;
  }
  return group;
}

void add_world(Schedule& schedule) {
  std::vector<RankId> all;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) all.emplace_back(r);
  schedule.groups.push_back(make_group("world", std::move(all), schedule));
  for (RankSpec& rank : schedule.ranks) rank.groups = {GroupId(schedule.groups.size() - 1)};
}

void require_gpus(const Job& job) {
  if (job.cluster.gpu_count() == 0)
    throw InputError(
        "error: cluster: no node has a GPU, so nothing can train\nremedy: set `gpus` of a node to "
        "1 or more");
}

}  // namespace rehearse
