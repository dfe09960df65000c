// Layers of image networks, and how values stand as images or by channels.
#include "model/tape/operators.hpp"
#include "model/tape/play.hpp"

namespace rehearse::tape {

// Convolutions have the channels of an image as the second dimension; norms and products of them
// as the last.
Tensor Player::as_image(const Tensor& x, const Extent& in) {
  const Sizes turned = {recorder_.batch(), in.height, in.width, in.channels};
  const Sizes image = {recorder_.batch(), in.channels, in.height, in.width};
  if (x.dimensions() != 4 || x.sizes == image || x.sizes != turned) return x;
  return transpose(recorder_, transpose(recorder_, x, 2, 3), 1, 2);
}

Tensor Player::by_channels(const Layer& layer) {
  const Tensor& x = input(layer);
  const Extent& in = layer.in;
  if (x.sizes.back() == in.channels) return x;
  const bool norm = layer.kind == LayerKind::layer_norm;
  if (x.dimensions() == 4 && x.sizes[1] == in.channels && (norm || in.positions() > 1))
    return transpose(recorder_, transpose(recorder_, x, 1, 2), 2, 3);
  return reshape(recorder_, x, {recorder_.batch(), x.elements() / recorder_.batch()});
}

Tensor Player::selected(const Layer& layer) {
  const Tensor& x = input(layer);
  if (layer.out.channels != layer.in.channels) return slice(recorder_, x, 2, layer.out.channels);
  if (layer.out.positions() > 1) return slice(recorder_, x, 1, layer.out.positions());
  return select(recorder_, x, 1);
}

// DenseNet's features stay apart, each a tensor, until they are read.
Player::Value Player::joined(const Layer& layer) {
  Value parts = values_.at(layer.input);
  if (layer.other != layer.input) parts.push_back(other(layer));
  if (layer.lists) return parts;
  return {concatenate(recorder_, parts, parts.front().dimensions() == 4 ? 1 : 2)};
}

// adaptive_avg_pool2d gives the mean the strides of its input's memory format, in place: the
// gradient is copied into zeros (aten/src/ATen/native/AdaptiveAveragePooling.cpp).
Tensor Player::global_mean(const Layer& layer) {
  Recorder& r = recorder_;
  const Tensor x = as_image(layer);
  const Tensor means = mean(r, x, {2, 3});
  if (x.contiguous() || !x.channels_last() || r.on_cpu()) return means;
  Tensor output = means.detached();
  r.connect(output, {means}, [&r](const Gradients& gradients) -> Gradients {
    const Tensor& dy = gradients[0];
    const Tensor rows = dy.as({dy.sizes[0], dy.sizes[1]});
    const Tensor zeros = r.call("new_zeros", {&rows}, dy.elements(), dy.type);
    const Tensor part = zeros.as(rows);
    r.record("copy_", {&part, &rows}, {&part});
    return {zeros.as(dy.sizes)};
  });
  return output;
}

Tensor Player::scaled(const Layer& layer) {
  const Tensor x = as_image(layer);
  const Sizes sizes =
      x.dimensions() == 4 ? Sizes{layer.in.channels, 1, 1} : Sizes{layer.in.channels};
  const Tensor factors = parameter(recorder_, {layer.unit, layer.parameter, sizes});
  return multiply(recorder_, factors, x);
}

Tensor Player::stochastic_depth(const Layer& layer) {
  const Tensor& x = input(layer);
  Sizes sizes = x.sizes;
  for (std::size_t i = 1; i < sizes.size(); ++i) sizes[i] = 1;
  const Tensor noise = recorder_.take(sizes, x.type);
  recorder_.record("bernoulli_", {&noise}, {&noise});
  divide_in_place(recorder_, noise);
  return multiply(recorder_, x, noise);
}

}  // namespace rehearse::tape
