// Operators that work element by element.
#include "model/tape/operators.hpp"

#include <algorithm>

namespace rehearse::tape {
namespace {

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

Tensor unary_of_input(Recorder& recorder, const Tensor& input) {
  Tensor output = recorder.take(input.elements, input.type);
  recorder.connect(output, {input},
                   [&recorder, x = input.detached()](const Gradients& gradients) -> Gradients {
                     return {like(recorder, gradients[0], x.type)};
                   });
  return output;
}

Tensor fused_product(Recorder& recorder, const Tensor& gate, const Tensor& up) {
  Tensor output = recorder.take(gate.elements, gate.type);
  recorder.connect(
      output, {gate, up},
      [&recorder, x = gate.detached(), y = up.detached()](const Gradients&) -> Gradients {
        return {recorder.take(x.elements, x.type), recorder.take(y.elements, y.type)};
      });
  return output;
}

Tensor fused_copy(Recorder& recorder, const Tensor& input) {
  Tensor output = recorder.take(input.elements, input.type);
  recorder.connect(output, {input},
                   [&recorder, elements = input.elements, type = input.type](
                       const Gradients&) -> Gradients { return {recorder.take(elements, type)}; });
  return output;
}

Tensor fused_norm(Recorder& recorder, const Tensor& input, const NormOptions& options) {
  Tensor output = recorder.take(input.elements, input.type);
  const Tensor deviation = recorder.take(options.positions, Type::float32);
  Tensors inputs = {input};
  if (options.form != NormForm::plain) inputs.push_back(parameter(recorder, options.scale));
  const bool trained = inputs.back().needs_gradient();
  recorder.connect(output, inputs,
                   [&recorder, x = input.detached(), deviation, trained, scaled = inputs.size() > 1,
                    channels = options.channels](const Gradients&) -> Gradients {
                     Gradients results = {recorder.take(x.elements, x.type)};
                     if (scaled)
                       results.push_back(trained
                                             ? recorder.take(channels, recorder.parameter_type())
                                             : undefined());
                     return results;
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

}  // namespace rehearse::tape
