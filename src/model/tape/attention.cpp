// Attention: fused, or as products of its own.
#include "model/tape/operators.hpp"

#include <algorithm>
#include <utility>

namespace rehearse::tape {
namespace {

/// Elements of a batched product's three sides.
struct ProductSize {
  std::int64_t left = 0, right = 0, out = 0;
};

/// torch.bmm of two tensors that it saves both.
Tensor batched_product(Recorder& recorder, const Tensor& given, const Tensor& other,
                       const ProductSize& size) {
  const Tensor left = lower(recorder, given), right = lower(recorder, other);
  Tensor output = recorder.take(size.out, left.type);
  recorder.connect(
      output, {left, right},
      [&recorder, x = left.detached(), y = right.detached()](const Gradients&) -> Gradients {
        Tensor to_right = recorder.take(y.elements, y.type);
        return {recorder.take(x.elements, x.type), to_right};
      });
  return output;
}

/// Samples and heads as one dimension: a copy, but for one sample.
Tensor folded(Recorder& recorder, const Tensor& heads) {
  return recorder.batch() == 1 ? view(recorder, heads) : copy(recorder, heads);
}

struct AttentionSides {
  std::int64_t query = 0, key = 0, value = 0, out = 0, rows = 0, pairs = 0;
};

AttentionSides sides(const Recorder& recorder, const AttentionSize& size) {
  const Attention& o = size.options;
  const std::int64_t tokens = o.keys > 0 ? o.keys : size.tokens;
  const std::int64_t rows = recorder.batch() * o.heads * size.tokens;
  const std::int64_t key_rows = recorder.batch() * o.heads * tokens;
  return {.query = rows * o.head_width,
          .key = key_rows * o.head_width,
          .value = key_rows * o.values(),
          .out = rows * o.values(),
          .rows = rows,
          .pairs = rows * tokens};
}

/// Queries, keys and values as three values of one node, if they came as one tensor (chunk).
Tensors parts(Recorder& recorder, const Tensors& inputs, const Attention& o) {
  if (inputs.size() > 1) return {inputs.begin(), inputs.begin() + 3};
  return split(recorder, inputs.front(), {o.heads, o.kv_heads, o.kv_heads});
}

/// Heads before tokens: backward's gradient comes back in that order, and the view of the heads
/// wants it in the other.
Tensor split_heads(Recorder& recorder, const Tensor& input, bool copies) {
  Tensor output = input.detached();
  recorder.connect(output, {input}, [&recorder, copies](const Gradients& gradients) -> Gradients {
    if (copies) return {recorder.take(gradients[0].elements, gradients[0].type)};
    Tensor permuted = gradients[0];
    permuted.contiguous = false;
    return {permuted};
  });
  return output;
}

/// Rows of queries and of keys that a thread of the CPU kernel works on at once
/// (aten/src/ATen/native/cpu/FlashAttentionKernel.cpp).
struct FlashTile {
  explicit FlashTile(std::int64_t tokens)
      : queries(std::min<std::int64_t>(tokens >= 768   ? 256
                                       : tokens >= 192 ? 64
                                                       : 32,
                                       tokens)),
        keys(std::min<std::int64_t>(512, tokens)) {}
  std::int64_t queries, keys;
};

void cpu_flash_forward_workspace(Recorder& recorder, const AttentionSize& size, Type type) {
  const FlashTile tile(size.tokens);
  const Tensor sums =
      recorder.workspace(tile.queries * (tile.keys + 2 + size.options.head_width), Type::float32);
  if (type == Type::float16) recorder.workspace(tile.queries * tile.keys, type);
}

void cpu_flash_backward_workspace(Recorder& recorder, const AttentionSize& size, Type type) {
  const FlashTile tile(size.tokens);
  const Tensor scores = recorder.workspace(2 * tile.queries * tile.keys, Type::float32);
  Tensor lower;
  if (type == Type::float16) lower = recorder.workspace(2 * tile.queries * tile.keys, type);
  recorder.workspace(tile.queries, Type::float32);
}

/// Sinks are a further input, and so are biases of distances. Each block hands the kernel a copy of
/// these for all samples, and the first of a stack makes them of buckets. Backward makes their
/// gradient for each sample; attention to an encoder has zeros in their place, without a gradient.
Tensor flash(Recorder& recorder, Tensors inputs, const AttentionSize& size) {
  const AttentionSides s = sides(recorder, size);
  for (Tensor& input : inputs) input = lower(recorder, input);
  const Type type = inputs[0].type;
  Tensor output = recorder.take(s.out, type);
  const Tensor logarithms = recorder.take(s.rows, Type::float32);
  Tensor state;
  if (recorder.on_cpu()) {
    cpu_flash_forward_workspace(recorder, size, type);
  } else {
    state = recorder.take(2, Type::int64);  // of dropout's generator: seed and offset
  }
  Tensors saved = {output, logarithms, state};
  for (const Tensor& input : inputs) saved.push_back(input.detached());
  const bool sinks = size.bias.elements > 0;
  const bool trains_biases = size.options.biased && size.options.keys == 0;
  if (size.options.biased) saved.push_back(recorder.take(s.pairs / recorder.batch(), type));
  if (sinks && size.options.biased)
    saved.push_back(
        recorder.take(s.pairs / recorder.batch() / size.options.heads, Type::int64));  // buckets
  if (sinks) inputs.push_back(parameter(recorder, size.bias));
  recorder.connect(output, inputs,
                   [&recorder, size, s, type, saved, sinks, trains_biases,
                    wide = inputs.back().type](const Gradients&) -> Gradients {
                     Gradients results;
                     const Tensor biases =
                         trains_biases ? recorder.workspace(s.pairs, type) : undefined();
                     for (const std::int64_t side : {s.query, s.key, s.value})
                       results.push_back(recorder.take(side, type));
                     if (sinks) results.push_back(recorder.take(size.bias.elements, wide));
                     if (recorder.on_cpu()) {
                       cpu_flash_backward_workspace(recorder, size, type);
                     } else {
                       // FlashAttention 2: the sum of dO * O per row, and dQ accumulated in fp32.
                       const Tensor rows = recorder.workspace(s.rows, Type::float32);
                       recorder.workspace(s.query, Type::float32);
                     }
                     return results;
                   });
  return output;
}

/// A mask of ones below the diagonal, as a sum's other side.
Tensor causal_mask(Recorder& recorder, std::int64_t tokens, Type type) {
  Tensor triangle;
  {
    const Tensor ones = recorder.workspace(tokens * tokens, Type::byte);
    triangle = recorder.workspace(tokens * tokens, Type::byte);
  }
  const Tensor zero = recorder.workspace(1, type);
  const Tensor infinity = recorder.workspace(1, type);
  return recorder.workspace(tokens * tokens, type);
}

Tensor softmax(Recorder& recorder, const Tensor& scores, std::int64_t rows) {
  Tensor output = unary_of_output(recorder, scores);
  // A row without any key is zero, not NaN: _safe_softmax looks for such rows.
  const Tensor infinite = recorder.workspace(scores.elements, Type::byte);
  const Tensor all = recorder.workspace(rows, Type::byte);
  recorder.workspace(1, scores.type);
  return output;
}

/// tanh(scores / cap) * cap: what tanh gives is kept.
Tensor capped(Recorder& recorder, const Tensor& scores) {
  const Tensor divided = scale(recorder, scores);
  const Tensor tanh = unary_of_output(recorder, divided);
  return scale(recorder, tanh);
}

Tensor probabilities(Recorder& recorder, const Tensors& inputs, const AttentionSize& size,
                     const AttentionSides& s, Tensor& scaled_queries) {
  if (size.options.fused_softmax)
    return unary_of_output(
        recorder, batched_product(recorder, inputs[0], inputs[1], {s.query, s.key, s.pairs}));
  scaled_queries = scale(recorder, inputs[0]);
  Tensor mask;
  if (size.options.causal) mask = causal_mask(recorder, size.tokens, inputs[0].type);
  Tensor scores;
  {
    const Tensor scaled_keys = scale(recorder, inputs[1]);
    const Tensor queries = folded(recorder, scaled_queries);
    const Tensor keys = folded(recorder, scaled_keys);
    scores = batched_product(recorder, queries, keys, {s.query, s.key, s.pairs});
  }
  if (size.options.softcap) scores = capped(recorder, scores);
  if (size.bias.elements > 0) {
    const Tensor plain = scores;
    scores = recorder.take(s.pairs, plain.type);
    recorder.connect(scores, {plain, parameter(recorder, size.bias)},
                     [](const Gradients& gradients) -> Gradients {
                       Gradients results = {gradients[0], gradients[0]};
                       results[1].broadcast = true;
                       return results;
                     });
  }
  return softmax(recorder, scores, s.rows);
}

/// A copy of each key's head for every query's head that shares it (repeat_kv).
Tensor repeated(Recorder& recorder, const Tensor& input, std::int64_t elements) {
  if (input.elements == elements) return input;
  Tensor output = recorder.take(elements, input.type);
  recorder.connect(output, {input},
                   [&recorder, few = input.elements, type = input.type](
                       const Gradients&) -> Gradients { return {recorder.take(few, type)}; });
  return output;
}

bool computes_in_fp16(Precision precision) {
  return precision == Precision::fp16_master || precision == Precision::fp16_pure;
}

/// softmax(scores, dtype=float32). One kernel reads fp16; of bf16 an fp32 copy is made before
/// (aten/src/ATen/native/SoftMax.cpp), as autocast makes it of both.
Tensor softmax_in_fp32(Recorder& recorder, const Tensor& scores) {
  if (!computes_in_fp16(recorder.precision()) && !recorder.on_cpu())
    return unary_of_output(recorder, to(recorder, scores, Type::float32));
  Tensor output = recorder.take(scores.elements, Type::float32);
  recorder.connect(output, {scores},
                   [&recorder, y = output, type = scores.type](const Gradients&) -> Gradients {
                     return {recorder.take(y.elements, type)};
                   });
  return output;
}

// eager_attention_forward of Hugging Face's decoders with RMS norms.
Tensor written_out(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  const AttentionSides s = sides(recorder, size);
  const Tensor keys = repeated(recorder, inputs[1], s.key);
  const Tensor values = repeated(recorder, inputs[2], s.value);
  Tensor kept;
  {
    Tensor scores =
        scale(recorder, batched_product(recorder, inputs[0], keys, {s.query, s.key, s.pairs}));
    if (size.options.softcap) scores = capped(recorder, scores);
    Tensor masked = scores;
    if (size.options.causal) {
      const Tensor mask = causal_mask(recorder, size.tokens, scores.type);
      masked = recorder.take(s.pairs, scores.type);
      recorder.connect(masked, {scores},
                       [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
    }
    kept = to(recorder, softmax_in_fp32(recorder, masked), inputs[0].type);
  }
  if (size.options.dropout) kept = dropout(recorder, kept);
  return batched_product(recorder, kept, values, {s.pairs, s.value, s.out});
}

// eager_attention_forward of GPT-OSS: a column of sinks behind the masked scores, each row's
// largest subtracted, and a softmax of the scores' own type.
Tensor with_sinks(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  const AttentionSides s = sides(recorder, size);
  const Tensor keys = repeated(recorder, inputs[1], s.key);
  const Tensor values = repeated(recorder, inputs[2], s.value);
  const auto passed = [&](const Tensor& scores, std::int64_t elements) {
    Tensor output = recorder.take(elements, scores.type);
    recorder.connect(output, {scores},
                     [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
    return output;
  };
  Tensor kept;
  {
    Tensor scores =
        scale(recorder, batched_product(recorder, inputs[0], keys, {s.query, s.key, s.pairs}));
    const Tensor mask = causal_mask(recorder, size.tokens, scores.type);
    const Tensor masked = passed(std::exchange(scores, undefined()), s.pairs);
    Tensor joined = recorder.take(s.pairs + s.rows, masked.type);
    recorder.connect(joined, {masked, parameter(recorder, size.bias)},
                     [](const Gradients& gradients) -> Gradients {
                       Gradients results = {gradients[0].detached(), gradients[0]};
                       results[1].broadcast = true;
                       return results;
                     });
    joined = passed(joined, joined.elements);
    kept = unary_of_output(recorder, joined);
  }
  if (size.options.dropout) kept = dropout(recorder, kept);
  return batched_product(recorder, slice(recorder, kept, s.pairs), values,
                         {s.pairs, s.value, s.out});
}

// BloomAttention and MptAttention: slopes and a mask are added to the scores.
Tensor with_slopes(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  const AttentionSides s = sides(recorder, size);
  const Tensor values = folded(recorder, inputs[2]);
  Tensor kept;
  {
    const Tensor queries = folded(recorder, inputs[0]), keys = folded(recorder, inputs[1]);
    const Tensor scores = batched_product(recorder, queries, keys, {s.query, s.key, s.pairs});
    const Tensor mask = recorder.workspace(size.tokens * size.tokens, scores.type);
    Tensor masked = recorder.take(s.pairs, scores.type);
    recorder.connect(masked, {scores},
                     [](const Gradients& gradients) -> Gradients { return {gradients[0]}; });
    kept = to(recorder, softmax_in_fp32(recorder, masked), inputs[0].type);
  }
  if (size.options.dropout) kept = dropout(recorder, kept);
  return batched_product(recorder, kept, values, {s.pairs, s.value, s.out});
}

// _scaled_dot_product_attention_math, which CPUs run where there is dropout, and GPUs for fp32 with
// grouped heads: each key's head is copied for every query's head that shares it.
Tensor materialised(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  const AttentionSides s = sides(recorder, size);
  const Type type = inputs[0].type;
  const Type inside = recorder.on_cpu() ? Type::float32 : type;
  const bool repeats = size.options.flash && !recorder.on_cpu();
  const auto whole = [&](const Tensor& heads, std::int64_t elements) {
    return repeats ? repeated(recorder, heads, elements) : heads;
  };
  const Tensor values = to(recorder, whole(inputs[2], s.value), inside);
  const Tensor keys = to(recorder, whole(inputs[1], s.key), inside);
  const Tensor queries = to(recorder, inputs[0], inside);
  Tensor scaled;
  Tensor kept = probabilities(recorder, {queries, keys, values}, size, s, scaled);
  if (size.options.dropout) kept = dropout(recorder, kept);
  const Tensor returned = kept.type == type ? kept : recorder.workspace(kept.elements, type);
  const Tensor contiguous = folded(recorder, values);
  const Tensor output = batched_product(recorder, kept, contiguous, {s.pairs, s.value, s.out});
  return to(recorder, output, type);
}

}  // namespace

Tensors attention(Recorder& recorder, const Tensors& inputs, const AttentionSize& size) {
  const bool math =
      recorder.on_cpu()
          ? size.options.dropout
          : runs_math_attention(
                size.options,
                inputs[0].type == Type::float32 && !recorder.autocast() ? Bytes(4) : Bytes(2));
  const bool fused = size.options.flash && !math;
  Tensors heads;
  for (const Tensor& part : parts(recorder, inputs, size.options)) {
    // The product for the keys leaves their gradient as the view wants it.
    heads.push_back(fused ? part : split_heads(recorder, part, heads.size() != 1));
  }
  if (fused) {
    const Tensor output = flash(recorder, heads, size);
    if (inputs.size() > 3) return {copy(recorder, output), output};
    return {view(recorder, output)};
  }
  const Attention& o = size.options;
  // scaled_dot_product_attention caps no scores.
  const bool eager = !o.flash && (o.softcap || (o.wide_softmax && !recorder.on_cpu()));
  const bool plain = eager && !o.fused_softmax && size.bias.elements == 0;
  const bool sinks = eager && !o.fused_softmax && !o.biased && size.bias.elements > 0;
  const Tensor output = sinks               ? with_sinks(recorder, heads, size)
                        : plain && o.biased ? with_slopes(recorder, heads, size)
                        : plain             ? written_out(recorder, heads, size)
                                            : materialised(recorder, heads, size);
  return {copy(recorder, output), output};
}

}  // namespace rehearse::tape
