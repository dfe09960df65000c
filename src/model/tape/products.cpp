// Matrix products with a layer's weight, and embeddings.
#include <algorithm>

#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

/// A view whose gradient is copied if it is permuted.
Tensor ordered_view(Recorder& recorder, const Tensor& input) {
  Tensor output = input.detached();
  recorder.connect(output, {input}, [&recorder](const Gradients& gradients) -> Gradients {
    if (gradients[0].contiguous) return {gradients[0]};
    return {recorder.take(gradients[0].elements, gradients[0].type)};
  });
  return output;
}

/// torch.addmm: dx, dW and the bias's sum.
Tensor matrix_product(Recorder& recorder, const Tensors& sides, std::int64_t out) {
  const bool needed = sides[0].needs_gradient(), trained = sides[1].needs_gradient();
  const Tensor x = trained ? sides[0].detached() : undefined();
  const Tensor w = needed ? sides[1].detached() : undefined();  // saved for dx alone
  const Type type = sides[0].type;
  Tensor output = recorder.take(out, type);
  recorder.connect(output, sides,
                   [&recorder, x, w, needed, trained, type, inputs = sides[0].elements,
                    elements = sides[1].elements](const Gradients& gradients) -> Gradients {
                     Gradients results = {undefined(), undefined(), gradients[0]};
                     results[2].broadcast = true;
                     if (needed) results[0] = recorder.take(inputs, type);
                     if (trained) results[1] = recorder.take(elements, type);
                     return results;
                   });
  return output;
}

/// Megatron-LM's LinearWithGradAccumulationAndAsyncCommunication with sequence parallelism.
Tensor gathered_product(Recorder& recorder, const Tensors& sides, const LinearOptions& options) {
  const Tensor x = sides[0].detached(), w = sides[1].detached();
  const auto gather = [&recorder, elements = options.gathered, type = x.type] {
    return recorder.workspace(elements, type);
  };
  const Tensor whole = gather();
  Tensor output = recorder.take(options.out, x.type);
  const bool biased = sides.size() > 2;
  recorder.connect(output, sides,
                   [&recorder, x, w, gather, biased](const Gradients& gradients) -> Gradients {
                     const Tensor inputs = gather();
                     const Tensor whole_gradient = recorder.take(inputs.elements, x.type);
                     Gradients results = {recorder.take(x.elements, x.type)};
                     results.push_back(recorder.take(w.elements, w.type));
                     if (!biased) return results;
                     results.push_back(gradients[0]);
                     results[2].broadcast = true;
                     return results;
                   });
  return output;
}

/// torch.matmul of more than two dimensions: the product of two, and a view.
Tensor viewed_product(Recorder& recorder, const Tensor& given, const Tensor& weight,
                      std::int64_t out) {
  const Tensor x = given.contiguous ? given : copy(recorder, given);
  Tensor product = recorder.take(out, x.type);
  const bool needed = x.needs_gradient(), trained = weight.needs_gradient();
  recorder.connect(product, {x, weight},
                   [&recorder, needed, trained, type = x.type, inputs = x.elements,
                    elements = weight.elements, x = trained ? x.detached() : undefined(),
                    w = needed ? weight.detached() : undefined()](const Gradients&) -> Gradients {
                     Gradients results = {undefined(), undefined()};
                     if (trained) results[1] = recorder.take(elements, type);
                     if (needed) results[0] = recorder.take(inputs, type);
                     return results;
                   });
  return ordered_view(recorder, product);
}

/// In place; the bias's gradient is a sum.
Tensor add_bias(Recorder& recorder, const Tensor& product, const Tensor& bias) {
  if (bias.type != product.type && recorder.on_cpu()) {
    const Tensor sum = recorder.workspace(product.elements, bias.type);
    widened(recorder, product, bias.type);
  }
  Tensor output = product.detached();
  recorder.connect(output, {product, bias}, [](const Gradients& gradients) -> Gradients {
    Gradients results = {gradients[0], gradients[0]};
    results[1].broadcast = true;
    return results;
  });
  return output;
}

/// A frozen 4-bit weight in the 16 bits of what it multiplies. bitsandbytes before 0.43, which
/// keeps inputs, makes fp16 of any, and that bf16.
Tensor dequantized(Recorder& recorder, std::int64_t elements, bool before_43) {
  const Precision precision = recorder.precision();
  const bool is_fp16 = precision == Precision::fp16 || precision == Precision::fp16_pure ||
                       precision == Precision::fp16_pure_autocast;
  Tensor half = undefined();
  if (before_43 && !is_fp16) half = recorder.workspace(elements, Type::float16);
  return recorder.workspace(elements, Type::float16);
}

/// bitsandbytes' MatMul4Bit and MatMul8bitLt with a frozen weight: 16 bits are made of it for each
/// use, forward and backward. In 8 bits forward multiplies bytes into 32-bit integers instead.
Tensor quantized_product(Recorder& recorder, const Tensor& x, const LinearOptions& options,
                         const ParameterTrait& trait) {
  const bool before_43 = trait.keeps_input && trait.storage != StoredAs::int8;
  Tensor output;
  if (trait.storage == StoredAs::int8) {
    const Tensor bytes = recorder.workspace(x.elements, Type::byte);
    const Tensor sums = recorder.workspace(options.out, Type::float32);
    output = recorder.take(options.out, x.type);
  } else {
    const Tensor weight = dequantized(recorder, options.weight.elements, before_43);
    output = recorder.take(options.out, x.type);
  }
  if (before_43) recorder.hold_input(x);
  recorder.connect(
      output, {x},
      [&recorder, before_43, elements = options.weight.elements, inputs = x.elements, type = x.type,
       kept = trait.keeps_input ? x.detached() : undefined()](const Gradients&) -> Gradients {
        const Tensor weight = dequantized(recorder, elements, before_43);
        return {recorder.take(inputs, type)};
      });
  return output;
}

/// TransformerEngine's Linear in 8 or 4 bits: of the input one copy is saved, of the output's
/// gradient two are made, as rows and as columns.
Tensor narrow_product(Recorder& recorder, const Tensors& sides, const LinearOptions& options) {
  const Tensor& x = sides[0];
  const bool needed = x.needs_gradient(), trained = sides[1].needs_gradient();
  const std::int64_t gathered = options.gathered;
  {
    const Tensor rows =
        recorder.workspace(recorder.narrow_bytes(std::max(gathered, x.elements)), Type::byte);
  }
  Tensor output = recorder.take(options.out, x.type);
  recorder.connect(
      output, sides,
      [&recorder, needed, trained, gathered,
       kept = trained ? options.narrow->detached() : undefined(), inputs = x.elements,
       out = options.out, type = x.type, biased = sides.size() > 2,
       weight = sides[1].elements](const Gradients& gradients) -> Gradients {
        const Tensor narrowed = recorder.workspace(2 * recorder.narrow_bytes(out), Type::byte);
        const Tensor whole = trained && gathered > 0
                                 ? recorder.workspace(recorder.narrow_bytes(gathered), Type::byte)
                                 : undefined();
        const Tensor partial = needed && gathered > 0 ? recorder.take(gathered, type) : undefined();
        Gradients results = {needed ? recorder.take(inputs, type) : undefined(),
                             trained ? recorder.take(weight, type) : undefined()};
        if (!biased) return results;
        results.push_back(gradients[0]);
        results[2].broadcast = true;
        return results;
      });
  return output;
}

/// Under torch.compile, which makes x again from what it was made of.
Tensor recast_product(Recorder& recorder, const Tensors& sides, std::int64_t out) {
  const bool needed = sides[0].needs_gradient(), trained = sides[1].needs_gradient();
  {
    const Tensor x = recorder.workspace(sides[0].elements, Type::byte);
    const Tensor w = recorder.workspace(sides[1].elements, Type::byte);
  }
  Tensor output = recorder.take(out, sides[0].type);
  recorder.connect(
      output, sides,
      [&recorder, needed, trained, out, type = sides[0].type, inputs = sides[0].elements,
       elements = sides[1].elements, w = needed ? sides[1].detached() : undefined(),
       biased = sides.size() > 2](const Gradients& gradients) -> Gradients {
        const Tensor narrow = recorder.workspace(2 * out, Type::byte);
        const Tensor other = recorder.workspace(trained ? inputs : elements, Type::byte);
        Gradients results = {needed ? recorder.take(inputs, type) : undefined(),
                             trained ? recorder.take(elements, type) : undefined()};
        if (!biased) return results;
        results.push_back(gradients[0]);
        results[2].broadcast = true;
        return results;
      });
  return output;
}

}  // namespace

// Python's nn.Linear, and on CPUs the C++ API's, as the calibrator's networks: where that has more
// than two dimensions it adds the bias in place, and its weight.t() is no leaf that autocast's
// cache takes.
namespace {

Tensor wide_product(Recorder& recorder, const Tensor& input, const LinearOptions& options) {
  const Tensor x = to(recorder, input, Type::float32);
  const Tensor weight = to(recorder, parameter(recorder, options.weight), Type::float32);
  return viewed_product(recorder, x, weight, options.out);
}

}  // namespace

Tensor linear(Recorder& recorder, const Tensor& input, const LinearOptions& options) {
  const ParameterTrait trait = recorder.trait(options.weight.unit, options.weight.index);
  if (trait.quantized()) {
    const Tensor x = trait.storage == StoredAs::int8 ? input : to(recorder, input, Type::float16);
    return to(recorder, quantized_product(recorder, x, options, trait), input.type);
  }
  const bool module = recorder.on_cpu() && !options.function;
  const bool fused = options.bias && (options.matrix || !recorder.on_cpu());
  if (options.wide && !recorder.autocast()) return wide_product(recorder, input, options);
  Tensor bias = undefined();
  if (options.bias) {
    bias = fused ? product_parameter(recorder, *options.bias) : parameter(recorder, *options.bias);
  }
  const Tensor weight = module ? lower(recorder, parameter(recorder, options.weight))
                               : product_parameter(recorder, options.weight);
  const Tensor x = lower(recorder, input);
  if (options.gathered > 0 && !options.narrow) {
    if (options.bias) return gathered_product(recorder, {x, weight, bias}, options);
    return gathered_product(recorder, {x, weight}, options);
  }
  Tensor output;
  if (options.narrow) {
    output = options.bias ? narrow_product(recorder, {x, weight, bias}, options)
                          : narrow_product(recorder, {x, weight}, options);
  } else if (options.float8) {
    output = options.bias ? recast_product(recorder, {x, weight, bias}, options.out)
                          : recast_product(recorder, {x, weight}, options.out);
  } else if (fused) {
    output = matrix_product(recorder, {x, weight, bias}, options.out);
  } else {
    output = viewed_product(recorder, x, weight, options.out);
    if (options.bias) output = add_bias(recorder, output, bias);
  }
  return options.scattered > 0 ? exchanged(recorder, output, options.scattered) : output;
}

Tensor exchanged(Recorder& recorder, const Tensor& input, std::int64_t elements) {
  Tensor output = recorder.take(elements, input.type);
  const bool gathers = elements > input.elements;
  if (recorder.keeps_exchanges() && !gathers) recorder.keep(output);
  recorder.connect(output, {input},
                   [&recorder, whole = input.elements, type = input.type](
                       const Gradients&) -> Gradients { return {recorder.take(whole, type)}; });
  return output;
}

namespace {

/// zeros.index_copy(): its derivative (derivatives.yaml: grad.index_select().expand_as(source))
/// saves what it copies.
Tensor copied_into_zeros(Recorder& recorder, const Tensor& source, std::int64_t elements) {
  Tensor output = recorder.take(elements, source.type);
  recorder.connect(output, {source},
                   [&recorder, source = source.detached()](const Gradients&) -> Gradients {
                     return {recorder.take(source.elements, source.type)};
                   });
  return output;
}

}  // namespace

// PEFT 0.15's lora.Linear; beside quantized weights lora.bnb.Linear4bit and Linear8bitLt, which
// copy what the base has made and leave conversions to autocast.
Tensor adapted(Recorder& recorder, Tensor result, const Tensor& input,
               const AdapterOptions& options) {
  const Type type = result.type;
  if (options.quantized) result = copy(recorder, result);
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

Tensor embedding(Recorder& recorder, const Tensor& rows, const Parameter& table,
                 std::int64_t elements) {
  const Tensor weight = parameter(recorder, table);
  Tensor output = recorder.take(elements, weight.type);
  recorder.connect(output, {weight},
                   [&recorder, rows = rows.detached(), table, type = weight.type](const Gradients&)
                       -> Gradients { return {recorder.take(table.elements, type)}; });
  return output;
}

}  // namespace rehearse::tape
