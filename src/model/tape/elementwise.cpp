// Operators that work element by element.
#include "model/tape/operators.hpp"

#include <algorithm>

namespace rehearse::tape {
namespace {

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

Type wider(const Tensor& left, const Tensor& right) {
  return left.type == Type::float32 || right.type == Type::float32 ? Type::float32 : left.type;
}

}  // namespace

Tensor with_number(Recorder& recorder, std::string_view op, const Tensor& input) {
  const Number number(recorder, input.type);
  return recorder.call(op, {&input}, broadcast({&input}), input.type);
}

Tensor pointwise(Recorder& recorder, std::string_view op, const Tensor& one) {
  return recorder.call(op, {&one}, broadcast({&one}), one.type);
}

Tensor pointwise(Recorder& recorder, std::string_view op, const Tensor& one, const Tensor& other) {
  return recorder.call(op, {&one, &other}, broadcast({&one, &other}), wider(one, other));
}

Tensor unary_of_input(Recorder& recorder, const Tensor& input, const Unary& op) {
  Tensor output = pointwise(recorder, op.forward, input);
  recorder.connect(output, {input},
                   [&recorder, op, x = input.detached()](const Gradients& gradients) -> Gradients {
                     return {recorder.call(op.backward, {&gradients[0], &x},
                                           broadcast({&gradients[0], &x}), x.type)};
                   });
  return output;
}

Tensor unary_of_output(Recorder& recorder, const Tensor& input, const Unary& op) {
  Tensor output = pointwise(recorder, op.forward, input);
  recorder.connect(output, {input},
                   [&recorder, op, y = output](const Gradients& gradients) -> Gradients {
                     return {recorder.call(op.backward, {&gradients[0], &y},
                                           broadcast({&gradients[0], &y}), y.type)};
                   });
  return output;
}

Tensor fused_product(Recorder& recorder, const Tensor& gate, const Tensor& up) {
  Tensor output = recorder.call("fused_product", {&gate, &up}, gate.sizes, gate.type);
  recorder.connect(
      output, {gate, up},
      [&recorder, x = gate.detached(), y = up.detached()](const Gradients& gradients) -> Gradients {
        const Tensor dx = recorder.take(x.sizes, x.type), dy = recorder.take(y.sizes, y.type);
        recorder.record("fused_product_backward", {&gradients[0], &x, &y}, {&dx, &dy});
        return {dx, dy};
      });
  return output;
}

Tensor fused_halves(Recorder& recorder, const Tensor& both) {
  Sizes half = both.sizes;
  half[half.size() - 1] /= 2;
  Tensor output = recorder.call("fused_product", {&both}, half, both.type);
  recorder.connect(
      output, {both}, [&recorder, x = both.detached()](const Gradients& gradients) -> Gradients {
        return {recorder.call("fused_product_backward", {&gradients[0], &x}, x.sizes, x.type)};
      });
  return output;
}

Tensor fused_copy(Recorder& recorder, const Tensor& input) {
  const Shape shape = broadcast({&input});
  Tensor output = recorder.call("fused_copy", {&input}, shape, input.type);
  recorder.connect(output, {input},
                   [&recorder, shape, type = input.type](const Gradients& gradients) -> Gradients {
                     return {recorder.call("fused_copy_backward", {&gradients[0]}, shape, type)};
                   });
  return output;
}

Tensor relu_in_place(Recorder& recorder, const Tensor& input) {
  Tensor output = input.detached();
  recorder.record("relu_", {&output}, {&output});
  recorder.connect(output, {input},
                   [&recorder, y = output](const Gradients& gradients) -> Gradients {
                     return {recorder.call("threshold_backward", {&gradients[0], &y},
                                           broadcast({&gradients[0], &y}), y.type)};
                   });
  return output;
}

// Autograd clones the input before it is overwritten (derivatives.yaml: silu saves self).
Tensor silu_in_place(Recorder& recorder, const Tensor& input) {
  const Tensor kept = recorder.call("clone", {&input}, broadcast({&input}), input.type);
  Tensor output = input.detached();
  recorder.record("silu_", {&output}, {&output});
  recorder.connect(output, {input}, [&recorder, x = kept](const Gradients& gradients) -> Gradients {
    return {recorder.call("silu_backward", {&gradients[0], &x}, broadcast({&gradients[0], &x}),
                          x.type)};
  });
  return output;
}

Tensor widened(Recorder& recorder, const Tensor& side, Type type) {
  if (!recorder.on_cpu() || side.type == type) return undefined();
  return recorder.workspace(side.sizes, type);
}

Tensor add(Recorder& recorder, const Tensor& left, const Tensor& right) {
  const Type type = wider(left, right);
  const Tensor wide_left = widened(recorder, left, type);
  const Tensor wide_right = widened(recorder, right, type);
  Tensor output = pointwise(recorder, "add", left, right);
  recorder.connect(output, {left, right}, [](const Gradients& gradients) -> Gradients {
    return {gradients[0], gradients[0]};
  });
  return output;
}

Tensor add_in_place(Recorder& recorder, const Tensor& left, const Tensor& right) {
  widened(recorder, right, left.type);
  Tensor output = left.detached();
  recorder.record("add_", {&output, &right}, {&output});
  recorder.connect(output, {left, right}, [](const Gradients& gradients) -> Gradients {
    return {gradients[0], gradients[0]};
  });
  return output;
}

// Both products are made, the right side's first; the engine sums what was broadcast.
Tensor multiply(Recorder& recorder, const Tensor& left, const Tensor& right) {
  const Type type = wider(left, right);
  const Tensor wide_left = widened(recorder, left, type);
  const Tensor wide_right = widened(recorder, right, type);
  Tensor output = pointwise(recorder, "mul", left, right);
  const bool to_left = left.needs_gradient(), to_right = right.needs_gradient();
  const Tensor x = to_right ? left.detached() : undefined();
  const Tensor y = to_left ? right.detached() : undefined();
  recorder.connect(output, {left, right},
                   [&recorder, x, y, type, to_left, to_right](const Gradients& gradients) {
                     Gradients results = {undefined(), undefined()};
                     if (to_right) {
                       const Tensor wide = widened(recorder, x, type);
                       results[1] = pointwise(recorder, "mul", gradients[0], x);
                     }
                     if (to_left) {
                       const Tensor wide = widened(recorder, y, type);
                       results[0] = pointwise(recorder, "mul", gradients[0], y);
                     }
                     return results;
                   });
  return output;
}

Tensor scale(Recorder& recorder, const Tensor& input, std::string_view op) {
  Tensor output = with_number(recorder, op, input);
  recorder.connect(output, {input}, [&recorder, op](const Gradients& gradients) -> Gradients {
    return {with_number(recorder, op, gradients[0])};
  });
  return output;
}

Tensor add_number(Recorder& recorder, const Tensor& input) {
  Tensor output = with_number(recorder, "add", input);
  recorder.connect(output, {input},
                   [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
  return output;
}

Tensor negate(Recorder& recorder, const Tensor& input) {
  Tensor output = pointwise(recorder, "neg", input);
  recorder.connect(output, {input}, [&recorder](const Gradients& gradients) -> Gradients {
    return {pointwise(recorder, "neg", gradients[0])};
  });
  return output;
}

Tensor subtract(Recorder& recorder, const Tensor& left, const Tensor& right) {
  Tensor output = pointwise(recorder, "sub", left, right);
  recorder.connect(
      output, {left, right},
      [&recorder, negates = right.needs_gradient()](const Gradients& gradients) -> Gradients {
        const Tensor& dy = gradients[0];
        return {dy, negates ? pointwise(recorder, "neg", dy) : undefined()};
      });
  return output;
}

Tensor clamp(Recorder& recorder, const Tensor& input, bool low, bool high) {
  Tensor output = pointwise(recorder, "clamp", input);
  recorder.connect(
      output, {input},
      [&recorder, low, high, x = input.detached()](const Gradients& gradients) -> Gradients {
        const Tensor& dy = gradients[0];
        const auto compared = [&](std::string_view op) {
          return recorder.call(op, {&x}, x.sizes, Type::boolean);
        };
        const Tensor zero = recorder.call("scalar_tensor", {}, Sizes(), dy.type);
        Tensor mask = low ? compared("ge") : compared("le");
        if (low && high) {
          const Tensor upper = compared("le");
          mask = recorder.call("logical_and_", {&mask, &upper}, x.sizes, Type::boolean);
        }
        return {recorder.call("where", {&mask, &dy, &zero}, x.sizes, dy.type)};
      });
  return output;
}

void divide_in_place(Recorder& recorder, const Tensor& tensor) {
  const Number divisor(recorder, tensor.type);
  recorder.record("div_", {&tensor}, {&tensor});
}

// torch/csrc/autograd's CopySlices writes the view's gradient into a copy of the whole.
Tensor dropout_in_place(Recorder& recorder, const Tensor& input) {
  const Tensor noise = recorder.take(input.sizes, input.type);
  recorder.record("bernoulli_", {&noise}, {&noise});
  divide_in_place(recorder, noise);
  Tensor output = input.detached();
  recorder.record("mul_", {&output, &noise}, {&output});
  recorder.connect(output, {input}, [&recorder, noise](const Gradients& gradients) -> Gradients {
    const Tensor& dy = gradients[0];
    const Tensor base = dy.as({dy.sizes[0], dy.sizes[1], 1, 1});
    const Tensor whole = recorder.take(base.sizes, dy.type);
    recorder.record("copy_", {&whole, &base}, {&whole});
    const Tensor slice = whole.as(dy.sizes);
    const Tensor copy = recorder.call("clone", {&slice}, dy.sizes, dy.type);
    const Tensor product = recorder.call("mul", {&copy, &noise}, dy.sizes, dy.type);
    recorder.record("copy_", {&slice, &product}, {&slice});
    return {slice};
  });
  return output;
}

// On CUDA native_dropout keeps a byte per element; on CPUs the mask is a tensor like the input,
// divided in place by what stays.
Tensor dropout(Recorder& recorder, const Tensor& input) {
  const Shape shape = broadcast({&input});
  if (recorder.on_cpu()) {
    const Tensor mask = recorder.call("bernoulli_", {&input}, shape, input.type);
    divide_in_place(recorder, mask);
    Tensor output = recorder.call("mul", {&input, &mask}, shape, input.type);
    recorder.connect(output, {input}, [&recorder, mask](const Gradients& gradients) -> Gradients {
      return {recorder.call("mul", {&gradients[0], &mask}, mask, mask.type)};
    });
    return output;
  }
  Tensor output = recorder.take(shape, input.type);
  const Tensor mask = recorder.take(shape, Type::boolean);
  recorder.record("native_dropout", {&input}, {&output, &mask});
  recorder.connect(output, {input},
                   [&recorder, mask, type = input.type](const Gradients& gradients) -> Gradients {
                     return {recorder.call("native_dropout_backward", {&gradients[0], &mask},
                                           broadcast({&gradients[0], &mask}), type)};
                   });
  return output;
}

}  // namespace rehearse::tape
