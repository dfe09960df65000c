// The tensors of a program: the model's memory tape, what every strategy holds beside it, and what
// an optimizer takes.
#include <algorithm>

#include "strategy/program_builder.hpp"

namespace rehearse {

namespace {

using Action = TensorEvent::Action;

MemoryKind kind_of(TensorRole role) {
  switch (role) {
    case TensorRole::activation:
      return MemoryKind::activations;
    case TensorRole::parameter_gradient:
      return MemoryKind::gradients;
    case TensorRole::activation_gradient:
    case TensorRole::autocast_copy:
    case TensorRole::workspace:
      break;
  }
  return MemoryKind::workspace;
}

/// A model that is a profile's has no operators: its activations are what was measured.
bool has_tape(const Unit& unit) { return !unit.operators.empty() || unit.activation; }

/// What one batch and its targets take: images as floating-point numbers with a class each, or
/// tokens, each with the one to predict, in 64 bits. Nothing is known of an inline model's.
Bytes batch_bytes(const Model& model, const Job& job) {
  const auto samples = static_cast<double>(job.batch_per_gpu);
  constexpr Bytes kIndex(8);
  if (model.tokens_per_sample > 0)
    return samples * static_cast<double>(model.tokens_per_sample) * 2.0 * kIndex;
  if (model.image == 0) return Bytes(0);
  return samples * (model.input_elements * parameter_element(job.precision) + kIndex);
}

/// PyTorch's getChosenWorkspaceSize (aten/src/ATen/cuda/CublasHandlePool.cpp), kept for good from
/// the first product on: 2 x 4096 KiB + 8 x 16 KiB, on Hopper 8 x 4096 KiB.
Bytes cublas_workspace(const Cluster& cluster) {
  const bool hopper = std::ranges::any_of(cluster.groups, [](const NodeGroup& group) {
    const std::string& name = group.node.gpu.name;
    return name.find("H100") != std::string::npos || name.find("H200") != std::string::npos;
  });
  return Bytes(1024.0 * (hopper ? 8 * 4096 : 2 * 4096 + 8 * 16));
}

}  // namespace

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

void ProgramBuilder::micro_batch(int index, int count) {
  notes_memory_ = index < 3 || index + 1 == count;
}

void ProgramBuilder::training_step(int index, int count) {
  micro_batch(index, count);
  step_ = static_cast<std::uint32_t>(index);
  program.steps = static_cast<std::uint32_t>(count);
}

bool ProgramBuilder::is_checkpointed(std::size_t unit) const {
  return !job_.checkpointed.empty() && job_.checkpointed[unit];
}

void ProgramBuilder::read_tape() {
  const Model& model = job_.model;
  for (const Unit& unit : model.units) owner(unit.name);
  tapes_.resize(model.units.size());
  const MemoryTape tape = memory_tape(
      model, {.precision = job_.precision, .batch = job_.batch_per_gpu, .device = job_.device});
  std::vector<TensorId> ids;
  ids.reserve(tape.tensors.size());
  for (const TapeTensor& one : tape.tensors)
    ids.push_back(tensor(kind_of(one.role), one.size, one.unit));
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
}

namespace {

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
    const Bytes size = static_cast<double>(*elements) * parameter_element(job_.precision);
    events.gradients.push_back(tensor(MemoryKind::gradients, size, owner));
    events.last_ready = events.gradients.back();
    events.backward.push_back({events.last_ready, Action::take});
  }
  events.backward.push_back({kept, Action::give});
}

/// Gives back at the end of forward what only the unit's own backward needs, and takes it again
/// when forward is computed once more; keeps its input until then. What another unit gives back, or
/// the last activation that forward leaves, is the output: the next unit's input. A single tensor
/// that stands for all that a unit keeps (of which the input is not known) goes.
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
  for (const TensorId id : internal) events.forward.push_back({id, Action::give});
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

void ProgramBuilder::give_gradients(OpId op) {
  if (!job_.set_to_none) return;
  for (std::size_t unit = tapes_.size(); unit-- > 0;)
    for (const TensorId id : tapes_[unit].gradients) give(op, id);
}

void ProgramBuilder::hold_parameters() {
  for (std::uint32_t unit = 0; unit < job_.model.units.size(); ++unit)
    for (const std::int64_t elements : job_.model.units[unit].tensors)
      hold(tensor(MemoryKind::parameters,
                  static_cast<double>(elements) * parameter_element(job_.precision), unit));
}

void ProgramBuilder::hold_surroundings() {
  const Model& model = job_.model;
  for (std::uint32_t unit = 0; unit < model.units.size(); ++unit) {
    const auto elements = static_cast<double>(model.units[unit].buffer_elements);
    if (elements > 0) hold(tensor(MemoryKind::parameters, elements * Bytes(4), unit));
  }
  const bool multiplies = model.has_operator(OperatorKind::matmul);
  if (job_.device == TapeDevice::cuda && multiplies)
    hold(tensor(MemoryKind::workspace, cublas_workspace(job_.cluster), owner("cuBLAS")));
  const Bytes batch = batch_bytes(model, job_);
  if (batch > Bytes(0)) hold(tensor(MemoryKind::activations, batch, owner("batch")));
}

std::vector<Trained> ProgramBuilder::trained(std::int64_t shards) const {
  std::vector<Trained> all;
  for (std::uint32_t unit = 0; unit < job_.model.units.size(); ++unit)
    for (const std::int64_t elements : job_.model.units[unit].tensors)
      all.push_back({(elements + shards - 1) / shards, unit});
  return all;
}

OpId ProgramBuilder::local_update() {
  const OpId op = optimizer(costs_.optimizer, {});
  if (step_ > 0) {
    for (const TensorEvent& event : update_) note(op, event);
    return op;
  }
  update(op, trained());
  std::ranges::copy_if(program.ops[op.index()].memory, std::back_inserter(update_),
                       [](const TensorEvent& event) { return !event.once; });
  return op;
}

void ProgramBuilder::update(OpId op, const std::vector<Trained>& tensors) {
  const OptimizerMemory memory = optimizer_memory(job_.optimizer, job_.precision);
  const bool foreach = job_.optimizer.foreach && job_.device == TapeDevice::cuda;
  const auto size = [](const Trained& one) { return Bytes(4) * static_cast<double>(one.elements); };
  for (const Trained& one : tensors)
    for (int i = 0; i < memory.states; ++i)
      note(op, {tensor(MemoryKind::optimizer_state, size(one), one.owner), Action::take, true});
  std::vector<TensorId> temporaries;
  const auto use = [&] {
    for (const TensorId id : temporaries) take(op, id);
    for (const TensorId id : temporaries) give(op, id);
    temporaries.clear();
  };
  for (const Trained& one : tensors) {
    const int count = foreach ? memory.foreach_temporaries : memory.loop_temporaries;
    for (int i = 0; i < count; ++i)
      temporaries.push_back(tensor(MemoryKind::workspace, size(one), one.owner));
    if (!foreach) use();
  }
  use();
}

}  // namespace rehearse
