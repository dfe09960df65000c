// Matrix products with a layer's weight, and embeddings.
#include <algorithm>

#include "model/tape/operators.hpp"

namespace rehearse::tape {

Sizes with_positions(const Sizes& sizes, std::int64_t channels, std::int64_t positions) {
  Sizes other = sizes;
  other[other.size() - 1] = 1;
  const std::int64_t before = other.elements();
  other[other.size() - 1] = channels;
  if (before == positions) return other;
  if (other.size() > 1) {
    std::int64_t& last = other[other.size() - 2];
    if (last * positions % before == 0) {
      last = last * positions / before;
      return other;
    }
  }
  return {positions, channels};
}

namespace {

std::int64_t positions_of(const Tensor& tensor) { return tensor.elements() / tensor.sizes.back(); }

Sizes with_channels(const Sizes& sizes, std::int64_t channels) {
  Sizes other = sizes;
  other[other.size() - 1] = channels;
  return other;
}

/// All positions in one dimension: a view, or a copy.
Tensor flat(Recorder& recorder, const Tensor& input) {
  return reshape(recorder, input, {positions_of(input), input.sizes.back()});
}

/// torch.t() outside the graph.
Tensor turned(const Tensor& matrix) {
  return matrix.detached().as(
      {{matrix.sizes[1], matrix.sizes[0]}, {matrix.strides[1], matrix.strides[0]}});
}

/// x and its weight, as they stand in memory.
struct Sides {
  Tensor x, w, bias = undefined();
  bool transposed = false;  ///< w is in by out

  Tensors inputs() const { return bias.defined ? Tensors{bias, x, w} : Tensors{x, w}; }
};

/// Gradients are as large as what they are of: litgpt's adapters of several sides in one product
/// have groups, so that their weight has a side's rank in columns, and their input that of all.
Tensor input_gradient(Recorder& recorder, const Tensor& dy, const Tensor& w, bool transposed,
                      const Sizes& of) {
  const Tensor back = transposed ? turned(w) : w;
  return recorder.call("mm", {&dy, &back}, of, dy.type);
}

Tensor weight_gradient(Recorder& recorder, const Tensor& dy, const Tensor& x, bool transposed,
                       const Sizes& of) {
  const Tensor left = turned(transposed ? x : dy);
  const Tensor& right = transposed ? dy : x;
  return recorder.call("mm", {&left, &right}, of, x.type, {.role = KernelRole::weight_gradient});
}

/// torch.addmm or torch.mm of two dimensions; with a bias dx is made first, else dW.
Tensor matrix_product(Recorder& recorder, const Sides& sides) {
  const bool needed = sides.x.needs_gradient(), trained = sides.w.needs_gradient();
  const Tensor x = trained ? sides.x.detached() : undefined();
  const Tensor w = needed ? sides.w.detached() : undefined();  // saved for dx alone
  const Tensor right = sides.transposed ? sides.w : turned(sides.w);
  const Sizes out = {sides.x.sizes[0], right.sizes[1]};
  const bool biased = sides.bias.defined;
  Tensor output = biased
                      ? recorder.call("addmm", {&sides.bias, &sides.x, &right}, out, sides.x.type)
                      : recorder.call("mm", {&sides.x, &right}, out, sides.x.type);
  recorder.connect(
      output, sides.inputs(),
      [&recorder, x, w, needed, trained, biased, transposed = sides.transposed,
       inputs = sides.x.sizes, weights = sides.w.sizes](const Gradients& gradients) -> Gradients {
        const Tensor& dy = gradients[0];
        Tensor dx = undefined(), dw = undefined();
        const auto make_dx = [&] {
          if (needed) dx = input_gradient(recorder, dy, w, transposed, inputs);
        };
        if (biased) make_dx();
        if (trained) dw = weight_gradient(recorder, dy, x, transposed, weights);
        if (!biased) make_dx();
        return biased ? Gradients{dy, dx, dw} : Gradients{dx, dw};
      });
  return output;
}

/// The bias's gradient: the engine sums it.
Gradients with_bias(const Tensor& dy, const Tensor& dx, const Tensor& dw, bool biased) {
  return biased ? Gradients{dy, dx, dw} : Gradients{dx, dw};
}

/// It says how many elements each sum has, where operands' shapes do not.
CallOptions summed(std::int64_t elements, KernelRole role = KernelRole::gradient) {
  return {.with = {{"inner", {static_cast<double>(elements)}}}, .role = role};
}

/// Megatron-LM's LinearWithGradAccumulationAndAsyncCommunication with sequence parallelism.
Tensor gathered_product(Recorder& recorder, const Sides& sides, const LinearOptions& options) {
  const Tensor x = sides.x.detached(), w = sides.w.detached();
  const Sizes all = with_positions(x.sizes, x.sizes.back(), options.gathered);
  const auto gather = [&recorder, all, type = x.type] { return recorder.workspace(all, type); };
  const Tensor whole = gather();
  Tensor output = recorder.call("mm", {&whole, &w}, with_channels(all, options.out), x.type);
  recorder.connect(output, sides.inputs(),
                   [&recorder, x, w, gather,
                    biased = sides.bias.defined](const Gradients& gradients) -> Gradients {
                     const Tensor& dy = gradients[0];
                     const Tensor inputs = recorder.travels(gather());
                     const Tensor whole_gradient =
                         recorder.travels(recorder.call("mm", {&dy, &w}, inputs.sizes, x.type));
                     const Tensor dx = recorder.take(x.sizes, x.type);
                     const Tensor dw =
                         recorder.call("mm", {&dy, &inputs}, w.sizes, w.type,
                                       summed(positions_of(dy), KernelRole::weight_gradient));
                     return with_bias(dy, dx, dw, biased);
                   });
  return output;
}

/// In place; the bias's gradient is a sum.
Tensor add_bias(Recorder& recorder, const Tensor& product, const Tensor& bias) {
  if (bias.type != product.type && recorder.on_cpu()) {
    const Tensor sum = recorder.workspace(product.sizes, bias.type);
    widened(recorder, product, bias.type);
  }
  Tensor output = product.detached();
  recorder.record("add_", {&output, &bias}, {&output});
  recorder.connect(output, {product, bias}, [](const Gradients& gradients) -> Gradients {
    return {gradients[0], gradients[0]};
  });
  return output;
}

/// A frozen 4-bit weight in the 16 bits of what it multiplies. bitsandbytes before 0.43, which
/// keeps inputs, makes fp16 of any, and that bf16.
Tensor dequantized(Recorder& recorder, const Sizes& sizes, bool before_43) {
  const Precision precision = recorder.precision();
  const bool is_fp16 = precision == Precision::fp16 || precision == Precision::fp16_pure ||
                       precision == Precision::fp16_pure_autocast;
  Tensor half = undefined();
  if (before_43 && !is_fp16) half = recorder.workspace(sizes, Type::float16);
  const Tensor whole = recorder.workspace(sizes, Type::float16);
  recorder.record("dequantize_4bit", {&half}, {&whole});
  return whole;
}

/// bitsandbytes' MatMul4Bit and MatMul8bitLt with a frozen weight: 16 bits are made of it for each
/// use, forward and backward. In 8 bits forward multiplies bytes into 32-bit integers instead.
Tensor quantized_product(Recorder& recorder, const Tensor& x, const LinearOptions& options,
                         const ParameterTrait& trait) {
  const bool before_43 = trait.keeps_input && trait.storage != StoredAs::int8;
  const Sizes out = with_channels(x.sizes, options.out);
  Tensor output;
  if (trait.storage == StoredAs::int8) {
    const Tensor bytes = recorder.workspace(x.sizes, Type::byte);
    const Tensor sums = recorder.workspace(out, Type::int32);
    output = recorder.call("int8_mm", {&bytes}, out, x.type);
  } else {
    const Tensor weight = dequantized(recorder, options.weight.sizes, before_43);
    output = recorder.call("mm", {&x, &weight}, out, x.type);
  }
  if (before_43) recorder.hold_input(x);
  recorder.connect(output, {x},
                   [&recorder, before_43, weights = options.weight.sizes, inputs = x.sizes,
                    type = x.type, kept = trait.keeps_input ? x.detached() : undefined()](
                       const Gradients& gradients) -> Gradients {
                     const Tensor weight = dequantized(recorder, weights, before_43);
                     return {recorder.call("mm", {&gradients[0], &weight}, inputs, type)};
                   });
  return output;
}

/// TransformerEngine's Linear in 8 or 4 bits: of the input one copy is saved, of the output's
/// gradient two are made, as rows and as columns.
Tensor narrow_product(Recorder& recorder, const Sides& sides, const LinearOptions& options) {
  const Tensor& x = sides.x;
  const bool needed = x.needs_gradient(), trained = sides.w.needs_gradient();
  const std::int64_t gathered = options.gathered * x.sizes.back();
  const Sizes out = with_positions(x.sizes, options.out,
                                   options.gathered > 0 ? options.gathered : positions_of(x));
  {
    const Tensor rows =
        recorder.workspace(recorder.narrow_bytes(std::max(gathered, x.elements())), Type::byte);
  }
  Tensor output = recorder.call("narrow_mm", {&x, &sides.w}, out, x.type, summed(x.sizes.back()));
  recorder.connect(
      output, sides.inputs(),
      [&recorder, needed, trained, gathered,
       kept = trained ? options.narrow->detached() : undefined(), inputs = x.sizes,
       all = with_positions(x.sizes, x.sizes.back(), options.gathered), type = x.type,
       biased = sides.bias.defined,
       weight = sides.w.sizes](const Gradients& gradients) -> Gradients {
        const Tensor& dy = gradients[0];
        const Tensor narrowed =
            recorder.workspace(2 * recorder.narrow_bytes(dy.elements()), Type::byte);
        const Tensor whole = trained && gathered > 0
                                 ? recorder.workspace(recorder.narrow_bytes(gathered), Type::byte)
                                 : undefined();
        const Tensor partial = needed && gathered > 0 ? recorder.take(all, type) : undefined();
        recorder.travels(whole);
        recorder.travels(partial);
        const Tensor dx =
            needed ? recorder.call("narrow_mm", {&narrowed}, inputs, type, summed(dy.sizes.back()))
                   : undefined();
        const Tensor dw = trained
                              ? recorder.call("narrow_mm", {&narrowed, &kept}, weight, type,
                                              summed(positions_of(dy), KernelRole::weight_gradient))
                              : undefined();
        return with_bias(dy, dx, dw, biased);
      });
  return output;
}

/// Under torch.compile, which makes x again from what it was made of.
Tensor recast_product(Recorder& recorder, const Sides& sides, const LinearOptions& options) {
  const Tensor& x = sides.x;
  const bool needed = x.needs_gradient(), trained = sides.w.needs_gradient();
  {
    const Tensor left = recorder.workspace(x.sizes, Type::byte);
    const Tensor right = recorder.workspace(sides.w.sizes, Type::byte);
    recorder.record("fused_cast", {&x, &sides.w}, {&left, &right});
  }
  Tensor output = recorder.call("_scaled_mm", {&x, &sides.w}, with_channels(x.sizes, options.out),
                                x.type, summed(x.sizes.back()));
  recorder.connect(
      output, sides.inputs(),
      [&recorder, needed, trained, type = x.type, inputs = x.sizes, weights = sides.w.sizes,
       w = needed ? sides.w.detached() : undefined(),
       biased = sides.bias.defined](const Gradients& gradients) -> Gradients {
        const Tensor& dy = gradients[0];
        const Tensor narrow = recorder.workspace(2 * dy.elements(), Type::byte);
        const Tensor other = recorder.workspace(trained ? inputs : weights, Type::byte);
        const Tensor dx = needed ? recorder.call("_scaled_mm", {&narrow, &w}, inputs, type,
                                                 summed(dy.sizes.back()))
                                 : undefined();
        const Tensor dw = trained
                              ? recorder.call("_scaled_mm", {&narrow, &other}, weights, type,
                                              summed(positions_of(dy), KernelRole::weight_gradient))
                              : undefined();
        return with_bias(dy, dx, dw, biased);
      });
  return output;
}

}  // namespace

// Python's nn.Linear, and on CPUs the C++ API's, as the calibrator's networks: where that has more
// than two dimensions it adds the bias in place, and its weight.t() is no leaf that autocast's
// cache takes.
namespace {

/// torch.matmul of more than two dimensions: the product of two, and a view.
Tensor folded_product(Recorder& recorder, const Sides& sides) {
  Sides two = sides;
  two.x = flat(recorder, sides.x);
  const Tensor product = matrix_product(recorder, two);
  return reshape(recorder, product, with_channels(sides.x.sizes, product.sizes.back()));
}

/// weight.T is no leaf, so that autocast's cache does not take what it makes of it.
Tensor turned_parameter(Recorder& recorder, const Parameter& which) {
  const Tensor right = transpose(recorder, parameter(recorder, which), 0, 1);
  return transpose(recorder, lower(recorder, right), 0, 1);
}

Tensor wide_product(Recorder& recorder, const Tensor& input, const LinearOptions& options) {
  const Tensor x = to(recorder, input, Type::float32);
  const Tensor weight = to(recorder, parameter(recorder, options.weight), Type::float32);
  return folded_product(recorder, {.x = x, .w = weight});
}

}  // namespace

Tensor linear(Recorder& recorder, const Tensor& input, const LinearOptions& options) {
  const ParameterTrait trait = recorder.trait(options.weight.unit, options.weight.index);
  if (trait.quantized()) {
    const Tensor all = options.gathered > 0 ? exchanged(recorder, input, options.gathered) : input;
    const Tensor x = trait.storage == StoredAs::int8 ? all : to(recorder, all, Type::float16);
    const Tensor output = to(recorder, quantized_product(recorder, x, options, trait), input.type);
    return options.scattered > 0 ? exchanged(recorder, output, options.scattered) : output;
  }
  const bool module = recorder.on_cpu() && !options.function;
  const bool fused =
      options.bias && (input.dimensions() == 2 || (!recorder.on_cpu() && input.contiguous()));
  if (options.wide && !recorder.autocast()) return wide_product(recorder, input, options);
  Sides sides{.x = {}, .w = {}, .transposed = options.transposed};
  if (options.bias) {
    sides.bias = fused || !recorder.on_cpu() ? product_parameter(recorder, *options.bias)
                                             : parameter(recorder, *options.bias);
  }
  sides.w = module           ? lower(recorder, parameter(recorder, options.weight))
            : options.turned ? turned_parameter(recorder, options.weight)
                             : product_parameter(recorder, options.weight);
  // Conv1D makes two dimensions before it calls addmm, which is what autocast sees.
  sides.x = lower(recorder, options.transposed ? flat(recorder, input) : input);
  if (options.gathered > 0 && !options.narrow) return gathered_product(recorder, sides, options);
  Tensor output;
  if (options.narrow) {
    output = narrow_product(recorder, sides, options);
  } else if (options.float8) {
    output = recast_product(recorder, sides, options);
  } else if (fused) {
    output = folded_product(recorder, sides);
  } else {
    const Tensor bias = std::exchange(sides.bias, undefined());
    output = folded_product(recorder, sides);
    if (bias.defined) output = add_bias(recorder, output, bias);
  }
  if (options.transposed)
    output = reshape(recorder, output, with_channels(input.sizes, output.sizes.back()));
  return options.scattered > 0 ? exchanged(recorder, output, options.scattered) : output;
}

Tensor linear(Recorder& recorder, const Tensor& input, const Tensor& weight) {
  return folded_product(recorder, {.x = lower(recorder, input), .w = lower(recorder, weight)});
}

Tensor exchanged(Recorder& recorder, const Tensor& input, const Sizes& sizes) {
  Tensor output = recorder.take(sizes, input.type);
  const bool gathers = sizes.elements() > input.elements();
  if (recorder.keeps_exchanges() && !gathers) recorder.keep(output);
  recorder.connect(output, {input},
                   [&recorder, whole = input.sizes, type = input.type](
                       const Gradients&) -> Gradients { return {recorder.take(whole, type)}; });
  return output;
}

namespace {

/// zeros.index_copy(): its derivative (derivatives.yaml: grad.index_select().expand_as(source))
/// saves what it copies.
Tensor copied_into_zeros(Recorder& recorder, const Tensor& source, std::int64_t channels) {
  Tensor output =
      recorder.call("index_copy", {&source}, with_channels(source.sizes, channels), source.type);
  recorder.connect(
      output, {source},
      [&recorder, source = source.detached()](const Gradients& gradients) -> Gradients {
        return {recorder.call("index_select", {&gradients[0]}, source.sizes, source.type)};
      });
  return output;
}

}  // namespace

// PEFT 0.15's lora.Linear; beside quantized weights lora.bnb.Linear4bit and Linear8bitLt, which
// copy what the base has made and leave conversions to autocast.
Tensor adapted(Recorder& recorder, Tensor result, const Tensor& input,
               const AdapterOptions& options) {
  const Type type = result.type;
  if (options.quantized) result = clone(recorder, result);
  const Tensor wide = parameter(recorder, options.down.weight);
  const bool converts = !options.quantized || !recorder.autocast();
  Tensor update;
  {
    Tensor x = converts ? to(recorder, input, wide.type) : input;
    if (options.dropout) x = dropout(recorder, x);
    const Tensor narrow = linear(recorder, x, options.down);
    x = undefined();
    Tensor wide_update = linear(recorder, narrow, options.up);
    if (options.padded > 0) wide_update = copied_into_zeros(recorder, wide_update, options.padded);
    update = scale(recorder, wide_update);
  }
  if (options.quantized) update = to(recorder, update, result.type);
  return to(recorder, add(recorder, result, update), type);
}

Tensor embedding(Recorder& recorder, const Tensor& rows, const Parameter& table) {
  const Tensor weight = parameter(recorder, table);
  Sizes sizes = rows.sizes;
  sizes.push_back(table.sizes[1]);
  Tensor output = recorder.call("embedding", {&weight, &rows}, sizes, weight.type);
  recorder.connect(output, {weight},
                   [&recorder, rows = rows.detached(), table = table.sizes,
                    type = weight.type](const Gradients& gradients) -> Gradients {
                     return {recorder.call("embedding_dense_backward", {&gradients[0], &rows},
                                           table, type, {.role = KernelRole::weight_gradient})};
                   });
  return output;
}

}  // namespace rehearse::tape
