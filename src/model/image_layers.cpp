// The layers of convolutional networks, as torchvision's eager modules run them.
#include "model/layers.hpp"

namespace rehearse::inline model {
namespace {

std::int64_t output_side(std::int64_t side, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding) {
  return (side + 2 * padding - kernel) / stride + 1;
}

}  // namespace

void Layers::convolution(const Convolution& options) {
  cast(false);
  const Activation input = current_;
  current_.channels = options.channels;
  current_.height = output_side(input.height, options.kernel, options.stride, options.padding);
  current_.width = output_side(input.width, options.kernel, options.stride, options.padding);
  current_.gradient = true;

  const std::int64_t weights =
      options.channels * (input.channels / options.groups) * options.kernel * options.kernel;
  parameter(weights);
  const bool depthwise = options.groups > 1 && options.groups == input.channels;
  const double flops = 2 * static_cast<double>(weights) * current_.positions();
  const double elements = input.elements() + current_.elements();
  const double gradients = input.gradient ? 2 : 1;  // of the input and of the weight
  append({.kind = depthwise ? OperatorKind::depthwise_convolution : OperatorKind::convolution,
          .channels_last = input.channels_last,
          .forward_flops = flops,
          .backward_flops = gradients * flops,
          .forward_elements = elements,
          .backward_elements = gradients * elements,
          .parameter_elements = static_cast<double>(weights),
          .product = {.rows = current_.positions(),
                      .columns = static_cast<double>(options.channels / options.groups),
                      .inner = static_cast<double>(weights / options.channels),
                      .products = static_cast<double>(options.groups),
                      .window = static_cast<double>(options.kernel * options.kernel),
                      .stride = static_cast<double>(options.stride * options.stride)},
          .input_gradient = input.gradient});
  // cuDNN's tensor-core kernels want NHWC: what they read and write is converted, forward x and y,
  // backward dy and dx for one gradient and x and dy for the other.
  if (!input.channels_last && !depthwise && input.positions() > 1) {
    move(OperatorKind::layout, 2 * elements, 2 * gradients * elements);
    Operator& conversion = last().operators.back();
    if (options.kernel == 1 && options.stride == 1) conversion.plane = input.positions();
    conversion.bare_forward = 2;
    conversion.bare_backward = 2 * gradients;
  }
  // ATen adds a convolution's bias in a kernel of its own (aten/src/ATen/native/Convolution.cpp,
  // cudnn backend).
  if (options.bias) {
    parameter(options.channels);
    move(OperatorKind::elementwise, 2 * current_.elements(), 0);
    add_bias(options.channels);
  }
  record({.kind = LayerKind::convolution, .convolution = options}, input, options.bias ? 2 : 1);
}

void Layers::batch_norm() {
  parameter(current_.channels);
  parameter(current_.channels);
  last().buffer_elements += 2 * current_.channels;  // running mean and variance
  const double elements = current_.elements();
  // The statistics cover the batch: x is read for them and again to normalise. Backward reads x and
  // dy for two sums and again for dx.
  move(OperatorKind::normalization, 3 * elements, 5 * elements,
       2 * static_cast<double>(current_.channels));
  last().operators.back().normed = elements;
  last().operators.back().channels = static_cast<double>(current_.channels);
  last().operators.back().bare_forward = 1;  // num_batches_tracked
  last().operators.back().channels_last = current_.channels_last;
  record({.kind = LayerKind::batch_norm}, current_, 2);
}

void Layers::relu() {
  const double elements = current_.elements();
  move(OperatorKind::elementwise, 2 * elements, 3 * elements);
  record({.kind = LayerKind::relu}, current_);
}

void Layers::silu() {
  // Autograd clones an in-place operator's input: read and written once more.
  move(OperatorKind::elementwise, 4 * current_.elements(), 3 * current_.elements());
  last().operators.back().bare_forward = 1;
  record({.kind = LayerKind::silu}, current_);
}

void Layers::max_pool(const Pooling& options) {
  const Activation input = current_;
  const double before = current_.elements();
  current_.height = output_side(current_.height, options.kernel, options.stride, options.padding);
  current_.width = output_side(current_.width, options.kernel, options.stride, options.padding);
  const double after = current_.elements();
  // With int64 indices: about two to four elements each way.
  move(OperatorKind::pooling, before + 4 * after, before + 4 * after);
  last().operators.back().pooled = after * static_cast<double>(options.kernel * options.kernel);
  last().operators.back().channels_last = current_.channels_last;
  record({.kind = LayerKind::max_pool, .pooling = options}, input);
}

void Layers::average_pool(const Pooling& options) {
  const Activation input = current_;
  const double before = current_.elements();
  current_.height = output_side(current_.height, options.kernel, options.stride, options.padding);
  current_.width = output_side(current_.width, options.kernel, options.stride, options.padding);
  const double traffic = before + current_.elements();
  move(OperatorKind::pooling, traffic, traffic);
  record({.kind = LayerKind::average_pool, .pooling = options}, input);
}

void Layers::global_mean() {
  const Activation input = current_;
  const double traffic = current_.elements() + static_cast<double>(current_.channels);
  current_.height = current_.width = 1;
  move(OperatorKind::pooling, traffic, traffic);
  record({.kind = LayerKind::mean}, input);
}

void Layers::adaptive_pool(std::int64_t side) {
  if (side == 1) return global_mean();  // ATen turns it into a mean
  const Activation input = current_;
  const double before = current_.elements();
  current_.height = current_.width = side;
  move(OperatorKind::pooling, before + current_.elements(), before + current_.elements());
  record({.kind = LayerKind::adaptive_pool}, input);
}

void Layers::flatten() {
  current_.channels *= current_.height * current_.width;
  current_.height = current_.width = 1;
}

void Layers::join(const Activation& features, bool lists) {
  const Activation added = current_;
  current_.channels += features.channels;
  record({.kind = LayerKind::concatenate, .other = added.value, .lists = lists}, features);
}

void Layers::concatenate(std::int64_t channels, std::int64_t added) {
  const Activation input = current_;
  current_.channels = channels;
  const double elements = current_.elements();
  move(OperatorKind::elementwise, 2 * elements, added > 0 ? 3 * elements : 0);
  last().operators.back().bare_backward = static_cast<double>(added);
  record({.kind = LayerKind::concatenate, .other = input.value}, input);
}

void Layers::squeeze_excite(std::int64_t squeezed_channels) {
  const Activation input = current_;
  global_mean();
  convolution({.channels = squeezed_channels, .bias = true});
  silu();
  convolution({.channels = input.channels, .bias = true});
  move(OperatorKind::elementwise, 2 * current_.elements(), 3 * current_.elements());  // sigmoid
  record({.kind = LayerKind::sigmoid}, current_);
  const Activation factor = current_;
  current_ = input;
  // Forward scales; backward scales dy, forms dy * x and sums it, and adds the mean's gradient.
  const double elements = current_.elements();
  move(OperatorKind::elementwise, 2 * elements, 9 * elements);
  last().operators.back().eager_backward = {.kernels = 3, .plain = 9 * elements};
  last().operators.back().bare_backward = 1;
  record({.kind = LayerKind::multiply, .other = input.value}, factor);
}

void Layers::layer_scale() {
  current_.wide = true;  // an fp32 parameter times 16 bits
  const double elements = current_.elements();
  // Backward: dy * scale, and dy * x materialised and summed.
  move(OperatorKind::elementwise, 2 * elements, 6 * elements,
       static_cast<double>(current_.channels));
  last().operators.back().eager_backward = {.kernels = 3, .plain = 6 * elements};
  // `parameter` has registered it first of its unit.
  record({.kind = LayerKind::layer_scale, .unit = static_cast<std::uint32_t>(units_.size() - 1)},
         current_);
}

void Layers::stochastic_depth() {
  // A number for each sample is drawn, and divided by the probability.
  const double elements = current_.elements();
  move(OperatorKind::elementwise, 2 * elements, 2 * elements);
  last().operators.back().eager_forward = {.kernels = 3, .plain = 2 * elements};
  record({.kind = LayerKind::stochastic_depth}, current_);
}

}  // namespace rehearse::inline model
