#include "model/layers.hpp"

#include <algorithm>
#include <numeric>

namespace rehearse::inline model {

void Layers::unit(const std::string& name) {
  units_.emplace_back();
  last().name = name;
}

void Layers::resume(const Activation& activation) { current_ = activation; }

std::uint32_t Layers::parameter(std::int64_t elements, ParameterShare share) {
  last().tensors.push_back(elements);
  if (!parallel_.is_whole()) last().shares.push_back(share);
  return static_cast<std::uint32_t>(last().tensors.size() - 1);
}

void Layers::record(Layer layer, const Activation& input, std::size_t parameters) {
  layer.input = input.value;
  layer.in = input.extent();
  layer.channels_last = input.channels_last;
  layer.dtensor = layer.kind == LayerKind::linear && parallel_.splits_tokens() && parallel_.dtensor;
  layer.out = current_.extent();
  current_.value = layer.output = ++values_;
  if (parameters > 0) {
    layer.unit = static_cast<std::uint32_t>(units_.size() - 1);
    layer.parameter = static_cast<std::uint32_t>(last().tensors.size() - parameters);
  }
  const std::vector<Layer>& before = last().layers;
  layer.first_operator = before.empty() ? 0 : before.back().end_operator;
  layer.end_operator = static_cast<std::uint32_t>(last().operators.size());
  last().layers.push_back(std::move(layer));
}

void Layers::move(OperatorKind kind, double forward_elements, double backward_elements,
                  double parameters) {
  append({.kind = kind,
          .forward_elements = forward_elements,
          .backward_elements = backward_elements,
          .parameter_elements = parameters,
          .wide = current_.wide});
}

void Layers::cast(bool wide) {
  if (current_.wide == wide) return;
  const double elements = current_.elements();
  move(OperatorKind::cast, elements, current_.gradient ? elements : 0);
  current_.wide = wide;
}

void Layers::product(std::int64_t in, std::int64_t out, bool bias) {
  const double weights = static_cast<double>(in) * static_cast<double>(out);
  const double flops = 2 * weights * current_.positions();
  const double elements = static_cast<double>(in + out) * current_.positions();
  const double gradients = current_.gradient ? 2 : 1;  // of the input and of the weight
  append({.kind = OperatorKind::matmul,
          .forward_flops = flops,
          .backward_flops = gradients * flops,
          .forward_elements = elements,
          .backward_elements = gradients * elements,
          .parameter_elements = weights,
          .product = {.rows = current_.positions(),
                      .columns = static_cast<double>(out),
                      .inner = static_cast<double>(in)},
          .input_gradient = current_.gradient});
  if (bias) add_bias(out);
}

void Layers::narrow_last_product(bool quantizes_input, bool gathers) {
  std::vector<Operator>& all = last().operators;
  const auto found = std::find_if(
      all.rbegin(), all.rend(), [](const Operator& op) { return op.kind == OperatorKind::matmul; });
  found->narrows = true;
  if (gathers && parallel_.dtensor && parallel_.splits_tokens())
    found->input_ranks = parallel_.tensor;
  if (quantizes_input) found->quantized_input = found->product.rows * found->product.inner;
}

void Layers::transpose_unit() {
  for (Layer& layer : last().layers) layer.transposed = layer.kind == LayerKind::linear;
}

void Layers::turn_unit() {
  for (Layer& layer : last().layers) layer.turned = layer.kind == LayerKind::linear;
}

void Layers::keep_unit_wide() {
  for (Layer& layer : last().layers) layer.narrows = false;
  for (Operator& op : last().operators) {
    op.narrows = false;
    op.quantized_input = 0;
    op.input_ranks = op.gradient_ranks = 1;
  }
  for (Exchange& one : last().exchanges) one.narrow = one.cast_first = false;
}

// cuBLAS adds the bias in its epilogue; its gradient is a sum over dy, a kernel of its own.
void Layers::add_bias(std::int64_t out) {
  append({.kind = OperatorKind::elementwise,
          .backward_elements = static_cast<double>(out) * current_.positions(),
          .parameter_elements = static_cast<double>(out)});
}

void Layers::linear(const std::vector<std::int64_t>& channels, bool bias, Split split,
                    std::size_t whole) {
  const Activation input = current_;
  const ParameterShare weights = split == Split::none ? whole_share() : ParameterShare::sharded;
  const ParameterShare biases = split == Split::columns ? weights : whole_share();
  if (split == Split::columns) enter_columns(channels.size());
  const Activation entered = current_;
  const std::size_t begin = last().operators.size();
  // Autocast caches its copies of weights but not of activations: each layer side by side casts
  // its own.
  for (std::size_t side = 0; side < channels.size(); ++side) {
    const std::int64_t out = channels[side];
    current_ = entered;
    cast(false);
    const bool divided = side + whole < channels.size();
    parameter(input.channels * out, divided ? weights : ParameterShare::summed);
    if (bias) parameter(out, biases);
    product(input.channels, out, bias && split != Split::rows);
    if (split != Split::none) narrow_last_product(side == 0, split == Split::columns);
  }
  current_.channels = std::accumulate(channels.begin(), channels.end(), std::int64_t{0});
  current_.gradient = true;
  if (split == Split::columns) leave_columns(input, begin, channels.size());
  if (split == Split::rows) {
    leave_rows();
    if (bias) add_bias(current_.channels);
  }
  if (channels.size() > 1 && input.gradient) {
    // Autograd adds up the gradients of what several layers read.
    const auto sums = static_cast<double>(channels.size() - 1);
    append({.kind = OperatorKind::elementwise,
            .wide = input.wide,
            .eager_backward = {.kernels = sums, .plain = 3 * sums * input.elements()}});
  }
  record({.kind = LayerKind::linear,
          .channels = channels,
          .splits_inputs = split == Split::rows,
          .bias = bias,
          .narrows = split != Split::none},
         input, channels.size() * (bias ? 2 : 1));
}

void Layers::tied_linear(std::int64_t channels, std::optional<std::uint32_t> bias) {
  const Activation input = current_;
  enter_columns();
  const std::size_t begin = last().operators.size();
  cast(false);
  product(current_.channels, channels, false);
  current_.channels = channels;
  leave_columns(input, begin);
  record({.kind = LayerKind::linear,
          .unit = static_cast<std::uint32_t>(units_.size() - 1),
          .parameter = bias.value_or(0),
          .channels = {channels},
          .bias = bias.has_value(),
          .tied = true},
         input);
}

void Layers::norm(int parameters_per_channel, LayerKind kind) {
  const Activation input = current_;
  cast(true);
  for (int i = 0; i < parameters_per_channel; ++i) parameter(current_.channels);
  const double elements = current_.elements();
  // A row fits on the chip: one pass forward. Backward dx reads x and dy and writes dx; the
  // parameters' gradients read x and dy once more.
  move(OperatorKind::normalization, 2 * elements, 5 * elements,
       static_cast<double>(parameters_per_channel * current_.channels));
  last().operators.back().by_row = true;
  record({.kind = kind, .bias = parameters_per_channel == 2}, input,
         static_cast<std::size_t>(parameters_per_channel));
  current_.channels_last = true;  // it norms the channels: of an image it permutes them to the end
}

void Layers::layer_norm(bool shift, NormForm form) {
  if (form == NormForm::plain) return plain_layer_norm();
  const double elements = current_.elements();
  norm(shift ? 2 : 1, LayerKind::layer_norm);
  last().layers.back().norm = form;
  if (form == NormForm::written_out) composes_layer_norm(last().operators.back(), elements);
}

// Made fp32, normed, and made 16 bits again.
void Layers::plain_layer_norm() {
  const bool wide = current_.wide;
  if (!wide) to_float();
  norm(0, LayerKind::layer_norm);
  last().layers.back().norm = NormForm::plain;
  last().operators.back().always_fp32 = true;
  if (!wide) to_float();
  current_.wide = wide;
}

// As an RMS norm, and before it two differences from a mean: one to square, one to scale.
void Layers::composes_layer_norm(Operator& norm, double elements) {
  composes_rms_norm(norm, elements);
  norm.eager_forward.kernels += 3;
  norm.eager_forward.moved += elements;
  norm.eager_forward.written += 2 * elements;
  norm.eager_backward.kernels += 5;
  norm.eager_backward.moved += 8 * elements;
  norm.eager_backward.written += elements;
}

// The operators that model/tape/norms.cpp plays. Forward: a power and a mean, products with the
// factor and with the scale (broadcast), 16 bits made fp32 and back. Backward: both products' two
// gradients, the scale's sum, those of the mean (broadcast) and of the power, and the sum of both
// branches.
void Layers::composes_rms_norm(Operator& norm, double elements) {
  norm.eager_forward = {
      .kernels = 8, .moved = 3 * elements, .written = 2 * elements, .converted = elements};
  norm.eager_backward = {
      .kernels = 14, .moved = 15 * elements, .written = 3 * elements, .converted = elements};
}

void Layers::rms_norm(NormForm form) {
  const double elements = current_.elements();
  norm(1, LayerKind::rms_norm);
  last().layers.back().norm = form;
  composes_rms_norm(last().operators.back(), elements);
}

void Layers::pointwise(LayerKind kind, double kernels) {
  const double elements = current_.elements();
  move(OperatorKind::elementwise, 2 * elements, 3 * elements);
  if (kernels > 1) {
    last().operators.back().eager_forward = {.kernels = kernels, .plain = 2 * kernels * elements};
    last().operators.back().eager_backward = {.kernels = kernels, .plain = 3 * kernels * elements};
  }
  record({.kind = kind}, current_);
}

void Layers::gelu() { pointwise(LayerKind::gelu); }

void Layers::tanh() { pointwise(LayerKind::tanh); }

void Layers::rectify() { pointwise(LayerKind::rectify); }

void Layers::silu_out() { pointwise(LayerKind::silu_out); }

// 0.5 x (1 + tanh(c (x + 0.044715 x^3))): a power, a sum, two products of tensors and three by
// numbers, a tanh. Backward a product of tensors has two gradients, and x's are summed from three.
// Autocast runs the power in fp32, and type promotion the rest, whose gradients become 16 bits.
void Layers::gelu_new() {
  const bool converts = !current_.wide;
  cast(true);
  pointwise(LayerKind::gelu_new, 8);
  Operator& op = last().operators.back();
  op.eager_backward = {.kernels = 9, .plain = 28 * current_.elements()};
  op.bare_backward = 2;
  for (int gradient = 0; converts && gradient < 2; ++gradient) narrow_gradient();
}

void Layers::narrow_gradient() {
  append({.kind = OperatorKind::cast, .backward_elements = current_.elements()});
}

// torch.nn.functional.multi_head_attention_forward: what is made of the transposed input is no
// nn.Linear of a whole matrix, and adds its bias by itself. Backward each selected part's gradient
// is copied into zeros of the whole, and these are summed.
void Layers::by_position(bool copies) {
  if (!copies) return record({.kind = LayerKind::by_position}, current_);
  cast(false);
  move(OperatorKind::elementwise, 2 * current_.elements(), 2 * current_.elements());
  Operator& copy = last().operators.back();
  copy.eager_forward = copy.eager_backward = {.kernels = 1, .written = current_.elements()};
  record({.kind = LayerKind::by_position}, current_);
}

void Layers::unpack_heads(std::int64_t heads) {
  const double elements = current_.elements(), part = elements / 3;
  const double selected = 3 * (elements + 2 * part), summed = 6 * elements;
  append({.eager_forward = {.kernels = 2, .written = 2 * elements},
          .eager_backward = {.kernels = 4, .written = elements, .plain = selected + summed},
          .bare_backward = 2});
  record({.kind = LayerKind::unpack_heads, .attention = {.heads = heads}}, current_);
}

// 0.5 x (1 + tanh(c x (1 + 0.044715 x x))): nothing is a power, and autocast widens nothing.
void Layers::gelu_fast() { pointwise(LayerKind::gelu_fast, 9); }

// Of BloomGelu's kernels, four each way read two tensors forward, and eight backward.
void Layers::gelu_written() {
  const double elements = current_.elements();
  pointwise(LayerKind::gelu_written, 9);
  last().operators.back().eager_forward.plain = 21 * elements;
  last().operators.back().eager_backward = {.kernels = 18, .plain = 44 * elements};
}

void Layers::scale() { pointwise(LayerKind::scale); }

void Layers::scale_logits(bool divides) {
  scale();
  last().layers.back().kind = LayerKind::scale_logits;
  last().layers.back().divides = divides;
}

void Layers::softcap() { pointwise(LayerKind::softcap, 3); }

void Layers::dropout(bool in_place) {
  count_dropout();
  record({.kind = LayerKind::dropout, .in_place = in_place}, current_);
}

void Layers::count_dropout() {
  const double elements = current_.elements();
  // The mask is a byte: about half an element more each way.
  move(OperatorKind::elementwise, 2.5 * elements, 2.5 * elements);
}

void Layers::add(const Activation& residual, bool in_place) {
  const bool converts = residual.wide && !current_.wide;
  current_.wide = current_.wide || residual.wide;
  // Backward sums the gradients of the two branches where they part.
  move(OperatorKind::elementwise, 3 * current_.elements(), 3 * current_.elements());
  if (converts) narrow_gradient();
  record({.kind = LayerKind::add, .other = residual.value, .in_place = in_place}, current_);
}

bool is_librarys(Loss loss) {
  using enum Loss;
  return loss == fused_logits || loss == accelerate_fused || loss == vocab_parallel ||
         loss == huggingface_fused || loss == huggingface_4_46_fused;
}

bool is_shifted(Loss loss) {
  using enum Loss;
  return loss == huggingface || loss == huggingface_4_46 || loss == huggingface_fused ||
         loss == huggingface_4_46_fused;
}

void Layers::cross_entropy(Loss loss) {
  const bool one_kernel = is_librarys(loss) || loss == Loss::compiled;
  const bool converts = is_shifted(loss) || loss == Loss::cross_entropy_fp32 ||
                        loss == Loss::lightning_fabric || loss == Loss::lightning_loop;
  if (converts) to_float();
  if (is_shifted(loss)) shift();
  if (one_kernel) return library_loss(loss);
  if (!converts) cast(true);
  begin_losses();
  const double elements = current_.elements();
  // Backward reads what log-softmax put out, fills nll's gradient and reads both to write its own.
  move(OperatorKind::loss, 2 * elements, 4 * elements);
  last().operators.back().always_fp32 = converts;
  last().operators.back().by_row = true;
  end_losses();
  record({.kind = LayerKind::cross_entropy, .loss = loss}, current_);
}

/// The fused kernel reads the logits, and backward reads and writes them. Megatron-LM's makes fp32
/// of them, and of that the largest, a difference, exponentials, their sum and a quotient, all but
/// the first in place; backward is a product in place, and a conversion. A compiled one reads them
/// twice, once for the largest and the sum of exponentials, once for the loss.
void Layers::library_loss(Loss loss) {
  const bool wide = loss == Loss::vocab_parallel;
  begin_losses();
  const double elements = current_.elements();
  const double forward = wide ? 9.5 : loss == Loss::compiled ? 2 : 1;
  move(OperatorKind::loss, forward * elements, (wide ? 3.5 : 2) * elements);
  Operator& op = last().operators.back();
  op.always_fp32 = wide;
  op.by_row = op.library = true;
  end_losses();
  if (loss == Loss::accelerate_fused) move(OperatorKind::elementwise, 3 * elements, 0);
  record({.kind = LayerKind::cross_entropy, .loss = loss}, current_);
}

void Layers::to_float() {
  const double elements = current_.elements();
  append({.kind = OperatorKind::cast,
          .forward_elements = elements,
          .backward_elements = elements,
          .always_fp32 = true});
  current_.wide = true;
}

/// A copy of all positions but the last; backward fills their gradient with zeros and copies into
/// it.
void Layers::shift() {
  const double elements = current_.elements();
  append({.kind = OperatorKind::elementwise,
          .forward_elements = 2 * elements,
          .backward_elements = 3 * elements,
          .always_fp32 = true});
}

}  // namespace rehearse::inline model
