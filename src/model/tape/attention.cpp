// Attention: fused, or as products of its own.
#include <algorithm>
#include <utility>

#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

/// torch.bmm of two tensors that it saves both.
Tensor batched_product(Recorder& recorder, const Tensor& left, const Tensor& right) {
  const Sizes out = {left.sizes[0], left.sizes[1], right.sizes[2]};
  Tensor output = recorder.call("bmm", {&left, &right}, out, left.type);
  const auto swapped = [](const Tensor& t) {
    return t.detached().as(
        {{t.sizes[0], t.sizes[2], t.sizes[1]}, {t.strides[0], t.strides[2], t.strides[1]}});
  };
  recorder.connect(output, {left, right},
                   [&recorder, swapped, x = left.detached(),
                    y = right.detached()](const Gradients& gradients) -> Gradients {
                     const Tensor& dy = gradients[0];
                     const Tensor x_t = swapped(x), y_t = swapped(y);
                     const Tensor to_right = recorder.call("bmm", {&x_t, &dy}, y.sizes, y.type);
                     return {recorder.call("bmm", {&dy, &y_t}, x.sizes, x.type), to_right};
                   });
  return output;
}

/// torch.matmul of heads: samples and heads become one dimension, by a copy where no view does it.
Tensor product_of_heads(Recorder& recorder, const Tensor& given, const Tensor& other) {
  const Tensor left = lower(recorder, given), right = lower(recorder, other);
  const auto folded = [&recorder](const Tensor& t) {
    return reshape(recorder, t, {t.sizes[0] * t.sizes[1], t.sizes[2], t.sizes[3]});
  };
  const Tensor x = folded(left), y = folded(right);
  const Tensor product = batched_product(recorder, x, y);
  return reshape(recorder, product,
                 {left.sizes[0], left.sizes[1], product.sizes[1], product.sizes[2]});
}

/// (samples, tokens, heads * width), by a copy where no view has it.
Tensor joined_heads(Recorder& recorder, const Tensor& output) {
  const Tensor tokens = transpose(recorder, output, 1, 2);
  return reshape(recorder, tokens,
                 {tokens.sizes[0], tokens.sizes[1], tokens.sizes[2] * tokens.sizes[3]});
}

/// A mask of ones below the diagonal, as a sum's other side.
Tensor causal_mask(Recorder& recorder, std::int64_t tokens, Type type) {
  const Sizes pairs = {tokens, tokens};
  Tensor triangle;
  {
    const Tensor ones = recorder.workspace(pairs, Type::boolean);
    recorder.record("ones", {}, {&ones});
    triangle = recorder.workspace(pairs, Type::boolean);
    recorder.record("tril", {&ones}, {&triangle});
  }
  const Tensor zero = recorder.workspace(Sizes(), type);
  const Tensor infinity = recorder.workspace(Sizes(), type);
  recorder.record("scalar_tensor", {}, {&zero});
  recorder.record("scalar_tensor", {}, {&infinity});
  const Tensor mask = recorder.workspace(pairs, type);
  recorder.record("where", {&triangle, &zero, &infinity}, {&mask});
  return mask;
}

Tensor mask_of(Recorder& recorder, const AttentionSize& size, Type type) {
  return size.mask.defined ? size.mask : causal_mask(recorder, size.tokens, type);
}

/// The sum of scores and a mask: scores' gradient is the sum's.
Tensor masked(Recorder& recorder, const Tensor& scores, const Tensor& mask) {
  Tensor output = pointwise(recorder, "add", scores, mask);
  recorder.connect(output, {scores},
                   [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
  return output;
}

// A row without any key is zero, not NaN: _safe_softmax looks for such rows.
Tensor safe_softmax(Recorder& recorder, const Tensor& scores) {
  Tensor output = unary_of_output(recorder, scores, {"_safe_softmax", "_softmax_backward_data"});
  const Tensor infinite = recorder.workspace(scores.sizes, Type::boolean);
  const Tensor all = recorder.workspace(scores.elements() / scores.sizes.back(), Type::boolean);
  recorder.workspace(1, scores.type);
  return output;
}

/// tanh(scores / cap) * cap: what tanh gives is kept.
Tensor capped(Recorder& recorder, const Tensor& scores) {
  const Tensor divided = scale(recorder, scores, "div");
  const Tensor tanh = unary_of_output(recorder, divided, kTanh);
  return scale(recorder, tanh);
}

/// A trained bias of heads and pairs, or of what broadcasts to it, as T5's.
Tensor with_trained_bias(Recorder& recorder, const Tensor& scores, const Parameter& bias) {
  Tensor output = recorder.call("add", {&scores}, scores.sizes, scores.type);
  recorder.connect(output, {scores, parameter(recorder, bias)},
                   [&recorder, sizes = bias.sizes](const Gradients& gradients) -> Gradients {
                     const Tensor& dy = gradients[0];
                     return {dy, recorder.call("sum", {&dy}, sizes, dy.type)};
                   });
  return output;
}

/// Megatron-LM has tokens before samples, so that samples and heads are one dimension without a
/// copy.
Tensor side_by_side(Recorder& recorder, const Tensor& heads) {
  const Sizes three = {heads.sizes[0] * heads.sizes[1], heads.sizes[2], heads.sizes[3]};
  const Tensor low = lower(recorder, heads);
  Tensor output = low.detached().as(three);
  recorder.connect(output, {low}, [four = heads.sizes](const Gradients& gradients) -> Gradients {
    return {gradients[0].as(four)};
  });
  return output;
}

Tensor probabilities(Recorder& recorder, const Tensor& queries, const Tensor& keys,
                     const AttentionSize& size, Tensor& scaled_queries) {
  if (size.options.fused_softmax) {
    const Tensor q = side_by_side(recorder, queries), k = side_by_side(recorder, keys);
    const Tensor scores = batched_product(recorder, q, transpose(recorder, k, 1, 2));
    return unary_of_output(
        recorder,
        reshape(recorder, scores,
                {queries.sizes[0], queries.sizes[1], queries.sizes[2], keys.sizes[2]}),
        kSoftmax);
  }
  scaled_queries = scale(recorder, queries);
  Tensor mask;
  if (size.options.causal) mask = causal_mask(recorder, size.tokens, queries.type);
  Tensor scores =
      product_of_heads(recorder, scaled_queries, scale(recorder, transpose(recorder, keys, 2, 3)));
  if (size.options.softcap) scores = capped(recorder, scores);
  if (size.options.causal) recorder.record("add_", {&scores, &mask}, {&scores});
  if (!size.bias.sizes.empty()) scores = with_trained_bias(recorder, scores, size.bias);
  return safe_softmax(recorder, scores);
}

/// A copy of each key's head for every query's head that shares it: repeat_kv, or
/// torch.repeat_interleave, which copies one that all share, too.
Tensor repeated(Recorder& recorder, const Tensor& input, std::int64_t heads, bool copies = false) {
  const std::int64_t times = heads / input.sizes[1];
  if (times == 1) return input;
  const Sizes five = {input.sizes[0], input.sizes[1], times, input.sizes[2], input.sizes[3]};
  Tensor expanded = expand(recorder, unsqueeze(recorder, input, 2), five);
  if (copies) expanded = clone(recorder, expanded);
  return reshape(recorder, expanded, {input.sizes[0], heads, input.sizes[2], input.sizes[3]});
}

bool computes_in_fp16(Precision precision) {
  return precision == Precision::fp16_master || precision == Precision::fp16_pure;
}

/// softmax(scores, dtype=float32). One kernel reads fp16; of bf16 an fp32 copy is made before
/// (aten/src/ATen/native/SoftMax.cpp), as autocast makes it of both.
Tensor softmax_in_fp32(Recorder& recorder, const Tensor& scores) {
  if (!computes_in_fp16(recorder.precision()) && !recorder.on_cpu())
    return unary_of_output(recorder, to(recorder, scores, Type::float32), kSoftmax);
  Tensor output = recorder.call("_softmax", {&scores}, scores.sizes, Type::float32);
  recorder.connect(
      output, {scores},
      [&recorder, y = output, type = scores.type](const Gradients& gradients) -> Gradients {
        return {recorder.call("_softmax_backward_data", {&gradients[0], &y}, y.sizes, type)};
      });
  return output;
}

Tensor scaled_scores(Recorder& recorder, const Tensor& queries, const Tensor& keys) {
  return scale(recorder, product_of_heads(recorder, queries, transpose(recorder, keys, 2, 3)));
}

// eager_attention_forward of Hugging Face's decoders with RMS norms.
Tensor written_out(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  const Tensor keys = repeated(recorder, inputs[1], size.options.heads);
  const Tensor values = repeated(recorder, inputs[2], size.options.heads);
  Tensor kept;
  {
    Tensor scores = scaled_scores(recorder, inputs[0], keys);
    if (size.options.softcap) scores = capped(recorder, scores);
    if (size.options.causal) {
      const Tensor mask = mask_of(recorder, size, scores.type);
      scores = masked(recorder, scores, mask);
    }
    kept = to(recorder, softmax_in_fp32(recorder, scores), inputs[0].type);
  }
  if (size.options.dropout) kept = dropout(recorder, kept);
  return product_of_heads(recorder, kept, values);
}

/// Of each row one sink more.
Tensor with_sink_column(Recorder& recorder, const Tensor& scores, const Parameter& bias) {
  const Tensor sinks = parameter(recorder, bias);
  const Sizes column = {scores.sizes[0], scores.sizes[1], scores.sizes[2], 1};
  const Tensor four = reshape(recorder, sinks, {1, sinks.sizes[0], 1, 1});
  return concatenate(recorder, {scores, expand(recorder, four, column)}, 3);
}

/// Each row's largest, whose gradient is scattered into zeros.
Tensor row_maximum(Recorder& recorder, const Tensor& scores) {
  Sizes rows = scores.sizes;
  rows[rows.size() - 1] = 1;
  Tensor output = recorder.take(rows, scores.type);
  const Tensor places = recorder.take(rows, Type::int64);
  recorder.record("max", {&scores}, {&output, &places});
  recorder.connect(
      output, {scores},
      [&recorder, places, whole = scores.sizes](const Gradients& gradients) -> Gradients {
        const Tensor& dy = gradients[0];
        const Tensor zeros = recorder.call("new_zeros", {&dy}, whole, dy.type);
        recorder.record("scatter_", {&zeros, &places, &dy}, {&zeros});
        return {zeros};
      });
  return output;
}

// eager_attention_forward of GPT-OSS: a column of sinks behind the masked scores, each row's
// largest subtracted, and a softmax of the scores' own type.
Tensor with_sinks(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  const Tensor keys = repeated(recorder, inputs[1], size.options.heads);
  const Tensor values = repeated(recorder, inputs[2], size.options.heads);
  Tensor kept;
  {
    Tensor scores = scaled_scores(recorder, inputs[0], keys);
    const Tensor mask = mask_of(recorder, size, scores.type);
    scores = masked(recorder, scores, mask);
    const Tensor joined = with_sink_column(recorder, scores, size.bias);
    scores = undefined();
    kept = unary_of_output(recorder, subtract(recorder, joined, row_maximum(recorder, joined)),
                           kSoftmax);
  }
  if (size.options.dropout) kept = dropout(recorder, kept);
  return product_of_heads(recorder, slice(recorder, kept, 3, kept.sizes[3] - 1), values);
}

/// Samples and heads as one dimension.
Sizes product_sizes(const Sizes& four) { return {four[0] * four[1], four[2], four[3]}; }

/// torch.baddbmm of ALiBi's slopes, queries and keys: backward multiplies each side's gradient by
/// a number.
Tensor added_product(Recorder& recorder, const Tensor& slopes, const Tensor& left,
                     const Tensor& right) {
  const Sizes out = {left.sizes[0], left.sizes[1], right.sizes[2]};
  Tensor output = recorder.call("baddbmm", {&slopes, &left, &right}, out, left.type);
  recorder.connect(
      output, {left, right},
      [&recorder, x = left.detached(),
       y = right.detached()](const Gradients& gradients) -> Gradients {
        const Tensor& dy = gradients[0];
        const Tensor x_t = transpose(recorder, x, 1, 2);
        const Tensor y_t = transpose(recorder, y, 1, 2);
        const Tensor to_right = recorder.call("bmm", {&x_t, &dy}, y.sizes, y.type);
        const Tensor to_left = recorder.call("bmm", {&dy, &y_t}, x.sizes, x.type);
        return {with_number(recorder, "mul", to_left), with_number(recorder, "mul", to_right)};
      });
  return output;
}

// BloomAttention: samples and heads are one dimension, and the mask is one for all heads.
Tensor with_selected_slopes(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  Tensors three;
  for (const Tensor& one : inputs)
    three.push_back(lower(recorder, reshape(recorder, one, product_sizes(one.sizes))));
  const Sizes four = {inputs[0].sizes[0], inputs[0].sizes[1], size.tokens, size.tokens};
  Tensor kept;
  {
    const Tensor slopes = lower(recorder, size.slopes);
    const Tensor product =
        added_product(recorder, slopes, three[0], transpose(recorder, three[1], 1, 2));
    const Tensor scores = reshape(recorder, product, four);
    const Tensor mask = mask_of(recorder, size, scores.type);
    kept = to(recorder, softmax_in_fp32(recorder, masked(recorder, scores, mask)), inputs[0].type);
  }
  if (size.options.dropout) kept = dropout(recorder, kept);
  const Tensor probabilities = lower(recorder, reshape(recorder, kept, product_sizes(four)));
  return reshape(recorder, batched_product(recorder, probabilities, three[2]), inputs[2].sizes);
}

// MptAttention: slopes of fp32 are added to the scaled scores, which are masked then. Its variable
// of scores lives until it returns.
Tensor with_slopes(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  Tensor scores = scaled_scores(recorder, inputs[0], inputs[1]);
  scores = masked(recorder, scores, size.slopes);
  Tensor hidden = pointwise(recorder, "masked_fill", scores, size.mask);
  recorder.connect(hidden, {scores},
                   [&recorder, mask = size.mask](const Gradients& gradients) -> Gradients {
                     return {pointwise(recorder, "masked_fill", gradients[0], mask)};
                   });
  scores = std::exchange(hidden, undefined());
  Tensor kept =
      to(recorder, unary_of_output(recorder, to(recorder, scores, Type::float32), kSoftmax),
         inputs[0].type);
  if (size.options.dropout) kept = dropout(recorder, kept);
  return product_of_heads(recorder, kept, inputs[2]);
}

// _scaled_dot_product_attention_math, which CPUs run where there is dropout, and GPUs for fp32 with
// grouped heads; or Megatron-LM's DotProductAttention. Either copies each key's head for every
// query's head that shares it.
Tensor materialised(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  const Type type = inputs[0].type;
  const Type inside = recorder.on_cpu() ? Type::float32 : type;
  const bool megatron = size.options.fused_softmax;
  const bool repeats = (size.options.flash || megatron) && !recorder.on_cpu();
  const auto whole = [&](const Tensor& heads) {
    return repeats ? repeated(recorder, heads, size.options.heads, true) : heads;
  };
  const Tensor keys = to(recorder, whole(inputs[1]), inside);
  const Tensor values = to(recorder, whole(inputs[2]), inside);
  const Tensor queries = to(recorder, inputs[0], inside);
  Tensor scaled;
  Tensor kept = probabilities(recorder, queries, keys, size, scaled);
  if (size.options.dropout) kept = dropout(recorder, kept);
  if (megatron) {
    Sizes heads = queries.sizes;
    heads[heads.size() - 1] = values.sizes[values.sizes.size() - 1];  // latent heads: unlike widths
    return reshape(
        recorder,
        batched_product(recorder, side_by_side(recorder, kept), side_by_side(recorder, values)),
        heads);
  }
  const Tensor returned = kept.type == type ? kept : recorder.workspace(kept.sizes, type);
  return to(recorder, product_of_heads(recorder, kept, values), type);
}

}  // namespace

Tensors attention(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  const Attention& o = size.options;
  const bool math =
      recorder.on_cpu()
          ? o.dropout
          : runs_math_attention(
                o, inputs[0].type == Type::float32 && !recorder.autocast() ? Bytes(4) : Bytes(2));
  const bool fused = o.flash && !math;
  const Tensors heads = heads_of(recorder, inputs, o);
  // scaled_dot_product_attention caps no scores.
  const bool eager = !o.flash && (o.softcap || (o.wide_softmax && !recorder.on_cpu()));
  const bool has_bias = !size.bias.sizes.empty();
  const bool plain = eager && !o.fused_softmax && !has_bias;
  const bool sinks = eager && !o.fused_softmax && !o.biased && has_bias;
  const Tensor output =
      fused   ? flash_attention(recorder, heads, size)
      : sinks ? with_sinks(recorder, heads, size)
      : plain && o.biased
          ? (o.spelling.selects ? with_selected_slopes : with_slopes)(recorder, heads, size)
      : plain ? written_out(recorder, heads, size)
              : materialised(recorder, heads, size);
  return {joined_heads(recorder, output), output};
}

}  // namespace rehearse::tape
