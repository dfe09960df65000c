// Convolutions: on CPUs oneDNN's, or ATen's own for what is small; on CUDA cuDNN's.
#include <algorithm>
#include <array>

#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

constexpr std::int64_t kBlock = 16;  // channels side by side in oneDNN's blocked formats (AVX-512)
constexpr std::int64_t kSmallInput = 20480;  // elements; below ATen's own kernel is taken

constexpr std::int64_t kBatchPointers = 8216;  // bytes: what oneDNN's strided kernels multiply

std::int64_t blocked(std::int64_t channels) { return (channels + kBlock - 1) / kBlock * kBlock; }

struct Window {
  Window(const Recorder& recorder, const Layer& layer)
      : samples(recorder.batch()), in(layer.in), out(layer.out), options(layer.convolution) {}

  bool depthwise() const { return options.groups > 1; }
  std::int64_t input() const { return samples * in.elements(); }
  std::int64_t output() const { return samples * out.elements(); }
  std::int64_t weights() const { return weight_sizes().elements(); }
  Sizes input_sizes() const { return {samples, in.channels, in.height, in.width}; }
  Sizes output_sizes() const { return {samples, out.channels, out.height, out.width}; }
  Sizes weight_sizes() const {
    return {out.channels, in.channels / options.groups, options.kernel, options.kernel};
  }
  std::vector<std::pair<std::string_view, std::vector<double>>> kernel_options() const {
    const auto both = [](std::int64_t number) {
      return std::vector<double>(2, static_cast<double>(number));
    };
    return {{"stride", both(options.stride)},
            {"padding", both(options.padding)},
            {"dilation", both(1)},
            {"transposed", {0}},
            {"output_padding", both(0)},
            {"groups", {static_cast<double>(options.groups)}}};
  }
  /// The output, or the input's gradient, as it lies in memory.
  tape::Shape output_shape(bool last) const {
    return last ? channels_last(output_sizes()) : tape::Shape(output_sizes());
  }
  tape::Shape input_shape(bool last) const {
    return last ? channels_last(input_sizes()) : tape::Shape(input_sizes());
  }
  /// The same as oneDNN lays them out: the image of three channels stays as it is.
  bool plain_input() const { return in.channels < kBlock && !depthwise(); }
  std::int64_t blocked_input() const { return samples * blocked(in.channels) * in.positions(); }
  std::int64_t blocked_output() const { return samples * blocked(out.channels) * out.positions(); }
  std::int64_t blocked_weights() const {
    const std::int64_t window = options.kernel * options.kernel;
    if (depthwise()) return blocked(out.channels) * window;
    const std::int64_t inputs = plain_input() ? in.channels : blocked(in.channels);
    return blocked(out.channels) * inputs * window;
  }
  /// A strided 1x1 kernel first gathers one sample's inputs that it reads (bytes).
  bool gathers() const { return options.kernel == 1 && options.stride > 1; }
  std::int64_t gathered() const { return 4 * in.channels * out.positions() + 128; }
  std::int64_t samples;
  Extent in, out;
  Convolution options;
};

// aten/src/ATen/native/Convolution.cpp, ConvParams::use_mkldnn, for one thread.
bool uses_onednn(const Window& s, Type type) {
  if (type == Type::float16) return true;
  const bool worth = s.options.stride > 1 || s.samples >= 16 || s.options.kernel > 1;
  return worth &&
         (s.depthwise() || s.options.kernel > 3 || s.samples > 1 || s.input() > kSmallInput);
}

/// The columns of ATen's own kernel: every window's inputs.
std::int64_t columns(const Window& s) {
  if (s.options.kernel == 1 && s.options.stride == 1) return 0;
  return s.samples * s.in.channels * s.options.kernel * s.options.kernel * s.out.positions();
}

Tensor own_forward(Recorder& recorder, const Window& s, Type type) {
  Tensor unfolded;
  if (columns(s) > 0) unfolded = recorder.workspace(columns(s), type);
  return recorder.take(s.output_sizes(), type);
}

Gradients own_backward(Recorder& recorder, const Window& s, Type type, bool to_input) {
  Gradients results = {undefined(), undefined(), undefined()};
  if (to_input) results[0] = recorder.take(s.input_sizes(), type);
  if (s.options.bias) results[2] = recorder.take(s.out.channels, type);
  results[1] = recorder.take(s.weight_sizes(), type);
  if (columns(s) > 0) recorder.workspace(columns(s), type);
  return results;
}

Tensor onednn_forward(Recorder& recorder, const Window& s, Type type, bool channels_last) {
  if (channels_last) {
    Tensor copied;
    if (!s.depthwise()) copied = recorder.workspace(s.weights(), type);
    Tensor output = recorder.take(s.output_shape(true), type);
    Tensor pointers;
    if (s.options.stride > 1) pointers = recorder.workspace(kBatchPointers, Type::byte);
    recorder.workspace(s.blocked_weights(), type);
    return output;
  }
  Tensor made;
  const bool lower = type == Type::float16;
  {
    Tensor gathered, input;
    if (s.gathers()) gathered = recorder.workspace(s.gathered(), Type::byte);
    if (!s.plain_input()) input = recorder.workspace(s.blocked_input(), type);
    if (s.plain_input() && lower) input = recorder.workspace(s.input(), type);
    const Tensor weights = recorder.workspace(s.blocked_weights(), type);
    made = recorder.workspace(s.blocked_output(), type);
  }
  // In 16 bits the kernels leave channels last.
  Tensor output = recorder.take(s.output_sizes(), type);
  return lower ? recorder.take(s.output_sizes(), type) : output;
}

Tensor onednn_to_input(Recorder& recorder, const Window& s, Type type) {
  Tensor made;
  {
    const Tensor output = recorder.workspace(s.blocked_output(), type);
    const Tensor weights = recorder.workspace(s.blocked_weights(), type);
    made = recorder.workspace(s.blocked_input(), type);
  }
  Tensor gradient = recorder.take(s.input_sizes(), type);
  // The strided kernel leaves channels last.
  if (type == Type::float16 || (s.options.stride > 1 && !s.depthwise()))
    return recorder.take(s.input_sizes(), type);
  return gradient;
}

void onednn_to_weights(Recorder& recorder, const Window& s, Type type, Gradients& results) {
  Tensor weights, bias;
  {
    const Tensor output = recorder.workspace(s.blocked_output(), type);
    Tensor input;
    if (!s.plain_input()) input = recorder.workspace(s.blocked_input(), type);
    if (s.plain_input() && type == Type::float16) input = recorder.workspace(s.input(), type);
    weights = recorder.workspace(s.blocked_weights(), type);
    if (s.options.bias) bias = recorder.workspace(blocked(s.out.channels), type);
    if (s.gathers()) recorder.workspace(s.gathered(), Type::byte);
  }
  if (s.options.bias) results[2] = recorder.take(s.out.channels, type);
  results[1] = recorder.take(s.weight_sizes(), type);
}

Gradients onednn_backward(Recorder& recorder, const Window& s, Type type, bool to_input) {
  Gradients results = {undefined(), undefined(), undefined()};
  if (to_input) results[0] = onednn_to_input(recorder, s, type);
  onednn_to_weights(recorder, s, type, results);
  return results;
}

/// In channels-last nothing but weights is laid out anew. A depthwise kernel's gradient is one of
/// blocks of channels, and the weight's gradient comes in channels-last, too: AccumulateGrad copies
/// what is not laid out as its weight.
Gradients channels_last_backward(Recorder& recorder, const Window& s, Type type, bool to_input) {
  Gradients results = {undefined(), undefined(), undefined()};
  Tensor copied;
  if (!s.depthwise()) copied = recorder.workspace(s.weights(), type);
  if (to_input) {
    results[0] = recorder.take(s.input_shape(true), type);
    recorder.workspace(s.blocked_weights(), type);
  }
  const std::int64_t blocks = s.depthwise() ? kBlock * kBlock : 1;
  const Tensor weights = recorder.workspace(blocks * s.blocked_weights(), type);
  Tensor bias;
  {
    Tensor sums;
    if (s.depthwise()) sums = recorder.workspace(64 * s.in.channels + 128, Type::byte);
    if (s.options.bias) bias = recorder.workspace(blocked(s.out.channels), type);
  }
  if (s.options.bias) results[2] = recorder.take(s.out.channels, type);
  const Tensor plain = recorder.workspace(s.weights(), type);
  results[1] = recorder.take(
      s.depthwise() ? tape::Shape(s.weight_sizes()) : channels_last(s.weight_sizes()), type);
  return results;
}

Gradients cudnn_backward(Recorder& recorder, const Window& s, Type type,
                         const std::array<bool, 2>& needed, bool last) {
  Gradients results = {undefined(), undefined(), undefined()};
  if (needed[0]) results[0] = recorder.take(s.input_shape(last), type);
  if (!needed[1]) return results;
  // It comes as the input lies; AccumulateGrad copies what is not laid out as its weight.
  const bool turned = last && !recorder.weighs_channels_last();
  results[1] =
      recorder.take(turned ? channels_last(s.weight_sizes()) : tape::Shape(s.weight_sizes()), type);
  if (s.options.bias) results[2] = recorder.take(s.out.channels, type);
  return results;
}

}  // namespace

Tensor convolution(Recorder& recorder, const Tensor& given, const Layer& layer) {
  const Window s(recorder, layer);
  Tensor bias = undefined();
  if (s.options.bias) {
    bias = product_parameter(recorder, {layer.unit, layer.parameter + 1, s.out.channels});
  }
  const Tensor weight =
      product_parameter(recorder, {layer.unit, layer.parameter, s.weight_sizes()});
  const Tensor input = lower(recorder, given);
  const Type type = input.type;
  const bool onednn = recorder.on_cpu() && uses_onednn(s, type);
  const bool last = layer.channels_last;
  Tensor output = !recorder.on_cpu() ? recorder.take(s.output_shape(last), type)
                  : onednn           ? onednn_forward(recorder, s, type, last)
                                     : own_forward(recorder, s, type);
  const auto options = s.kernel_options();
  recorder.record("convolution", {&input, &weight, &bias}, {&output}, {.with = options});
  const auto backward = [&recorder, s, type, onednn, last, options, w = weight.detached(),
                         x = weight.needs_gradient() ? input.detached() : undefined(),
                         to_input = input.needs_gradient(), trained = weight.needs_gradient()](
                            const Gradients& gradients) -> Gradients {
    Tensor contiguous;
    if (!gradients[0].contiguous() && !last)
      contiguous = recorder.workspace(s.output_sizes(), type);
    Gradients results = !recorder.on_cpu()
                            ? cudnn_backward(recorder, s, type, {to_input, trained}, last)
                        : !onednn ? own_backward(recorder, s, type, to_input)
                        : last    ? channels_last_backward(recorder, s, type, to_input)
                                  : onednn_backward(recorder, s, type, to_input);
    auto with = options;
    with.push_back(
        {"output_mask", {to_input ? 1.0 : 0.0, trained ? 1.0 : 0.0, s.options.bias ? 1.0 : 0.0}});
    Tensor read;
    static_cast<tape::Shape&>(read) = s.input_shape(last);
    read.type = type;
    recorder.record("convolution_backward", {&gradients[0], &read, &w},
                    {&results[0], &results[1], &results[2]}, {.with = std::move(with)});
    return results;
  };
  recorder.connect(output, {input, weight, bias}, backward);
  return output;
}

}  // namespace rehearse::tape
