// The model's memory tape in a program's operations: what each unit takes and gives back, again
// where it is checkpointed, and what becomes of its gradients.
#include <algorithm>

#include "strategy/program_builder.hpp"

namespace rehearse {

namespace {

using Action = TensorEvent::Action;

MemoryKind kind_of(TensorRole role) {
  switch (role) {
    case TensorRole::activation:
    case TensorRole::autocast_copy:
      return MemoryKind::activations;
    case TensorRole::parameter_gradient:
      return MemoryKind::gradients;
    case TensorRole::activation_gradient:
    case TensorRole::workspace:
      break;
  }
  return MemoryKind::workspace;
}

/// A model that is a profile's has no operators: its activations are what was measured.
bool has_tape(const Unit& unit) { return !unit.operators.empty() || unit.activation; }

/// Whether the parameter is the bias of a linear layer with a weight of its own, just before it.
bool is_linear_bias(const Unit& unit, std::uint32_t parameter) {
  return std::ranges::any_of(unit.layers, [&](const Layer& layer) {
    const auto first = layer.parameter,
               end = first + 2 * static_cast<std::uint32_t>(layer.channels.size());
    return layer.kind == LayerKind::linear && layer.bias && !layer.tied && parameter > first &&
           parameter < end && (parameter - first) % 2 == 1;
  });
}

}  // namespace

bool ProgramBuilder::is_checkpointed(std::size_t unit) const {
  return !job_.checkpointed.empty() && job_.checkpointed[unit];
}

void ProgramBuilder::read_tape() {
  const Model& model = job_.model;
  for (const Unit& unit : model.units) owner(unit.name);
  tapes_.resize(model.units.size());
  const MemoryTape tape = memory_tape(
      model, {.precision = computes_, .batch = job_.batch_per_gpu, .device = job_.device});
  std::vector<TensorId> ids;
  ids.reserve(tape.tensors.size());
  for (const TapeTensor& one : tape.tensors) {
    ids.push_back(tensor(kind_of(one.role), one.size, one.unit));
    if (one.role == TensorRole::autocast_copy && parameters_are_leaves_)
      cached_.insert(ids.back());
  }
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    if (has_tape(model.units[unit])) {
      add_tape(unit, tape, ids);
    } else {
      add_given_tape(unit);
    }
    for (const TensorId id : tapes_[unit].gradients) {
      const Tensor stays = program.tensors[id.index()];
      tapes_[unit].incoming.push_back(tensor(stays.kind, stays.size, stays.owner));
    }
  }
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    if (is_checkpointed(unit)) checkpoint(unit);
  for (const TensorId id : cached_until_end_) tapes_.back().forward.push_back({id, Action::give});
}

void ProgramBuilder::add_tape(std::size_t unit, const MemoryTape& tape,
                              const std::vector<TensorId>& ids) {
  UnitEvents& events = tapes_[unit];
  const auto translate = [&](const TapeEvent& event) {
    return TensorEvent{ids[event.tensor], event.takes ? Action::take : Action::give};
  };
  for (const TapeEvent& event : tape.units[unit].forward)
    events.forward.push_back(translate(event));
  for (const TapeEvent& event : tape.units[unit].backward) {
    events.backward.push_back(translate(event));
    const TapeTensor& made = tape.tensors[event.tensor];
    if (made.role != TensorRole::parameter_gradient || !event.takes) continue;
    const bool before_its_bias =
        !events.gradients.empty() && is_linear_bias(job_.model.units[unit], made.parameter);
    events.last_ready = before_its_bias ? events.gradients.back() : ids[event.tensor];
    events.gradients.push_back(ids[event.tensor]);
  }
}

/// What was measured of a unit: one tensor that it keeps, and what its kernels need meanwhile.
void ProgramBuilder::add_given_tape(std::size_t unit) {
  const auto owner = static_cast<std::uint32_t>(unit);
  const UnitCost& cost = costs_.units[unit];
  UnitEvents& events = tapes_[unit];
  const TensorId kept = tensor(MemoryKind::activations, cost.activation, owner);
  const TensorId work = tensor(MemoryKind::workspace, cost.workspace, owner);
  events.forward = {{kept, Action::take}, {work, Action::take}, {work, Action::give}};
  events.backward = {{work, Action::take}, {work, Action::give}};
  const auto& parameters = job_.model.units[unit].tensors;
  for (auto elements = parameters.rbegin(); elements != parameters.rend(); ++elements) {
    const Bytes size = static_cast<double>(*elements) * parameter_element(computes_);
    events.gradients.push_back(tensor(MemoryKind::gradients, size, owner));
    events.last_ready = events.gradients.back();
    events.backward.push_back({events.last_ready, Action::take});
  }
  events.backward.push_back({kept, Action::give});
}

/// Gives back at the end of forward what only the unit's own backward needs, and takes it again
/// when forward is computed once more; keeps its input until then. What another unit gives back, or
/// the last activation that forward leaves, is the output: the next unit's input. A single tensor
/// that stands for all that a unit keeps (of which the input is not known) goes. Autocast's cache
/// holds its copies of weights until the last unit's forward is over: checkpointed or not.
void ProgramBuilder::checkpoint(std::size_t unit) {
  UnitEvents& events = tapes_[unit];
  const auto holds = [](const std::vector<TensorEvent>& all, TensorEvent event) {
    return std::ranges::find(all, event) != all.end();
  };
  std::vector<TensorId> left, inputs;
  for (const TensorEvent& event : events.forward) {
    if (event.action == Action::take) left.push_back(event.tensor);
    if (event.action == Action::give && std::erase(left, event.tensor) == 0)
      inputs.push_back(event.tensor);
  }
  const auto is_own = [&](TensorId id) { return holds(events.backward, {id, Action::give}); };
  const auto is_activation = [&](TensorId id) {
    return program.tensors[id.index()].kind == MemoryKind::activations;
  };
  const auto passes_on = [&](TensorId id) { return is_activation(id) && !is_own(id); };
  const bool lumped = job_.model.units[unit].activation || !has_tape(job_.model.units[unit]);
  std::vector<TensorId> internal;
  std::ranges::copy_if(left, std::back_inserter(internal), is_own);
  if (!lumped && std::ranges::none_of(left, passes_on)) {
    const auto output = std::find_if(internal.rbegin(), internal.rend(), is_activation);
    if (output != internal.rend()) internal.erase(std::next(output).base());
  }
  std::erase_if(left, [&](TensorId id) { return std::ranges::count(internal, id) > 0; });
  for (const TensorId id : inputs) {
    std::erase(events.forward, TensorEvent{id, Action::give});
    events.backward.push_back({id, Action::give});
  }
  std::ranges::copy_if(
      events.forward, std::back_inserter(events.recompute),
      [&](const TensorEvent& event) { return std::ranges::count(left, event.tensor) == 0; });
  for (const TensorId id : internal) {
    if (cached_.contains(id)) {
      cached_until_end_.push_back(id);
    } else {
      events.forward.push_back({id, Action::give});
    }
  }
}

/// What is added to a gradient goes once the kernels of its operator are through: before the next
/// tensor of another kind is taken.
void ProgramBuilder::note_backward(OpId op, std::size_t unit, Gradients gradients) {
  const UnitEvents& events = tapes_[unit];
  const bool stay =
      gradients == Gradients::collected || (gradients == Gradients::kept && job_.set_to_none);
  std::vector<std::size_t> passing;
  const auto add_up = [&] {
    for (const std::size_t which : passing) {
      give(op, events.incoming[which]);
      if (gradients == Gradients::kept) note(op, {events.gradients[which], Action::take, true});
    }
    passing.clear();
  };
  std::size_t made = 0;
  for (const TensorEvent& event : events.backward) {
    const bool is_gradient =
        made < events.gradients.size() && event.tensor == events.gradients[made];
    if (!is_gradient && event.action == Action::take) add_up();
    if (!is_gradient || stay) {
      note(op, event);
    } else {
      take(op, events.incoming[made]);
      passing.push_back(made);
    }
    if (is_gradient) ++made;
  }
  add_up();
}

}  // namespace rehearse
