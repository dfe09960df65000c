// The model's memory tape in a program's operations: what each unit takes and gives back, again
// where it is checkpointed, and what becomes of its gradients.
#include <algorithm>

#include "base/error.hpp"
#include "strategy/layout/stage_plan.hpp"
#include "strategy/program_builder.hpp"
#include "strategy/unit_tapes.hpp"

namespace rehearse::inline strategy {

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

/// Whether the parameter is the weight of a linear layer or of experts.
bool is_product_weight(const Unit& unit, std::uint32_t parameter) {
  return std::ranges::any_of(unit.layers, [&](const Layer& layer) {
    if (layer.kind == LayerKind::experts) return parameter > layer.parameter;
    if (layer.kind != LayerKind::linear || layer.tied) return false;
    const std::uint32_t each = layer.bias ? 2 : 1;
    const auto end = layer.parameter + each * static_cast<std::uint32_t>(layer.channels.size());
    return parameter >= layer.parameter && parameter < end &&
           (parameter - layer.parameter) % each == 0;
  });
}

}  // namespace

void UnitTapes::read() {
  const Model& model = builder_.job().model;
  for (const Unit& unit : model.units) builder_.owner(unit.name);
  const MemoryTape tape = memory_tape(model, {.precision = builder_.computes(),
                                              .batch = builder_.job().batch_per_gpu,
                                              .device = builder_.job().device,
                                              .gradients = builder_.job().trains});
  const auto slots =
      static_cast<std::size_t>(builder_.job().stage == nullptr ? 1 : builder_.job().stage->slots());
  for (slot_ = 0; slot_ < slots; ++slot_) read_once(tape);
  slot_ = 0;
}

/// For one more micro-batch in flight.
void UnitTapes::read_once(const MemoryTape& tape) {
  const Model& model = builder_.job().model;
  tapes_.emplace_back(model.units.size());
  chunks_.emplace_back(model.chunks.size());
  const std::vector<TensorId> ids = tensors_of(tape);
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    if (has_tape(model.units[unit])) {
      add_tape(unit, tape, ids);
    } else {
      add_given_tape(unit);
    }
    add_incoming(unit);
  }
  for (std::size_t chunk = 0; chunk < model.chunks.size(); ++chunk) add_chunk(chunk, tape, ids);
  for (std::size_t unit = 0; unit < model.units.size(); ++unit)
    if (builder_.job().is_checkpointed(unit)) checkpoint(unit);
  for (const auto& [id, unit] : cached_until_end_)
    events(last_of_chunk(unit)).forward.push_back({id, Action::give});
  cached_until_end_.clear();
}

std::size_t UnitTapes::last_of_chunk(std::size_t unit) const {
  for (const Chunk& chunk : builder_.job().model.chunks)
    if (unit < chunk.end) return chunk.end - 1;
  return builder_.job().model.units.size() - 1;
}

/// Gradients of parameters are the first slot's: no two backwards make them at a time.
std::vector<TensorId> UnitTapes::tensors_of(const MemoryTape& tape) {
  std::vector<TensorId> ids;
  ids.reserve(tape.tensors.size());
  for (std::size_t i = 0; i < tape.tensors.size(); ++i) {
    const TapeTensor& one = tape.tensors[i];
    const bool shared = one.role == TensorRole::parameter_gradient && slot_ > 0;
    ids.push_back(shared ? first_ids_[i] : builder_.tensor(kind_of(one.role), one.size, one.unit));
    if (one.role == TensorRole::autocast_copy && leaves_) cached_.insert(ids.back());
  }
  if (slot_ == 0) first_ids_ = ids;
  return ids;
}

void UnitTapes::add_incoming(std::size_t unit) {
  if (slot_ > 0) {
    events(unit).incoming = tapes_[0][unit].incoming;
    return;
  }
  for (const TensorId id : events(unit).gradients) {
    const Tensor stays = builder_.program.tensors[id.index()];
    events(unit).incoming.push_back(builder_.tensor(stays.kind, stays.size, stays.owner));
  }
}

/// Messages are taken and given back where they are received and sent, and the gradient that a
/// chunk sends where its backward's first part ends.
void UnitTapes::add_chunk(std::size_t chunk, const MemoryTape& tape,
                          const std::vector<TensorId>& ids) {
  const Chunk& units = builder_.job().model.chunks[chunk];
  if (!has_tape(builder_.job().model.units[units.first])) {
    add_given_chunk(chunk);
    return;
  }
  const ChunkTape& messages = tape.chunks[chunk];
  const auto id_of = [&](const std::optional<std::uint32_t>& which) {
    return which ? std::optional(ids[*which]) : std::nullopt;
  };
  ChunkTensors& own = chunks_.back()[chunk];
  own = {id_of(messages.received), id_of(messages.sent), id_of(messages.received_gradient),
         id_of(messages.sent_gradient), messages.keeps_sent};
  if (own.received)
    std::erase(events(units.first).forward, TensorEvent{*own.received, Action::take});
  if (own.received_gradient)
    std::erase(events(units.end - 1).backward, TensorEvent{*own.received_gradient, Action::take});
}

/// Tensors that a profile's units hand on, one each. A received one is kept for the backward
/// pass, whose end gives it back.
void UnitTapes::add_given_chunk(std::size_t chunk) {
  const Chunk& units = builder_.job().model.chunks[chunk];
  const std::vector<Unit>& all = builder_.job().model.units;
  const std::size_t last = units.end - 1;
  const auto message = [&](Bytes sample, MemoryKind kind, std::size_t owner) {
    const Bytes size = static_cast<double>(builder_.job().batch_per_gpu) * sample;
    return size > Bytes(0)
               ? std::optional(builder_.tensor(kind, size, static_cast<std::uint32_t>(owner)))
               : std::nullopt;
  };
  const Bytes handed = all[units.first].handed;
  const Bytes hands_on = units.has_loss ? Bytes(0) : all[last].hands_on;
  ChunkTensors& own = chunks_.back()[chunk];
  own = {message(handed, MemoryKind::activations, units.first),
         message(hands_on, MemoryKind::activations, last),
         message(hands_on, MemoryKind::workspace, last),
         message(handed, MemoryKind::workspace, units.first)};
  if (own.sent) events(last).forward.push_back({*own.sent, Action::take});
  std::vector<TensorEvent>& backward = events(units.first).backward;
  if (own.sent_gradient) backward.push_back({*own.sent_gradient, Action::take});
  if (own.received) backward.push_back({*own.received, Action::give});
  if (own.received_gradient)
    events(last).backward.push_back({*own.received_gradient, Action::give});
}

void UnitTapes::add_tape(std::size_t unit, const MemoryTape& tape,
                         const std::vector<TensorId>& ids) {
  UnitEvents& own = events(unit);
  const StagePlan* stage = builder_.job().stage;
  const bool records = stage != nullptr && stage->records_streams;
  const auto translate = [&](const TapeEvent& event) {
    const bool in_use = records && tape.tensors[event.tensor].travels;
    if (in_use && event.takes) recordable_.insert(ids[event.tensor]);
    return TensorEvent{ids[event.tensor], event.takes ? Action::take
                                          : in_use    ? Action::give_in_use
                                                      : Action::give};
  };
  // No cache keeps copies of views of flat parameters: without a backward each goes behind its
  // product, and at the latest before the next one is made.
  const bool drops_copies = !builder_.job().trains && !leaves_;
  std::optional<TensorId> copy;
  const auto drop_copy = [&] {
    if (copy) own.forward.push_back({*copy, Action::give});
    copy.reset();
  };
  for (const TapeEvent& event : tape.units[unit].forward) {
    const bool is_copy =
        drops_copies && tape.tensors[event.tensor].role == TensorRole::autocast_copy;
    if (is_copy && !event.takes) continue;
    if (is_copy) drop_copy();
    if (is_copy) copy = ids[event.tensor];
    own.forward.push_back(translate(event));
  }
  drop_copy();
  for (const TapeEvent& event : tape.units[unit].backward) {
    own.backward.push_back(translate(event));
    const TapeTensor& made = tape.tensors[event.tensor];
    if (made.role != TensorRole::parameter_gradient || !event.takes) continue;
    const bool before_its_bias =
        !own.gradients.empty() && is_linear_bias(builder_.job().model.units[unit], made.parameter);
    own.last_ready = before_its_bias ? own.gradients.back() : ids[event.tensor];
    own.gradients.push_back(ids[event.tensor]);
    own.parameters.push_back(made.parameter);
    own.products.push_back(is_product_weight(builder_.job().model.units[unit], made.parameter));
  }
  if (!builder_.job().trains) add_gradients(unit);
}

/// Adds those whose gradients no tape makes, from the last parameter to the first.
void UnitTapes::add_gradients(std::size_t unit) {
  UnitEvents& own = events(unit);
  const Unit& made_of = builder_.job().model.units[unit];
  for (std::size_t parameter = made_of.tensors.size(); parameter-- > 0;) {
    if (!made_of.trait(parameter).trained) continue;
    own.parameters.push_back(static_cast<std::uint32_t>(parameter));
    const Bytes size =
        static_cast<double>(made_of.tensors[parameter]) * parameter_element(builder_.computes());
    const auto made = own.gradients.size();
    own.gradients.push_back(
        slot_ > 0 ? tapes_[0][unit].gradients[made]
                  : builder_.tensor(MemoryKind::gradients, size, static_cast<std::uint32_t>(unit)));
    own.last_ready = own.gradients.back();
    own.backward.push_back({own.last_ready, Action::take});
  }
}

/// What was measured of a unit: one tensor that it keeps, and what its kernels need meanwhile.
void UnitTapes::add_given_tape(std::size_t unit) {
  const auto owner = static_cast<std::uint32_t>(unit);
  const UnitCost& cost = builder_.costs().units[unit];
  UnitEvents& own = events(unit);
  const TensorId kept = builder_.tensor(MemoryKind::activations, cost.activation, owner);
  const TensorId work = builder_.tensor(MemoryKind::workspace, cost.workspace, owner);
  own.forward = {{kept, Action::take}, {work, Action::take}, {work, Action::give}};
  own.backward = {{work, Action::take}, {work, Action::give}};
  add_gradients(unit);
  own.backward.push_back({kept, Action::give});
}

/// Gives back at the end of forward what only the unit's own backward needs, and takes it again
/// when forward is computed once more; keeps its input until then. What another unit gives back, or
/// the last activation that forward leaves, is the output: the next unit's input. A single tensor
/// that stands for all that a unit keeps (of which the input is not known) goes. Autocast's cache
/// holds its copies of weights until the last unit's forward is over: checkpointed or not.
void UnitTapes::checkpoint(std::size_t unit) {
  UnitEvents& own = events(unit);
  const auto holds = [](const std::vector<TensorEvent>& all, TensorEvent event) {
    return std::ranges::find(all, event) != all.end();
  };
  std::vector<TensorId> left, inputs;
  for (const TensorEvent& event : own.forward) {
    if (event.action == Action::take) left.push_back(event.tensor);
    if (event.action == Action::give && std::erase(left, event.tensor) == 0)
      inputs.push_back(event.tensor);
  }
  const auto is_own = [&](TensorId id) { return holds(own.backward, {id, Action::give}); };
  const auto is_activation = [&](TensorId id) {
    return builder_.program.tensors[id.index()].kind == MemoryKind::activations;
  };
  const auto passes_on = [&](TensorId id) { return is_activation(id) && !is_own(id); };
  const bool lumped =
      builder_.job().model.units[unit].activation || !has_tape(builder_.job().model.units[unit]);
  std::vector<TensorId> internal;
  std::ranges::copy_if(left, std::back_inserter(internal), is_own);
  if (!lumped && std::ranges::none_of(left, passes_on)) {
    const auto output = std::find_if(internal.rbegin(), internal.rend(), is_activation);
    if (output != internal.rend()) internal.erase(std::next(output).base());
  }
  std::erase_if(left, [&](TensorId id) { return std::ranges::count(internal, id) > 0; });
  for (const TensorId id : inputs) {
    std::erase(own.forward, TensorEvent{id, Action::give});
    own.backward.push_back({id, Action::give});
  }
  if (builder_.job().offloads_activations) own.inputs = made_before(unit);
  for (const TensorId id : own.inputs) std::erase(own.backward, TensorEvent{id, Action::give});
  std::ranges::copy_if(
      own.forward, std::back_inserter(own.recompute),
      [&](const TensorEvent& event) { return std::ranges::count(left, event.tensor) == 0; });
  for (const TensorId id : internal) {
    if (cached_.contains(id)) {
      cached_until_end_.emplace_back(id, unit);
    } else {
      own.forward.push_back({id, Action::give});
    }
  }
}

/// Activations of the unit before, which this one's backward gives back: its input.
std::vector<TensorId> UnitTapes::made_before(std::size_t unit) {
  std::vector<TensorId> made;
  for (const TensorEvent& event : events(unit).backward) {
    const Tensor& one = builder_.program.tensors[event.tensor.index()];
    if (event.action == Action::give && one.kind == MemoryKind::activations &&
        one.owner + 1 == unit)
      made.push_back(event.tensor);
  }
  return made;
}

/// The gradients of the unit's inputs: tensors of their own, where the tape adds up one gradient in
/// place through all blocks.
std::vector<TensorId> UnitTapes::handed_on(std::size_t unit) {
  std::vector<TensorId> made;
  for (const TensorId id : made_before(unit))
    made.push_back(builder_.tensor(MemoryKind::workspace, builder_.program.tensors[id.index()].size,
                                   static_cast<std::uint32_t>(unit)));
  return made;
}

void UnitTapes::keep_until_end(const std::vector<std::size_t>& units) {
  for (slot_ = 0; slot_ < tapes_.size(); ++slot_) {
    std::vector<TensorId> kept;
    for (const std::size_t unit : units) {
      std::vector<TensorEvent>& backward = events(unit).backward;
      for (const TensorId id : handed_on(unit)) {
        kept.push_back(id);
        backward.push_back({id, Action::take});
      }
      for (const TensorId id : made_before(unit)) {
        kept.push_back(id);
        std::erase(backward, TensorEvent{id, Action::give});
      }
    }
    for (const TensorId id : kept) events(0).backward.push_back({id, Action::give});
  }
  slot_ = 0;
}

}  // namespace rehearse::inline strategy
