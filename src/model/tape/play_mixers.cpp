// Gated delta net and state spaces, as transformers' classes call flash-linear-attention's, causal
// conv1d's and mamba_ssm's kernels: what their autograd functions save.
#include "model/tape/operators.hpp"
#include "model/tape/play.hpp"

namespace rehearse::tape {
namespace {

constexpr std::int64_t kDeltaChunk = 64;

/// Kernels behind one autograd function: backward takes `scratch` elements of fp32 while it runs,
/// and each input's gradient.
Tensor function_of(Recorder& r, std::string_view op, const Tensors& inputs, Tensor output,
                   const Tensors& saved, std::int64_t scratch) {
  struct Side {
    Sizes sizes;
    Type type = Type::float32;
    bool needed = false;
  };
  std::vector<Side> sides;
  std::vector<const Tensor*> reads;
  for (const Tensor& input : inputs) {
    sides.push_back({input.sizes, input.type, input.needs_gradient()});
    reads.push_back(&input);
  }
  r.record(op, reads, {&output});
  Tensors kept;
  for (const Tensor& one : saved) kept.push_back(one.detached());
  r.connect(output, inputs,
            [&r, op, sides, kept, scratch](const Gradients& gradients) -> Gradients {
              const Tensor inside = scratch > 0 ? r.workspace(scratch, Type::float32) : undefined();
              Gradients results;
              for (const Side& side : sides)
                results.push_back(side.needed ? r.take(side.sizes, side.type) : undefined());
              r.record(op, {&gradients[0]}, {&results[0]});
              return results;
            });
  return output;
}

}  // namespace

Tensor Player::delta_net(const Layer& layer) {
  Recorder& r = recorder_;
  const LinearAttention& o = layer.delta_net;
  const std::int64_t batch = r.batch(), length = layer.in.positions();
  const std::int64_t heads = batch * length * o.value_heads;
  const std::int64_t keys = heads * o.key_width, values = heads * o.value_width;
  std::uint32_t next = layer.parameter;
  const auto weight = [&](const Sizes& sizes) { return parameter(r, {layer.unit, next++, sizes}); };
  const auto wide = [&](std::int64_t channels) { return Sizes{batch, length, channels}; };
  const Sizes all_keys = wide(o.value_heads * o.key_width), all_values = wide(o.values());
  const Tensors& sides = values_.at(layer.input);
  const Type type = sides[0].type;
  const Tensors parts = split(r, sides[0], 2, {o.keys(), o.keys(), o.values(), o.values()});
  Tensors mixed;
  {
    const Tensor joined = concatenate(r, {parts[0], parts[1], parts[2]}, 2);
    const Tensor kernel = weight({o.convolved(), o.kernel});
    const Tensor convolved =
        function_of(r, "causal_conv1d", {joined, kernel}, r.take(joined.sizes, type), {joined}, 0);
    mixed = split(r, convolved, 2, {o.keys(), o.keys(), o.values()});
  }
  const Tensors ways = chunk(r, sides[1], 2);
  const Tensor written = unary_of_output(r, ways[0], kSigmoid);
  const Tensor bias = weight(o.value_heads), rate = weight(o.value_heads);
  const Tensor kept = function_of(r, "gated_decay", {ways[1], bias, rate},
                                  r.take(wide(o.value_heads), Type::float32), {ways[1]}, 0);
  for (std::size_t side = 0; side < 2 && o.value_heads > o.key_heads; ++side)
    mixed[side] = function_of(r, "repeat_interleave", {mixed[side]}, r.take(all_keys, type), {}, 0);
  Tensor attended;
  {
    Tensors saved = {mixed[2], kept, written, r.take(heads * kDeltaChunk, type)};
    for (int side = 0; side < 2; ++side) {
      saved.push_back(r.take(all_keys, type));
      saved.push_back(r.take(heads, Type::float32));
    }
    const std::int64_t states = heads / kDeltaChunk * o.key_width * o.value_width;
    const Tensor made = r.workspace(keys + 2 * values + states, type);
    attended =
        function_of(r, "chunk_gated_delta_rule", {mixed[0], mixed[1], mixed[2], kept, written},
                    r.take(all_values, type), saved, (keys + 2 * values + 2 * states) / 2);
  }
  mixed.clear();
  const Tensor deviation = r.take(heads, Type::float32);
  return function_of(r, "gated_rms_norm", {attended, parts[3], weight(o.value_width)},
                     r.take(all_values, type), {attended, parts[3], deviation}, 0);
}

Tensor Player::state_space(const Layer& layer) {
  Recorder& r = recorder_;
  const StateSpace& o = layer.state_space;
  const std::int64_t tokens = r.batch() * layer.in.positions();
  const std::int64_t inner = tokens * o.channels();
  const Tensor& x = input(layer);
  Tensors inputs = {x};
  std::uint32_t next = layer.parameter;
  for (const Sizes& sizes : {Sizes{o.convolved(), o.kernel}, Sizes(o.convolved()), Sizes(o.heads),
                             Sizes(o.heads), Sizes(o.heads), Sizes(o.channels())})
    inputs.push_back(parameter(r, {layer.unit, next++, sizes}));
  const Sizes out = {r.batch(), layer.in.positions(), o.channels()};
  const std::int64_t states = inner / o.chunk * o.state;
  const Tensor scanned = r.take(out, x.type);
  const Tensor deviation = r.take(tokens * o.groups, Type::float32);
  const Tensor mixed = r.workspace(tokens * o.convolved(), x.type);
  const Tensor steps = r.workspace(2 * tokens * o.heads, Type::float32);
  const Tensor sums = r.workspace(2 * states, Type::float32);
  const Tensor pairs = r.workspace(tokens * o.groups * o.chunk, Type::float32);
  return function_of(
      r, "mamba_chunk_scan", inputs, r.take(out, x.type), {x, scanned, deviation},
      tokens * o.convolved() / 2 + 2 * tokens * o.heads + 3 * states + tokens * o.groups * o.chunk);
}

// Lfm2ShortConv.forward: views of one product, and a copy that has the channels side by side again.
Tensor Player::short_convolution(const Layer& layer) {
  Recorder& r = recorder_;
  const ShortConvolution& o = layer.short_convolution;
  const Tensors parts = chunk(r, input(layer), 3);
  const Tensor scaled = multiply(r, parts[0], parts[2]);
  Tensors inputs = {scaled, parameter(r, {layer.unit, layer.parameter, {o.channels, o.kernel}})};
  if (o.bias) inputs.push_back(parameter(r, {layer.unit, layer.parameter + 1, o.channels}));
  const Tensor mixed =
      function_of(r, "causal_conv1d", inputs, r.take(scaled.sizes, scaled.type), {scaled}, 0);
  return clone(r, multiply(r, parts[1], mixed));
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
