// Views: other sizes of the same memory. Forward runs nothing; gradients may have to be copied.
#include <numeric>
#include <optional>

#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

/// at::detail::computeStride: the strides that make `sizes` of the same memory; nothing where a
/// copy has to be made.
std::optional<Shape> viewed(const Shape& from, const Sizes& sizes) {
  check(from.elements() == sizes.elements(), "a view of another number of elements");
  if (from.dimensions() == 0) return Shape(sizes);
  Shape out(sizes);
  auto to = static_cast<std::ptrdiff_t>(sizes.size()) - 1;
  std::int64_t base = from.strides.back(), taken = 1, given = 1;
  for (std::size_t i = from.dimensions(); i-- > 0;) {
    taken *= from.sizes[i];
    const bool ends = i == 0 || (from.sizes[i - 1] != 1 && from.strides[i - 1] != taken * base);
    if (!ends) continue;
    while (to >= 0 && (given < taken || sizes[static_cast<std::size_t>(to)] == 1)) {
      out.strides[static_cast<std::size_t>(to)] = given * base;
      given *= sizes[static_cast<std::size_t>(to)];
      --to;
    }
    if (given != taken) return std::nullopt;
    if (i > 0) {
      base = from.strides[i - 1];
      taken = given = 1;
    }
  }
  return out;
}

/// Without autograd: a view, or a copy.
Tensor reshaped(Recorder& recorder, const Tensor& input, const Sizes& sizes) {
  if (input.sizes == sizes) return input;
  if (const auto shape = viewed(input, sizes)) return input.as(*shape);
  return recorder.call("clone", {&input}, input.sizes, input.type).as(sizes);
}

}  // namespace

Tensor reshape(Recorder& recorder, const Tensor& input, const Sizes& sizes) {
  if (input.sizes == sizes) return input;
  const auto shape = viewed(input, sizes);
  if (!shape) return reshape(recorder, clone(recorder, input), sizes);
  Tensor output = input.detached().as(*shape);
  recorder.connect(output, {input},
                   [&recorder, before = input.sizes](const Gradients& gradients) -> Gradients {
                     return {reshaped(recorder, gradients[0], before)};
                   });
  return output;
}

Tensor transpose(Recorder& recorder, const Tensor& input, std::size_t one, std::size_t other) {
  const auto swapped = [one, other](const Tensor& tensor) {
    Shape shape = tensor;
    std::swap(shape.sizes[one], shape.sizes[other]);
    std::swap(shape.strides[one], shape.strides[other]);
    return tensor.detached().as(shape);
  };
  Tensor output = swapped(input);
  recorder.connect(output, {input}, [swapped](const Gradients& gradients) -> Gradients {
    return {swapped(gradients[0])};
  });
  return output;
}

Tensor unsqueeze(Recorder& recorder, const Tensor& input, std::size_t dimension) {
  Sizes sizes = input.sizes;
  sizes.insert(dimension, 1);
  return reshape(recorder, input, sizes);
}

// The engine sums the gradient.
Tensor expand(Recorder& recorder, const Tensor& input, const Sizes& sizes) {
  Shape shape = input;
  while (shape.dimensions() < sizes.size()) {
    shape.sizes.insert(0, 1);
    shape.strides.insert(0, 0);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (shape.sizes[i] == sizes[i]) continue;
    check(shape.sizes[i] == 1, "expands a dimension that is not 1");
    shape.sizes[i] = sizes[i];
    shape.strides[i] = 0;
  }
  Tensor output = input.detached().as(shape);
  recorder.connect(output, {input},
                   [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
  return output;
}

Tensor slice(Recorder& recorder, const Tensor& input, std::size_t dimension, std::int64_t size,
             std::int64_t step) {
  if (size == input.sizes[dimension]) return input;
  Shape shape = input;
  shape.sizes[dimension] = size;
  shape.strides[dimension] *= step;
  Tensor output = input.detached().as(shape);
  recorder.connect(output, {input},
                   [&recorder, sizes = input.sizes](const Gradients& gradients) -> Gradients {
                     const Tensor& dy = gradients[0];
                     return {recorder.call("slice_backward", {&dy}, sizes, dy.type)};
                   });
  return output;
}

Tensor select(Recorder& recorder, const Tensor& input, std::size_t dimension) {
  Shape shape = input;
  shape.sizes.erase(dimension);
  shape.strides.erase(dimension);
  Tensor output = input.detached().as(shape);
  recorder.connect(output, {input},
                   [&recorder, sizes = input.sizes](const Gradients& gradients) -> Gradients {
                     const Tensor& dy = gradients[0];
                     return {recorder.call("select_backward", {&dy}, sizes, dy.type)};
                   });
  return output;
}

// Where one part has no gradient, zeros stand in its place.
Tensors split(Recorder& recorder, const Tensor& whole, std::size_t dimension,
              const std::vector<std::int64_t>& sizes) {
  check(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == whole.sizes[dimension],
        "parts that are not the whole");
  Tensors parts;
  std::vector<Tensor*> outputs;
  parts.reserve(sizes.size());
  for (const std::int64_t size : sizes) {
    Shape part = whole;
    part.sizes[dimension] = size;
    parts.push_back(whole.detached().as(part));
  }
  for (Tensor& part : parts) outputs.push_back(&part);
  std::vector<Shape> shapes(parts.begin(), parts.end());
  recorder.connect(outputs, {whole},
                   [&recorder, shapes, sizes = whole.sizes,
                    type = whole.type](const Gradients& gradients) -> Gradients {
                     Gradients dense = gradients;
                     std::vector<const Tensor*> reads;
                     for (std::size_t i = 0; i < dense.size(); ++i) {
                       if (!dense[i].defined)
                         dense[i] = recorder.call("zeros", {}, shapes[i].sizes, type);
                       reads.push_back(&dense[i]);
                     }
                     const Tensor both = recorder.take(sizes, type);
                     recorder.record("cat", reads, {&both});
                     return {both};
                   });
  return parts;
}

Tensor gathered(Recorder& recorder, const Tensor& input, const Tensor& order, const Sizes& sizes) {
  Tensor output = recorder.call("index", {&input, &order}, sizes, input.type);
  recorder.connect(
      output, {input},
      [&recorder, order, whole = input.sizes](const Gradients& gradients) -> Gradients {
        const Tensor& dy = gradients[0];
        const Tensor zeros = recorder.call("new_zeros", {&dy}, whole, dy.type);
        recorder.record("index_put_", {&zeros, &order, &dy}, {&zeros});
        return {zeros};
      });
  return output;
}

Tensors chunk(Recorder& recorder, const Tensor& whole, std::size_t count) {
  const auto each = whole.sizes.back() / static_cast<std::int64_t>(count);
  return split(recorder, whole, whole.dimensions() - 1, std::vector<std::int64_t>(count, each));
}

}  // namespace rehearse::tape
