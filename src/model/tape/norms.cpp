// Normalisations, pooling and the loss.
#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

Tensor shift_of(Recorder& recorder, const NormOptions& options) {
  return parameter(recorder, {options.scale.unit, options.scale.index + 1, options.channels});
}

/// mean and reciprocal deviation are as wide as the parameters where these are wider than x.
Type statistics_type(const Recorder& recorder, const Tensor& input) {
  return recorder.on_cpu() && input.type == recorder.parameter_type() ? input.type : Type::float32;
}

Tensor torch_layer_norm(Recorder& recorder, const Tensor& narrow, const NormOptions& options) {
  const Tensor input = widen_on_cuda(recorder, narrow);
  const Type type = statistics_type(recorder, input);
  Tensor contiguous;
  if (options.permuted) contiguous = recorder.workspace(input.elements, input.type);
  Tensor output = recorder.take(input.elements, input.type);
  const Tensor mean = recorder.take(options.positions, type);
  const Tensor deviation = recorder.take(options.positions, type);
  const bool trained = parameter(recorder, options.scale).needs_gradient();
  const auto backward = [&recorder, x = input.detached(), mean, deviation, options,
                         trained](const Gradients& gradients) -> Gradients {
    const Type weights = recorder.parameter_type();
    Tensor copied;
    if (options.permuted) copied = recorder.workspace(x.elements, x.type);
    Gradients results = {recorder.take(x.elements, x.type)};
    results[0].contiguous = !options.permuted;
    results.push_back(trained ? recorder.take(options.channels, weights) : undefined());
    if (options.shift)
      results.push_back(trained ? recorder.take(options.channels, weights) : undefined());
    Tensor gradient;
    if (!gradients[0].contiguous) gradient = recorder.workspace(x.elements, x.type);
    recorder.workspace(2 * options.channels, x.type);  // sums of one thread
    return results;
  };
  Tensors inputs = {input, parameter(recorder, options.scale)};
  if (options.shift) inputs.push_back(shift_of(recorder, options));
  recorder.connect(output, inputs, backward);
  return output;
}

/// x^2; its derivative is made of x^1, doubled, times dy.
Tensor square(Recorder& recorder, const Tensor& input) {
  Tensor output = recorder.take(input.elements, input.type);
  recorder.connect(output, {input},
                   [&recorder, x = input.detached()](const Gradients&) -> Gradients {
                     const Tensor power = recorder.workspace(x.elements, x.type);
                     const Tensor doubled = with_number(recorder, x.elements, x.type);
                     return {recorder.take(x.elements, x.type)};
                   });
  return output;
}

/// -1/2 dy y^3.
Tensor reciprocal_root(Recorder& recorder, const Tensor& input) {
  Tensor output = recorder.take(input.elements, input.type);
  recorder.connect(output, {input}, [&recorder, y = output](const Gradients&) -> Gradients {
    const Tensor half = recorder.workspace(y.elements, y.type);
    const Tensor cube = recorder.workspace(y.elements, y.type);
    return {recorder.take(y.elements, y.type)};
  });
  return output;
}

Tensor reciprocal_deviation(Recorder& recorder, const Tensor& input, std::int64_t positions) {
  const Tensor squares = square(recorder, input);
  const Tensor means = mean(recorder, squares, positions);
  const Tensor shifted = add_number(recorder, means);
  return reciprocal_root(recorder, shifted);
}

/// Without scale and shift, in fp32 (OLMo).
Tensor plain_layer_norm(Recorder& recorder, const Tensor& narrow, const NormOptions& options) {
  const Tensor input = to(recorder, narrow, Type::float32);
  Tensor output = recorder.take(input.elements, Type::float32);
  const Tensor mean = recorder.take(options.positions, Type::float32);
  const Tensor deviation = recorder.take(options.positions, Type::float32);
  recorder.connect(
      output, {input},
      [&recorder, x = input.detached(), mean, deviation](const Gradients&) -> Gradients {
        return {recorder.take(x.elements, x.type)};
      });
  return to(recorder, output, narrow.type);
}

/// A scale and no shift, operator by operator in fp32 (Cohere). Its mean is subtracted twice.
Tensor written_layer_norm(Recorder& recorder, const Tensor& input, const NormOptions& options) {
  if (recorder.compiled()) return fused_norm(recorder, input, options);
  const Tensor wide = to(recorder, input, Type::float32);
  const Tensor means = mean(recorder, wide, options.positions);
  const Tensor squared = subtract(recorder, wide, means);
  const Tensor factor = reciprocal_deviation(recorder, squared, options.positions);
  const Tensor centred = subtract(recorder, wide, means);
  const Tensor product = multiply(recorder, centred, factor);
  const Tensor scale = to(recorder, parameter(recorder, options.scale), Type::float32);
  return to(recorder, multiply(recorder, scale, product), input.type);
}

}  // namespace

Tensor layer_norm(Recorder& recorder, const Tensor& input, const NormOptions& options) {
  switch (options.form) {
    case NormForm::plain:
      return plain_layer_norm(recorder, input, options);
    case NormForm::written_out:
      return written_layer_norm(recorder, input, options);
    default:
      return torch_layer_norm(recorder, input, options);
  }
}

// Llama's reference code, operator by operator.
Tensor rms_norm(Recorder& recorder, const Tensor& input, const NormOptions& options) {
  if (recorder.compiled()) return fused_norm(recorder, input, options);
  const Tensor wide = to(recorder, input, Type::float32);
  const Tensor factor = reciprocal_deviation(recorder, wide, options.positions);
  const bool scales_input = options.form == NormForm::of_input;
  const Tensor product = multiply(recorder, scales_input ? input : wide, factor);
  if (options.form == NormForm::plain) return to(recorder, product, input.type);
  const Tensor scale = parameter(recorder, options.scale);
  if (options.form == NormForm::wide)
    return to(recorder, multiply(recorder, product, scale), input.type);
  const Tensor narrow = to(recorder, product, input.type);
  return multiply(recorder, narrow, scale);
}

Tensor batch_norm(Recorder& recorder, const Tensor& input, const NormOptions& options) {
  Tensor output = recorder.take(input.elements, input.type);
  const Type type = statistics_type(recorder, input);
  const Tensor mean = recorder.take(options.channels, type);
  const Tensor deviation = recorder.take(options.channels, type);
  {
    const Tensor first = recorder.workspace(options.channels, type);
    const Tensor second = recorder.workspace(options.channels, type);
  }
  const auto backward = [&recorder, x = input.detached(), mean, deviation,
                         options](const Gradients&) -> Gradients {
    const Type weights = recorder.parameter_type();
    Gradients results = {recorder.take(x.elements, x.type)};
    results.push_back(recorder.take(options.channels, weights));
    results.push_back(recorder.take(options.channels, weights));
    if (recorder.on_cpu()) recorder.workspace(x.elements, x.type);
    return results;
  };
  recorder.connect(output, {input, parameter(recorder, options.scale), shift_of(recorder, options)},
                   backward);
  return output;
}

Tensor pool(Recorder& recorder, const Tensor& input, std::int64_t out, bool indices) {
  Tensor output = recorder.take(out, input.type);
  const Tensor largest = indices ? recorder.take(out, Type::int64) : undefined();
  recorder.connect(output, {input},
                   [&recorder, x = input.detached(), largest](const Gradients&) -> Gradients {
                     return {recorder.take(x.elements, x.type)};
                   });
  return output;
}

Tensor mean(Recorder& recorder, const Tensor& input, std::int64_t out) {
  Tensor output = recorder.take(out, input.type);
  divide_in_place(recorder, output);
  recorder.connect(
      output, {input},
      [&recorder, elements = input.elements, type = input.type](const Gradients&) -> Gradients {
        Tensor expanded = with_number(recorder, elements, type);
        expanded.contiguous = false;  // what was expanded is innermost
        return {expanded};
      });
  return output;
}

// The logits and each row's sum of exponentials are saved; all else is made in registers. Logits
// that the same graph has made are a buffer that Inductor writes the gradient over
// (torch/_functorch/config.py: donated_buffer).
Tensor compiled_cross_entropy(Recorder& recorder, const Tensor& logits) {
  Tensor loss = recorder.take(1, Type::float32);
  recorder.connect(loss, {logits},
                   [&recorder, donated = recorder.compiled(),
                    saved = logits.detached()](const Gradients&) -> Gradients {
                     return {donated ? saved : recorder.take(saved.elements, saved.type)};
                   });
  return loss;
}

// Each row's sum of exponentials is kept beside the logits, whose memory the gradient gets.
Tensor fused_cross_entropy(Recorder& recorder, const Tensor& logits, std::int64_t positions) {
  const Tensor sums = recorder.take(positions, Type::float32);
  Tensor loss = recorder.take(positions, Type::float32);
  recorder.connect(
      loss, {logits},
      [saved = logits.detached(), sums](const Gradients&) -> Gradients { return {saved}; });
  return loss;
}

// Logits of 32 bits are overwritten; of 16 an fp32 copy is.
Tensor vocab_parallel_cross_entropy(Recorder& recorder, const Tensor& logits,
                                    std::int64_t positions) {
  const Tensor softmax = logits.type == Type::float32
                             ? logits.detached()
                             : recorder.take(logits.elements, Type::float32);
  const Tensor largest = recorder.workspace(positions, Type::float32);
  Tensor loss = recorder.take(positions, Type::float32);
  recorder.connect(loss, {logits}, [softmax](const Gradients&) -> Gradients { return {softmax}; });
  return loss;
}

// log_softmax, and nll_loss with its total weight.
Tensor cross_entropy(Recorder& recorder, const Tensor& narrow) {
  if (recorder.compiled()) return compiled_cross_entropy(recorder, narrow);
  const Tensor logits = recorder.autocast() ? to(recorder, narrow, Type::float32) : narrow;
  const Tensor logarithms = unary_of_output(recorder, logits);
  Tensor loss = recorder.take(1, logits.type);
  const Tensor weight = recorder.take(1, logits.type);
  recorder.connect(
      loss, {logarithms},
      [&recorder, saved = logarithms.detached(), weight](const Gradients&) -> Gradients {
        return {recorder.take(saved.elements, saved.type)};
      });
  return loss;
}

Tensor cross_entropy_fp32(Recorder& recorder, Tensor logits, std::int64_t last) {
  if (recorder.compiled()) return compiled_cross_entropy(recorder, logits);
  return cross_entropy(recorder, shifted_fp32(recorder, std::move(logits), last));
}

// Of one sample the slice has no gaps, and contiguous() copies nothing.
Tensor shifted_fp32(Recorder& recorder, Tensor logits, std::int64_t last) {
  Tensor wide = to(recorder, logits, Type::float32);
  logits = undefined();
  if (last == 0) return wide;
  Tensor kept = slice(recorder, wide, wide.elements - last);
  return recorder.batch() == 1 ? kept : copy(recorder, kept);
}

}  // namespace rehearse::tape
