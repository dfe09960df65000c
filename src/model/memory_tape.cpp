#include "model/memory_tape.hpp"

#include <algorithm>

#include "model/captured/captured.hpp"
#include "model/tape/autograd.hpp"
#include "model/tape/play.hpp"
#include "model/tape/remade.hpp"

namespace rehearse::inline model {

namespace {

/// A unit whose activation was given: one tensor of that size, and a gradient per parameter.
void append_given(MemoryTape& tape, const Unit& unit, const TapeOptions& options) {
  const auto number = static_cast<std::uint32_t>(tape.units.size());
  UnitTape events;
  const auto take = [&](const TapeTensor& tensor, std::vector<TapeEvent>& where) {
    where.push_back({static_cast<std::uint32_t>(tape.tensors.size()), true});
    tape.tensors.push_back(tensor);
  };
  take({.size = unit.activation.value_or(Bytes(0)), .unit = number}, events.forward);
  const std::uint32_t kept = events.forward.back().tensor;
  for (std::uint32_t p = 0; p < unit.tensors.size(); ++p) {
    const Bytes size = static_cast<double>(unit.tensors[p]) * parameter_element(options.precision);
    take({TensorRole::parameter_gradient, size, number, p}, events.backward);
  }
  events.backward.push_back({kept, false});
  tape.units.push_back(std::move(events));
}

}  // namespace

MemoryTape memory_tape(const Model& model, const TapeOptions& options) {
  if (model.captured) return captured::tape_of(model, static_cast<double>(options.batch));
  MemoryTape tape;
  const bool computed = std::all_of(model.units.begin(), model.units.end(),
                                    [](const Unit& unit) { return !unit.layers.empty(); });
  if (!computed) {
    for (const Unit& unit : model.units) append_given(tape, unit, options);
    tape.chunks.resize(model.chunks.size());
    return tape;
  }
  tape::Recorder recorder(options, model);
  tape::Player(model, recorder).play();
  MemoryTape whole = recorder.take_tape();
  if (options.gradients) make_again(whole);
  return whole;
}

}  // namespace rehearse::inline model
