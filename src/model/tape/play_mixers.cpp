// What mixes tokens in the place of attention, and the gate behind attention.
#include "model/tape/operators.hpp"
#include "model/tape/play.hpp"

namespace rehearse::tape {

Tensor Player::mixed(const Layer& layer) {
  Tensors parameters;
  std::uint32_t next = layer.parameter;
  for (const MixerParameter& one : layer.mixer->parameters())
    parameters.push_back(parameter(recorder_, {layer.unit, next++, one.sizes}));
  return layer.mixer->play(recorder_, values_.at(layer.input), parameters);
}

/// Views of what stands before the gate, and of the gate: outputs side by side, or one tensor.
Player::Value Player::around_gate(const Value& sides, std::int64_t before, bool gate) {
  if (sides.size() > 1) return gate ? Value{sides.back()} : Value(sides.begin(), sides.end() - 1);
  const std::size_t last = sides[0].dimensions() - 1;
  const Tensors parts = split(recorder_, sides[0], last, {before, sides[0].sizes.back() - before});
  return {parts[gate ? 1 : 0]};
}

Tensor Player::output_gate(const Layer& layer) {
  const Value& sides = values_.at(layer.other);
  const Value gate = around_gate(sides, sides[0].sizes.back() - layer.out.channels, true);
  return multiply(recorder_, input(layer), unary_of_output(recorder_, gate.front(), kSigmoid));
}

}  // namespace rehearse::tape
