// Layers that mix tokens in other ways than attention, and the gate behind attention.
#include "model/captured/played.hpp"
#include "model/captured/work.hpp"
#include "model/layers.hpp"
#include "model/tape/operators.hpp"

namespace rehearse::inline model {
namespace {

/// A kernel of one sample, in its pass alone. Elements are of two bytes.
Operator operator_of(const captured::Kernel& kernel) {
  constexpr double kElement = 2;
  const captured::Work work = captured::work_of(kernel, 1);
  Operator op{.kind = work.kind, .by_row = work.by_row};
  const double elements = work.moved.value() / kElement;
  if (work.plain) {
    op = *work.plain;
  } else if (!work.products.empty()) {
    const captured::Product& one = work.products.front();
    op.product = {.rows = one.rows,
                  .columns = one.columns,
                  .inner = one.inner,
                  .products = one.products > 1 ? one.products : 0};
    (kernel.backward ? op.backward_flops : op.forward_flops) = one.flops();
  } else {
    (kernel.backward ? op.backward_elements : op.forward_elements) = elements;
    if (work.one_by_one > 0 || work.launches > 1)
      (kernel.backward ? op.eager_backward : op.eager_forward) = {
          .kernels = work.launches, .written = work.one_by_one, .plain = elements};
  }
  (kernel.backward ? op.bare_backward : op.bare_forward) = work.launches - 1;
  return op;
}

/// What a mixer's kernels move and compute, of one sample, as the tape plays them both ways.
std::vector<Operator> operators_of(const Mixer& mixer, std::int64_t tokens) {
  const MixerProducts products = mixer.products();
  const std::vector<MixerParameter> parameters = mixer.parameters();
  Model alone;
  Unit& unit = alone.units.emplace_back();
  std::vector<Sizes> inputs;
  for (const std::int64_t channels : products.channels) inputs.push_back({1, tokens, channels});
  for (const Sizes& sizes : inputs) unit.tensors.push_back(sizes.elements());
  for (const MixerParameter& one : parameters) unit.tensors.push_back(one.sizes.elements());
  const TapeOptions options{.precision = Precision::bf16_pure, .kernels = true};
  tape::Recorder recorder(options, alone);
  recorder.begin_unit(0);
  {
    tape::Tensors sides, weights;
    std::uint32_t next = 0;
    for (const Sizes& sizes : inputs) sides.push_back(recorder.parameter(0, next++, sizes));
    for (const MixerParameter& one : parameters)
      weights.push_back(recorder.parameter(0, next++, one.sizes));
    const tape::Tensor output = mixer.play(recorder, sides, weights);
    recorder.end_forward();
    recorder.backward(output);
  }
  UnitKernels kernels = std::move(recorder.take_tape().kernels.front());
  kernels.backward.erase(kernels.backward.begin());  // the gradient that backward begins with
  std::vector<Operator> operators;
  for (const captured::Kernel& one : captured::kernels_of(kernels.forward, false, "bf16"))
    operators.push_back(operator_of(one));
  for (const captured::Kernel& one : captured::kernels_of(kernels.backward, true, "bf16"))
    operators.push_back(operator_of(one));
  return operators;
}

}  // namespace

// Each rank of a context group has some heads of all tokens (Megatron-LM: tensor_a2a_cp2hp, and the
// way back).
void Layers::exchange_for_heads() {
  if (parallel_.context > 1)
    exchange_here(ExchangeAxis::context, ExchangeKind::all_to_all, ExchangeKind::all_to_all,
                  current_.elements());
}

void Layers::mix(const MixerPtr& mixer) {
  const Activation input = current_;
  const std::vector<MixerParameter> parameters = mixer->parameters();
  for (const MixerParameter& one : parameters)
    parameter(one.sizes.elements(), one.summed ? ParameterShare::summed : ParameterShare::sharded);
  exchange_for_heads();
  std::vector<Operator>& operators = mixed_[mixer.get()];
  if (operators.empty()) {
    const std::int64_t ranks = parallel_.context;
    const bool exchanges = ranks > 1 && mixer->parts().back().count % ranks == 0;
    const MixerPtr own = exchanges ? mixer->share(ranks) : mixer;
    operators = operators_of(
        *own, (exchanges ? ranks : 1) * static_cast<std::int64_t>(current_.positions()));
  }
  for (const Operator& op : operators) append(op);
  current_.channels = mixer->channels();
  current_.gradient = true;
  exchange_for_heads();
  record({.kind = LayerKind::mixer, .mixer = mixer}, input, parameters.size());
}

// Autocast runs powers in fp32; backward makes x's, times a number, times dy.
void Layers::square(bool apart) {
  if (apart) last().operators.back().library = true;
  cast(true);
  pointwise(apart ? LayerKind::square_apart : LayerKind::square);
  last().operators.back().eager_backward = {.kernels = 3, .plain = 7 * current_.elements()};
  last().operators.back().library = apart;
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
