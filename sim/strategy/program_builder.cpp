#include "strategy/program_builder.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "cost/launches.hpp"

namespace rehearse::inline strategy {

ProgramBuilder::ProgramBuilder(std::string name, const StepCosts& costs, const Job& job,
                               std::optional<Precision> computes)
    : waited_(costs.launch_blocking ? std::optional(waited_for(costs)) : std::nullopt),
      costs_(waited_ ? *waited_ : costs),
      job_(job),
      computes_(computes.value_or(computed_in(job.precision))),
      tapes_(*this, !computes) {
  check(costs.units.size() == job.model.units.size(), "costs that are not the model's");
  program.name = std::move(name);
  compute_ = lane("compute", LaneKind::compute);
  const bool launches =
      costs_.optimizer_launch > Seconds(0) ||
      std::any_of(costs_.units.begin(), costs_.units.end(), [](const UnitCost& unit) {
        return unit.forward_launch + unit.backward_launch > Seconds(0);
      });
  const bool loads = costs.loading && costs.loading->ahead == 0;
  if (launches || loads) host_ = lane("host", LaneKind::host);
  if (costs.host_computes) host_ = compute_;
  tapes_.read();
}

LaneId ProgramBuilder::lane(std::string name, LaneKind kind) {
  program.lanes.push_back({std::move(name), kind});
  return LaneId(program.lanes.size() - 1);
}

Op& ProgramBuilder::add(Op op) { return program.ops.emplace_back(std::move(op)); }

TensorId ProgramBuilder::tensor(MemoryKind kind, Bytes size, std::uint32_t owner,
                                std::uint32_t stream) {
  program.tensors.push_back({kind, size, owner, stream});
  return TensorId(program.tensors.size() - 1);
}

std::uint32_t ProgramBuilder::owner(std::string name) {
  program.owners.push_back(std::move(name));
  return static_cast<std::uint32_t>(program.owners.size() - 1);
}

void ProgramBuilder::note(OpId op, const TensorEvent& event) {
  if (notes_memory_) program.ops[op.index()].memory.push_back(event);
}

namespace {

bool is_played(int index, int count) { return index < 3 || index + 1 == count; }

}  // namespace

void ProgramBuilder::micro_batch(int index, int count) {
  notes_memory_ = notes_step_ && is_played(index, count);
}

void ProgramBuilder::training_step(int index, int count) {
  notes_memory_ = notes_step_ = is_played(index, count);
  step_ = static_cast<std::uint32_t>(index);
  program.steps = static_cast<std::uint32_t>(count);
}

std::optional<OpId> ProgramBuilder::launch(Verb pass, const std::string& of, Seconds duration) {
  if (!host_ || host_computes()) return std::nullopt;
  add({.verb = Verb::launch,
       .pass = pass,
       .of = of,
       .phase = Phase::host,
       .lane = host_,
       .work = Compute{.duration = duration, .jittered = false}});
  last_on_host_ = last();
  return last();
}

OpId ProgramBuilder::compute(std::size_t unit, Verb pass, Seconds time, double spread,
                             std::vector<After> after) {
  add({.verb = pass,
       .of = job_.model.units[unit].name,
       .phase = pass == Verb::forward ? Phase::forward : Phase::backward,
       .lane = compute_,
       .work = Compute{.duration = time, .step = step_, .spread = spread},
       .after = std::move(after)});
  if (host_computes()) last_on_host_ = last();
  last_computed_ = last();
  return last();
}

std::optional<OpId> ProgramBuilder::copy(const std::string& what, Bytes moved,
                                         std::vector<After> after) {
  const Seconds time = costs_.copy_time(moved);
  if (time <= Seconds(0)) return std::nullopt;
  return kernel(Verb::copy, what, Phase::backward, time, std::move(after));
}

OpId ProgramBuilder::kernel(Verb verb, const std::string& of, Phase phase, Seconds duration,
                            std::vector<After> after) {
  add({.verb = verb,
       .of = of,
       .phase = phase,
       .lane = compute_,
       .work = Compute{.duration = duration, .step = step_},
       .after = std::move(after)});
  if (host_computes()) last_on_host_ = last();
  return last();
}

OpId ProgramBuilder::collective(LaneId lane, std::string what, Collective collective,
                                std::vector<After> after) {
  if (last_on_host_) after.push_back({*last_on_host_});  // the host issues it no earlier
  add({.verb = verb_of(collective.kind),
       .of = std::move(what),
       .moves = collective.size,
       .phase = Phase::communication,
       .lane = lane,
       .work = collective,
       .after = std::move(after)});
  return last();
}

void ProgramBuilder::block_host(std::string what, std::vector<After> after) {
  if (!host_ || after.empty()) return;
  add({.verb = Verb::wait_for,
       .of = std::move(what),
       .phase = Phase::host,
       .lane = host_,
       .work = Join{},
       .after = std::move(after)});
  last_on_host_ = last();
}

Bytes parameter_bytes(const Unit& unit, Precision precision) {
  Bytes sum;
  for (std::size_t i = 0; i < unit.tensors.size(); ++i)
    if (unit.trait(i).trained) sum += stored_bytes(unit, i, precision);
  return sum;
}

Bytes parameter_bytes(const Model& model, Precision precision) {
  Bytes sum;
  for (const Unit& unit : model.units) sum += parameter_bytes(unit, precision);
  return sum;
}

Bytes expert_bytes(const Model& model, Precision precision) {
  Bytes sum;
  for (const Unit& unit : model.units)
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      if (unit.trait(i).trained && unit.is_of_experts(i)) sum += stored_bytes(unit, i, precision);
  return sum;
}

}  // namespace rehearse::inline strategy
