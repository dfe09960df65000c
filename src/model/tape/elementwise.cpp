// Operators that work element by element, and copies.
#include "model/tape/operators.hpp"

#include <algorithm>

namespace rehearse::tape {
namespace {

Type lower_type() { return Type::float16; }

/// What an operator on each element of a gradient gives: as its input, but for the gaps.
Tensor like(Recorder& recorder, const Tensor& gradient, Type type) {
  Tensor result = recorder.take(gradient.elements, type);
  result.contiguous = gradient.contiguous || !gradient.dense;
  return result;
}

/// What ATen's CPU kernels make of a number beside a tensor: a double of no dimension, and its copy
/// in the tensor's type. On CUDA neither is on the device.
struct Number {
  explicit Number(Recorder& recorder, Type type) {
    if (!recorder.on_cpu()) return;
    wide = recorder.workspace(1, Type::int64);
    narrow = recorder.workspace(1, type);
  }
  Tensor wide, narrow;
};

}  // namespace

Tensor parameter(Recorder& recorder, const Parameter& which) {
  return recorder.parameter(which.unit, which.index, which.elements);
}

Tensor product_parameter(Recorder& recorder, const Parameter& which) {
  const Tensor whole = parameter(recorder, which);
  if (!recorder.autocast()) return whole;
  Tensor& copy = recorder.cached_copy(which.unit, which.index);
  if (!copy.defined) {
    copy = to(recorder, whole, lower_type());
    copy.defined = true;
  }
  return copy;
}

Tensor to(Recorder& recorder, const Tensor& input, Type type) {
  if (input.type == type) return input;
  Tensor output = recorder.take(input.elements, type);
  recorder.connect(
      output, {input},
      [&recorder, elements = input.elements, before = input.type](const Gradients&) -> Gradients {
        return {recorder.take(elements, before)};
      });
  return output;
}

Tensor lower(Recorder& recorder, const Tensor& input) {
  return recorder.autocast() ? to(recorder, input, lower_type()) : input;
}

Tensor widen_on_cuda(Recorder& recorder, const Tensor& input) {
  return recorder.autocast() && !recorder.on_cpu() ? to(recorder, input, Type::float32) : input;
}

Tensor unary_of_input(Recorder& recorder, const Tensor& input) {
  Tensor output = recorder.take(input.elements, input.type);
  recorder.connect(output, {input},
                   [&recorder, x = input.detached()](const Gradients& gradients) -> Gradients {
                     return {like(recorder, gradients[0], x.type)};
                   });
  return output;
}

Tensor unary_of_output(Recorder& recorder, const Tensor& input) {
  Tensor output = recorder.take(input.elements, input.type);
  recorder.connect(output, {input},
                   [&recorder, y = output](const Gradients& gradients) -> Gradients {
                     return {like(recorder, gradients[0], y.type)};
                   });
  return output;
}

Tensor relu_in_place(Recorder& recorder, const Tensor& input) {
  Tensor output = input.detached();
  recorder.connect(output, {input},
                   [&recorder, y = output](const Gradients& gradients) -> Gradients {
                     return {like(recorder, gradients[0], y.type)};
                   });
  return output;
}

// Autograd clones the input before it is overwritten (derivatives.yaml: silu saves self).
Tensor silu_in_place(Recorder& recorder, const Tensor& input) {
  const Tensor clone = recorder.take(input.elements, input.type);
  Tensor output = input.detached();
  recorder.connect(output, {input},
                   [&recorder, x = clone](const Gradients& gradients) -> Gradients {
                     return {like(recorder, gradients[0], x.type)};
                   });
  return output;
}

Tensor widened(Recorder& recorder, const Tensor& side, Type type) {
  if (!recorder.on_cpu() || side.type == type) return undefined();
  return recorder.workspace(side.elements, type);
}

Tensor add(Recorder& recorder, const Tensor& left, const Tensor& right) {
  const Type type =
      left.type == Type::float32 || right.type == Type::float32 ? Type::float32 : left.type;
  const Tensor wide_left = widened(recorder, left, type);
  const Tensor wide_right = widened(recorder, right, type);
  Tensor output = recorder.take(std::max(left.elements, right.elements), type);
  const bool sums_left = left.unbatched && !right.unbatched;
  const bool sums_right = right.unbatched && !left.unbatched;
  recorder.connect(output, {left, right}, [sums_left, sums_right](const Gradients& gradients) {
    Gradients results = {gradients[0], gradients[0]};
    results[0].broadcast = sums_left;
    results[1].broadcast = sums_right;
    return results;
  });
  return output;
}

Tensor add_in_place(Recorder& recorder, const Tensor& left, const Tensor& right) {
  widened(recorder, right, left.type);
  Tensor output = left.detached();
  recorder.connect(output, {left, right}, [](const Gradients& gradients) -> Gradients {
    return {gradients[0], gradients[0]};
  });
  return output;
}

// Both products are made, the right side's first; the engine sums what was broadcast.
Tensor multiply(Recorder& recorder, const Tensor& left, const Tensor& right) {
  return multiply(recorder, left, right, std::max(left.elements, right.elements));
}

Tensor multiply(Recorder& recorder, const Tensor& left, const Tensor& right,
                std::int64_t elements) {
  const Type type =
      left.type == Type::float32 || right.type == Type::float32 ? Type::float32 : left.type;
  const Tensor wide_left = widened(recorder, left, type);
  const Tensor wide_right = widened(recorder, right, type);
  Tensor output = recorder.take(elements, type);
  const bool to_left = left.needs_gradient(), to_right = right.needs_gradient();
  const Tensor x = to_right ? left.detached() : undefined();
  const Tensor y = to_left ? right.detached() : undefined();
  recorder.connect(output, {left, right},
                   [&recorder, x, y, type, to_left, to_right](const Gradients& gradients) {
                     Gradients results = {undefined(), undefined()};
                     if (to_right) {
                       const Tensor wide = widened(recorder, x, type);
                       results[1] = like(recorder, gradients[0], type);
                     }
                     if (to_left) {
                       const Tensor wide = widened(recorder, y, type);
                       results[0] = like(recorder, gradients[0], type);
                     }
                     return results;
                   });
  return output;
}

Tensor with_number(Recorder& recorder, std::int64_t elements, Type type) {
  const Number number(recorder, type);
  return recorder.take(elements, type);
}

Tensor scale(Recorder& recorder, const Tensor& input) {
  Tensor output = with_number(recorder, input.elements, input.type);
  recorder.connect(
      output, {input},
      [&recorder, elements = input.elements, type = input.type](const Gradients&) -> Gradients {
        return {with_number(recorder, elements, type)};
      });
  return output;
}

Tensor add_number(Recorder& recorder, const Tensor& input) {
  Tensor output = with_number(recorder, input.elements, input.type);
  recorder.connect(output, {input},
                   [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
  return output;
}

Tensor subtract(Recorder& recorder, const Tensor& left, const Tensor& right) {
  Tensor output = recorder.take(left.elements, left.type);
  recorder.connect(output, {left, right}, [&recorder](const Gradients& gradients) -> Gradients {
    return {gradients[0], like(recorder, gradients[0], gradients[0].type)};
  });
  return output;
}

void divide_in_place(Recorder& recorder, const Tensor& tensor) {
  const Number divisor(recorder, tensor.type);
}

// On CUDA native_dropout keeps a byte per element; on CPUs the mask is a tensor like the input,
// divided in place by what stays.
Tensor dropout(Recorder& recorder, const Tensor& input) {
  Tensor mask, output;
  if (recorder.on_cpu()) {
    mask = recorder.take(input.elements, input.type);
    divide_in_place(recorder, mask);
  } else {
    output = recorder.take(input.elements, input.type);
    mask = recorder.take(input.elements, Type::byte);
  }
  if (!output.storage) output = recorder.take(input.elements, input.type);
  recorder.connect(output, {input},
                   [&recorder, mask, type = input.type](const Gradients&) -> Gradients {
                     return {recorder.take(mask.elements, type)};
                   });
  return output;
}

std::vector<Tensor> chunk(Recorder& recorder, const Tensor& whole, std::size_t count) {
  std::vector<Tensor> chunks(count, whole.detached());
  std::vector<Tensor*> outputs;
  for (Tensor& part : chunks) {
    part.elements = whole.elements / static_cast<std::int64_t>(count);
    part.dense = part.contiguous = false;
    outputs.push_back(&part);
  }
  recorder.connect(outputs, {whole},
                   [&recorder, elements = whole.elements, type = whole.type](
                       const Gradients&) -> Gradients { return {recorder.take(elements, type)}; });
  return chunks;
}

Tensor concatenate(Recorder& recorder, const std::vector<Tensor>& parts, bool contiguous_slices) {
  std::int64_t elements = 0;
  for (const Tensor& part : parts) elements += part.elements;
  Tensor output = recorder.take(elements, parts.front().type);
  std::vector<std::int64_t> sizes;
  for (const Tensor& part : parts) sizes.push_back(part.elements);
  recorder.connect(output, parts, [sizes, contiguous_slices](const Gradients& gradients) {
    Gradients slices;
    for (const std::int64_t size : sizes) {
      slices.push_back(gradients[0].detached());
      slices.back().elements = size;
      slices.back().dense = false;
      slices.back().contiguous = contiguous_slices;
    }
    return slices;
  });
  return output;
}

Tensor view(Recorder& recorder, const Tensor& input) {
  Tensor output = input.detached();
  recorder.connect(output, {input},
                   [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
  return output;
}

Tensor copy(Recorder& recorder, const Tensor& input) {
  Tensor output = recorder.take(input.elements, input.type);
  recorder.connect(output, {input},
                   [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
  return output;
}

Tensor slice(Recorder& recorder, const Tensor& input, std::int64_t elements) {
  Tensor output = input.detached();
  output.elements = elements;
  output.dense = output.contiguous = false;
  recorder.connect(output, {input},
                   [&recorder, whole = input.elements, type = input.type](
                       const Gradients&) -> Gradients { return {recorder.take(whole, type)}; });
  return output;
}

}  // namespace rehearse::tape
