// Normalisations, pooling and the loss.
#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

Sizes of_channels(const NormOptions& options) { return options.scale.sizes; }

Tensor shift_of(Recorder& recorder, const NormOptions& options) {
  return parameter(recorder, {options.scale.unit, options.scale.index + 1, of_channels(options)});
}

/// mean and reciprocal deviation are as wide as the parameters where these are wider than x.
Type statistics_type(const Recorder& recorder, const Tensor& input) {
  return recorder.on_cpu() && input.type == recorder.parameter_type() ? input.type : Type::float32;
}

Sizes of_rows(const Tensor& input) {
  Sizes sizes = input.sizes;
  sizes[sizes.size() - 1] = 1;
  return sizes;
}

Tensor torch_layer_norm(Recorder& recorder, const Tensor& narrow, const NormOptions& options) {
  const Tensor input = widen_on_cuda(recorder, narrow);
  const Type type = statistics_type(recorder, input);
  const bool permuted = !input.contiguous();
  Tensor contiguous;
  if (permuted) contiguous = recorder.workspace(input.sizes, input.type);
  Tensor output = recorder.take(input.sizes, input.type);
  const Tensor mean = recorder.take(of_rows(input), type);
  const Tensor deviation = recorder.take(of_rows(input), type);
  Tensor weight = parameter(recorder, options.scale);
  if (options.form == NormForm::offset) weight = add_number(recorder, weight);
  const Tensor bias = options.shift ? shift_of(recorder, options) : undefined();
  recorder.record("native_layer_norm", {&input, &weight, &bias}, {&output, &mean, &deviation});
  const auto backward = [&recorder, x = input.detached(), mean, deviation, options,
                         w = weight.detached(), b = bias.detached(), permuted,
                         trained =
                             weight.needs_gradient()](const Gradients& gradients) -> Gradients {
    const Type weights = recorder.parameter_type();
    Tensor copied;
    if (permuted) copied = recorder.workspace(x.sizes, x.type);
    Gradients results = {recorder.take(permuted ? Shape(x) : Shape(x.sizes), x.type)};
    results.push_back(trained ? recorder.take(w.sizes, weights) : undefined());
    if (options.shift) results.push_back(trained ? recorder.take(w.sizes, weights) : undefined());
    const Tensor none = undefined();
    recorder.record("native_layer_norm_backward", {&gradients[0], &x, &mean, &deviation, &w, &b},
                    {&results[0], &results[1], options.shift ? &results[2] : &none});
    Tensor gradient;
    if (!gradients[0].contiguous()) gradient = recorder.workspace(x.sizes, x.type);
    recorder.workspace(2 * w.elements(), x.type);  // sums of one thread
    return results;
  };
  Tensors inputs = {input, weight};
  if (options.shift) inputs.push_back(bias);
  recorder.connect(output, inputs, backward);
  return output;
}

/// -1/2 dy y^3.
Tensor reciprocal_root(Recorder& recorder, const Tensor& input) {
  Tensor output = pointwise(recorder, "rsqrt", input);
  recorder.connect(output, {input},
                   [&recorder, y = output](const Gradients& gradients) -> Gradients {
                     const Tensor cube = pointwise(recorder, "pow", y);
                     const Tensor half = pointwise(recorder, "mul", gradients[0]);
                     return {pointwise(recorder, "mul", half, cube)};
                   });
  return output;
}

Tensor reciprocal_deviation(Recorder& recorder, const Tensor& input) {
  const Tensor squares = power(recorder, input);
  const Tensor means = mean(recorder, squares, {input.dimensions() - 1});
  const Tensor shifted = add_number(recorder, means);
  return reciprocal_root(recorder, shifted);
}

/// Without scale and shift, in fp32 (OLMo).
Tensor plain_layer_norm(Recorder& recorder, const Tensor& narrow) {
  const Tensor input = to(recorder, narrow, Type::float32);
  Tensor output = recorder.take(input.sizes, Type::float32);
  const Tensor mean = recorder.take(of_rows(input), Type::float32);
  const Tensor deviation = recorder.take(of_rows(input), Type::float32);
  recorder.record("native_layer_norm", {&input}, {&output, &mean, &deviation});
  recorder.connect(
      output, {input},
      [&recorder, x = input.detached(), mean, deviation](const Gradients& gradients) -> Gradients {
        return {recorder.call("native_layer_norm_backward", {&gradients[0], &x, &mean, &deviation},
                              x.sizes, x.type)};
      });
  return to(recorder, output, narrow.type);
}

/// What torch.compile makes of any of them.
Tensor fused_norm(Recorder& recorder, const Tensor& input, const NormOptions& options) {
  Tensor output = recorder.take(input.sizes, input.type);
  const Tensor deviation = recorder.take(of_rows(input), Type::float32);
  Tensors inputs = {input};
  if (options.form != NormForm::plain) inputs.push_back(parameter(recorder, options.scale));
  const bool trained = inputs.back().needs_gradient();
  recorder.record("fused_norm", {&input}, {&output, &deviation});
  recorder.connect(
      output, inputs,
      [&recorder, x = input.detached(), deviation, trained, scaled = inputs.size() > 1,
       channels = options.scale.sizes](const Gradients& gradients) -> Gradients {
        Gradients results = {recorder.take(x.sizes, x.type)};
        if (scaled)
          results.push_back(trained ? recorder.take(channels, recorder.parameter_type())
                                    : undefined());
        recorder.record("fused_norm_backward", {&gradients[0], &x, &deviation}, {&results[0]});
        return results;
      });
  return output;
}

/// A scale and no shift, operator by operator in fp32 (Cohere). Its mean is subtracted twice.
Tensor written_layer_norm(Recorder& recorder, const Tensor& input, const NormOptions& options) {
  if (recorder.compiled()) return fused_norm(recorder, input, options);
  const Tensor wide = to(recorder, input, Type::float32);
  const Tensor means = mean(recorder, wide, {wide.dimensions() - 1});
  const Tensor squared = subtract(recorder, wide, means);
  const Tensor factor = reciprocal_deviation(recorder, squared);
  const Tensor centred = subtract(recorder, wide, means);
  const Tensor product = multiply(recorder, centred, factor);
  const Tensor scale = to(recorder, parameter(recorder, options.scale), Type::float32);
  return to(recorder, multiply(recorder, scale, product), input.type);
}

}  // namespace

Tensor power(Recorder& recorder, const Tensor& input) {
  Tensor output = pointwise(recorder, "pow", input);
  recorder.connect(output, {input},
                   [&recorder, x = input.detached()](const Gradients& gradients) -> Gradients {
                     const Tensor root = pointwise(recorder, "pow", x);
                     const Tensor multiple = with_number(recorder, "mul", root);
                     return {pointwise(recorder, "mul", gradients[0], multiple)};
                   });
  return output;
}

Tensor layer_norm(Recorder& recorder, const Tensor& input, const NormOptions& options) {
  switch (options.form) {
    case NormForm::plain:
      return plain_layer_norm(recorder, input);
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
  const Tensor factor = reciprocal_deviation(recorder, wide);
  const bool scales_input = options.form == NormForm::of_input;
  const Tensor product = multiply(recorder, scales_input ? input : wide, factor);
  if (options.form == NormForm::plain) return to(recorder, product, input.type);
  const Tensor scale = parameter(recorder, options.scale);
  if (options.form == NormForm::offset) {
    const Tensor offset = add_number(recorder, to(recorder, scale, Type::float32));
    return to(recorder, multiply(recorder, product, offset), input.type);
  }
  if (options.form == NormForm::wide)
    return to(recorder, multiply(recorder, scale, product), input.type);
  const Tensor narrow = to(recorder, product, input.type);
  return multiply(recorder, scale, narrow);
}

Tensor batch_norm(Recorder& recorder, const Tensor& input, const NormOptions& options) {
  Tensor output = recorder.take(broadcast({&input}), input.type);
  const Type type = statistics_type(recorder, input);
  const Sizes channels = of_channels(options);
  const Tensor mean = recorder.take(channels, type);
  const Tensor deviation = recorder.take(channels, type);
  {
    const Tensor first = recorder.workspace(channels, type);
    const Tensor second = recorder.workspace(channels, type);
  }
  const Tensor weight = parameter(recorder, options.scale), bias = shift_of(recorder, options);
  const Tensor running = weight.detached();  // mean, and likewise variance: buffers
  recorder.record("native_batch_norm", {&input, &weight, &bias, &running, &running},
                  {&output, &mean, &deviation});
  const auto backward = [&recorder, x = input.detached(), mean, deviation,
                         w = weight.detached()](const Gradients& gradients) -> Gradients {
    const Type weights = recorder.parameter_type();
    Gradients results = {recorder.take(broadcast({&x}), x.type)};
    results.push_back(recorder.take(w.sizes, weights));
    results.push_back(recorder.take(w.sizes, weights));
    recorder.record("native_batch_norm_backward",
                    {&gradients[0], &x, &w, &w, &w, &mean, &deviation},
                    {&results[0], &results[1], &results[2]});
    if (recorder.on_cpu()) recorder.workspace(x.sizes, x.type);
    return results;
  };
  recorder.connect(output, {input, weight, bias}, backward);
  return output;
}

Tensor pool(Recorder& recorder, const Tensor& input, const Sizes& out, const Pooling& options,
            const Unary& op) {
  const bool max = op.forward.starts_with("max");
  const bool last = input.channels_last() && !input.contiguous();
  const Shape shape = last ? channels_last(out) : Shape(out);
  Tensor output = recorder.take(shape, input.type);
  const Tensor largest = max ? recorder.take(shape, Type::int64) : undefined();
  const auto window = static_cast<double>(options.kernel),
             stride = static_cast<double>(options.stride);
  const std::vector<std::pair<std::string_view, std::vector<double>>> with = {
      {"kernel_size", {window, window}}, {"stride", {stride, stride}}};
  recorder.record(op.forward, {&input}, {&output, &largest}, {.with = with});
  recorder.connect(output, {input},
                   [&recorder, x = input.detached(), largest, op,
                    with](const Gradients& gradients) -> Gradients {
                     return {recorder.call(op.backward, {&gradients[0], &x, &largest},
                                           broadcast({&x}), x.type, {.with = with})};
                   });
  return output;
}

Tensor mean(Recorder& recorder, const Tensor& input, const std::vector<std::size_t>& dimensions) {
  Sizes sizes = input.sizes;
  for (const std::size_t dimension : dimensions) sizes[dimension] = 1;
  Tensor output = recorder.call("mean", {&input}, sizes, input.type);
  if (recorder.on_cpu()) divide_in_place(recorder, output);
  recorder.connect(output, {input},
                   [&recorder, sizes = input.sizes](const Gradients& gradients) -> Gradients {
                     const Tensor whole = expand(recorder, gradients[0].detached(), sizes);
                     return {with_number(recorder, "div", whole)};
                   });
  return output;
}

// The logits and each row's sum of exponentials are saved; all else is made in registers. Logits
// that the same graph has made are a buffer that Inductor writes the gradient over
// (torch/_functorch/config.py: donated_buffer).
Tensor compiled_cross_entropy(Recorder& recorder, const Tensor& logits) {
  Tensor loss = recorder.call("fused_cross_entropy", {&logits}, Sizes(), Type::float32);
  recorder.connect(loss, {logits},
                   [&recorder, donated = recorder.compiled(),
                    saved = logits.detached()](const Gradients&) -> Gradients {
                     const Tensor dx = donated ? saved : recorder.take(saved.sizes, saved.type);
                     recorder.record("fused_cross_entropy_backward", {&saved}, {&dx});
                     return {dx};
                   });
  return loss;
}

// Each row's sum of exponentials is kept beside the logits, whose memory the gradient gets.
Tensor fused_cross_entropy(Recorder& recorder, const Tensor& logits) {
  const Sizes rows = logits.elements() / logits.sizes.back();
  const Tensor sums = recorder.take(rows, Type::float32);
  Tensor loss = recorder.take(rows, Type::float32);
  recorder.record("library_cross_entropy", {&logits}, {&loss, &sums});
  recorder.connect(loss, {logits},
                   [&recorder, saved = logits.detached(), sums](const Gradients&) -> Gradients {
                     recorder.record("library_cross_entropy_backward", {&saved, &sums}, {&saved});
                     return {saved};
                   });
  return loss;
}

// Logits of 32 bits are overwritten; of 16 an fp32 copy is.
Tensor vocab_parallel_cross_entropy(Recorder& recorder, const Tensor& logits) {
  const Sizes rows = logits.elements() / logits.sizes.back();
  const Tensor softmax = logits.type == Type::float32
                             ? logits.detached()
                             : recorder.call("_to_copy", {&logits}, logits.sizes, Type::float32);
  const Tensor largest = recorder.workspace(rows, Type::float32);
  Tensor loss = recorder.take(rows, Type::float32);
  recorder.record("vocab_parallel_cross_entropy", {&softmax}, {&softmax, &loss});
  recorder.connect(loss, {logits}, [&recorder, softmax](const Gradients&) -> Gradients {
    recorder.record("vocab_parallel_cross_entropy_backward", {&softmax}, {&softmax});
    return {softmax};
  });
  return loss;
}

// log_softmax, and nll_loss with its total weight.
Tensor cross_entropy(Recorder& recorder, const Tensor& narrow) {
  if (recorder.compiled()) return compiled_cross_entropy(recorder, narrow);
  const Sizes rows = narrow.elements() / narrow.sizes.back();
  const Tensor flat = reshape(recorder, narrow, {rows[0], narrow.sizes.back()});
  const Tensor logits = recorder.autocast() ? to(recorder, flat, Type::float32) : flat;
  const Tensor logarithms =
      unary_of_output(recorder, logits, {"_log_softmax", "_log_softmax_backward_data"});
  Tensor loss = recorder.take(Sizes(), logits.type);
  const Tensor weight = recorder.take(Sizes(), logits.type);
  Tensor targets;
  static_cast<Shape&>(targets) = rows;
  targets.type = Type::int64;
  recorder.record("nll_loss_forward", {&logarithms, &targets}, {&loss, &weight});
  recorder.connect(
      loss, {logarithms},
      [&recorder, saved = logarithms.detached(), weight,
       targets](const Gradients& gradients) -> Gradients {
        return {recorder.call("nll_loss_backward", {&gradients[0], &saved, &targets, &weight},
                              saved.sizes, saved.type)};
      });
  return loss;
}

Tensor cross_entropy_fp32(Recorder& recorder, Tensor logits, bool shifts) {
  if (recorder.compiled()) return compiled_cross_entropy(recorder, logits);
  return cross_entropy(recorder, shifted_fp32(recorder, std::move(logits), shifts));
}

// Of one sample the slice has no gaps, and contiguous() copies nothing.
Tensor shifted_fp32(Recorder& recorder, Tensor logits, bool shifts) {
  Tensor wide = to(recorder, logits, Type::float32);
  logits = undefined();
  if (!shifts) return wide;
  const Tensor kept = slice(recorder, wide, 1, wide.sizes[1] - 1);
  return contiguous(recorder, kept);
}

}  // namespace rehearse::tape
