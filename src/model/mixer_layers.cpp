// Layers that mix tokens in other ways than attention: gated delta net, state spaces, and the gate
// behind attention.
#include "model/layers.hpp"

namespace rehearse::inline model {
namespace {

/// Tokens of a chunk in flash-linear-attention's kernels (fla/ops/gated_delta_rule/chunk.py).
constexpr double kDeltaChunk = 64;

/// Sums over the tokens of a sequence: products of small matrices, bound by what they read and
/// write.
struct Scan {
  double flops = 0, backward_flops = 0;
  double forward = 0, backward = 0;  ///< elements
};
Operator scan_operator(const Scan& scan) {
  return {.kind = OperatorKind::scan,
          .forward_flops = scan.flops,
          .backward_flops = scan.backward_flops,
          .forward_elements = scan.forward,
          .backward_elements = scan.backward};
}

/// What its kernels read and write, one after the other. Forward: the products of keys in a chunk,
/// their inverse, w and u, the states, the outputs. Backward makes w, u and the states once more.
/// FLOPs are the recurrence's, as Megatron-LM counts them: four products of a state's size.
Scan delta_rule(const LinearAttention& o, double tokens) {
  const double heads = tokens * static_cast<double>(o.value_heads);
  const auto key = static_cast<double>(o.key_width), value = static_cast<double>(o.value_width);
  const double state = key * value / kDeltaChunk;
  return {.flops = 8 * heads * key * value,
          .backward_flops = 16 * heads * key * value,
          .forward = heads * (7 * key + 6 * value + 4 * kDeltaChunk + 2 * state),
          .backward = heads * (20 * key + 15 * value + 2 * kDeltaChunk + 4 * state)};
}

/// The same of mamba_ssm's ssd_combined.py, whose states are fp32: states of chunks, their sums
/// over chunks, products of C and B in a chunk, the outputs. FLOPs as Megatron-LM counts them,
/// which are seven of a state's size to a token and channel, where kernels forward compute two
/// products of a state, one of a chunk's pairs and C by B. Backward they compute five, three and
/// three: the states and C by B once more, gradients of states, x, B and C, of the pairs, of C by B
/// to either side, and of the decays.
Scan state_space_duality(const StateSpace& o, double tokens) {
  const double inner = tokens * static_cast<double>(o.channels());
  const double shared = tokens * static_cast<double>(2 * o.groups * o.state);
  const double pairs = tokens * static_cast<double>(o.groups * o.chunk);
  const double states = inner * static_cast<double>(o.state) / static_cast<double>(o.chunk);
  const double state = 2 * inner * static_cast<double>(o.state);
  const double chunk = 2 * inner * static_cast<double>(o.chunk);
  const double across = 2 * pairs * static_cast<double>(o.state);
  const double again = (5 * state + 3 * chunk + 3 * across) / (2 * state + chunk + across);
  const double flops = 7 * inner * static_cast<double>(o.state);
  return {.flops = flops,
          .backward_flops = again * flops,
          .forward = 3 * inner + 2 * shared + 2 * pairs + 8 * states,
          .backward = 8 * inner + 4 * shared + 4 * pairs + 20 * states};
}

}  // namespace

// Each rank of a context group has some heads of all tokens (Megatron-LM: tensor_a2a_cp2hp, and the
// way back).
void Layers::exchange_for_heads() {
  if (parallel_.context > 1)
    exchange_here(ExchangeAxis::context, ExchangeKind::all_to_all, ExchangeKind::all_to_all,
                  current_.elements());
}

void Layers::gated_norm(std::int64_t channels, std::int64_t parameters) {
  current_.channels = channels;
  const double elements = current_.elements();
  move(OperatorKind::normalization, 3 * elements, 5 * elements, static_cast<double>(parameters));
  last().operators.back().by_row = true;
  current_.gradient = true;
}

void Layers::delta_net(const LinearAttention& o) {
  const Activation input = current_;
  const double tokens = current_.positions();
  const double mixed = tokens * static_cast<double>(o.convolved());
  const double heads = tokens * static_cast<double>(o.value_heads);
  const double keys = heads * static_cast<double>(o.key_width);
  parameter(o.convolved() * o.kernel, ParameterShare::sharded);
  parameter(o.value_heads, ParameterShare::sharded);
  parameter(o.value_heads, ParameterShare::sharded);
  parameter(o.value_width, ParameterShare::summed);
  exchange_for_heads();
  move(OperatorKind::elementwise, 2 * mixed, 2 * mixed);  // queries, keys, values side by side
  move(OperatorKind::elementwise, 2 * mixed, 3 * mixed,
       static_cast<double>(o.convolved() * o.kernel));    // convolution and SiLU
  move(OperatorKind::elementwise, 8 * heads, 8 * heads);  // how much each head forgets and writes
  if (o.value_heads > o.key_heads) {
    const double copied = 2 * keys + 2 * tokens * static_cast<double>(o.keys());
    move(OperatorKind::elementwise, copied, copied);
  }
  move(OperatorKind::normalization, 4 * keys, 6 * keys);  // of queries and of keys
  last().operators.back().by_row = true;
  append(scan_operator(delta_rule(o, tokens)));
  gated_norm(o.values(), o.value_width);
  exchange_for_heads();
  record({.kind = LayerKind::delta_net, .delta_net = o}, input, 4);
}

void Layers::state_space(const StateSpace& o) {
  const Activation input = current_;
  const double tokens = current_.positions();
  const double mixed = tokens * static_cast<double>(o.convolved());
  parameter(o.convolved() * o.kernel, ParameterShare::sharded);
  parameter(o.convolved(), ParameterShare::sharded);
  for (int each = 0; each < 3; ++each) parameter(o.heads, ParameterShare::sharded);
  parameter(o.channels(), ParameterShare::sharded);
  exchange_for_heads();
  // Convolution and SiLU; backward makes them once more.
  move(OperatorKind::elementwise, 2 * mixed, 5 * mixed,
       static_cast<double>(o.convolved() * o.kernel));
  append(scan_operator(state_space_duality(o, tokens)));
  gated_norm(o.channels(), o.channels());
  exchange_for_heads();
  record({.kind = LayerKind::state_space, .state_space = o}, input, 6);
}

void Layers::short_convolution(const ShortConvolution& o) {
  const Activation input = current_;
  parameter(o.channels * o.kernel, ParameterShare::sharded);
  if (o.bias) parameter(o.channels, ParameterShare::sharded);
  exchange_for_heads();
  current_.channels = o.channels;
  const double mixed = current_.elements();
  move(OperatorKind::elementwise, 3 * mixed, 5 * mixed);
  move(OperatorKind::elementwise, 2 * mixed, 4 * mixed, static_cast<double>(o.channels * o.kernel));
  move(OperatorKind::elementwise, 3 * mixed, 5 * mixed);
  move(OperatorKind::elementwise, 2 * mixed, 2 * mixed);  // channels side by side
  current_.gradient = true;
  exchange_for_heads();
  record({.kind = LayerKind::short_convolution, .short_convolution = o}, input, o.bias ? 2 : 1);
}

// Autocast runs powers in fp32; backward makes x's, times a number, times dy.
void Layers::square() {
  cast(true);
  pointwise(LayerKind::square);
  last().operators.back().eager_backward = {.kernels = 3, .plain = 7 * current_.elements()};
}

void Layers::set_gate_aside(std::int64_t channels) {
  const Activation whole = current_;
  current_.channels -= channels;
  record({.kind = LayerKind::without_gate}, whole);
}

void Layers::output_gate(const Activation& with_gate) {
  const double elements = current_.elements();
  move(OperatorKind::elementwise, 2 * elements, 3 * elements);  // sigmoid
  move(OperatorKind::elementwise, 3 * elements, 5 * elements);
  record({.kind = LayerKind::output_gate, .other = with_gate.value}, current_);
}

}  // namespace rehearse::inline model
