// Matrix products, embeddings and attention.
#include "model/tape/operators.hpp"

#include <algorithm>

namespace rehearse::tape {
namespace {

/// Elements of a batched product's three sides.
struct ProductSize {
  std::int64_t left = 0, right = 0, out = 0;
};

/// torch.bmm of two tensors that it saves both.
Tensor batched_product(Recorder& recorder, const Tensor& left, const Tensor& right,
                       const ProductSize& size) {
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
  std::int64_t query = 0, key = 0, rows = 0, pairs = 0;
};

AttentionSides sides(const Recorder& recorder, const AttentionSize& size) {
  const Attention& o = size.options;
  const std::int64_t rows = recorder.batch() * o.heads * size.tokens;
  const std::int64_t kept = recorder.batch() * o.heads * size.tokens * o.head_width;
  return {kept, kept, rows, rows * size.tokens};
}

/// Queries, keys and values as three values of one node, if they came as one tensor (chunk).
std::vector<Tensor> parts(Recorder& recorder, const std::vector<Tensor>& inputs) {
  if (inputs.size() > 1) return {inputs.begin(), inputs.begin() + 3};
  return chunk(recorder, inputs.front(), 3);
}

/// A view whose gradient is copied if it is permuted.
Tensor ordered_view(Recorder& recorder, const Tensor& input) {
  Tensor output = input.detached();
  recorder.connect(output, {input}, [&recorder](const Gradients& gradients) -> Gradients {
    if (gradients[0].contiguous) return {gradients[0]};
    return {recorder.take(gradients[0].elements, gradients[0].type)};
  });
  return output;
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

Tensor flash(Recorder& recorder, const std::vector<Tensor>& inputs, const AttentionSize& size) {
  const AttentionSides s = sides(recorder, size);
  const Type type = inputs[0].type;
  Tensor output = recorder.take(s.query, type);
  const Tensor logarithms = recorder.take(s.rows, Type::float32);
  Tensor state;
  if (recorder.on_cpu()) {
    cpu_flash_forward_workspace(recorder, size, type);
  } else {
    state = recorder.take(2, Type::int64);  // of dropout's generator: seed and offset
  }
  std::vector<Tensor> saved = {output, logarithms, state};
  for (const Tensor& input : inputs) saved.push_back(input.detached());
  recorder.connect(output, inputs,
                   [&recorder, size, s, type, saved](const Gradients&) -> Gradients {
                     Gradients results;
                     for (int i = 0; i < 3; ++i) results.push_back(recorder.take(s.query, type));
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

Tensor probabilities(Recorder& recorder, const std::vector<Tensor>& inputs,
                     const AttentionSize& size, const AttentionSides& s, Tensor& scaled_queries) {
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
  return softmax(recorder, scores, s.rows);
}

// _scaled_dot_product_attention_math, which CPUs run where there is dropout.
Tensor materialised(Recorder& recorder, const std::vector<Tensor>& inputs,
                    const AttentionSize& size) {
  const AttentionSides s = sides(recorder, size);
  const Type type = inputs[0].type;
  const Type inside = recorder.on_cpu() ? Type::float32 : type;
  const Tensor values = to(recorder, inputs[2], inside);
  const Tensor keys = to(recorder, inputs[1], inside);
  const Tensor queries = to(recorder, inputs[0], inside);
  Tensor scaled;
  Tensor kept = probabilities(recorder, {queries, keys, values}, size, s, scaled);
  if (size.options.dropout) kept = dropout(recorder, kept);
  const Tensor returned = kept.type == type ? kept : recorder.workspace(kept.elements, type);
  const Tensor contiguous = folded(recorder, values);
  const Tensor output = batched_product(recorder, kept, contiguous, {s.pairs, s.key, s.query});
  return to(recorder, output, type);
}

/// torch.addmm: dx, dW and the bias's sum.
Tensor matrix_product(Recorder& recorder, const std::vector<Tensor>& sides, std::int64_t out) {
  const Tensor x = sides[0].detached();
  const bool needed = sides[0].needs_gradient();
  const Tensor w = needed ? sides[1].detached() : undefined();  // saved for dx alone
  Tensor output = recorder.take(out, x.type);
  recorder.connect(output, sides,
                   [&recorder, x, w, needed,
                    elements = sides[1].elements](const Gradients& gradients) -> Gradients {
                     Gradients results = {undefined(), undefined(), gradients[0]};
                     results[2].broadcast = true;
                     if (needed) results[0] = recorder.take(x.elements, x.type);
                     results[1] = recorder.take(elements, x.type);
                     return results;
                   });
  return output;
}

/// torch.matmul of more than two dimensions: the product of two, and a view.
Tensor viewed_product(Recorder& recorder, const Tensor& given, const Tensor& weight,
                      std::int64_t out) {
  const Tensor x = given.contiguous ? given : copy(recorder, given);
  Tensor product = recorder.take(out, x.type);
  recorder.connect(product, {x, weight},
                   [&recorder, x = x.detached(), w = weight.detached(),
                    needed = x.needs_gradient()](const Gradients&) -> Gradients {
                     Gradients results = {undefined(), recorder.take(w.elements, x.type)};
                     if (needed) results[0] = recorder.take(x.elements, x.type);
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

}  // namespace

// Python's nn.Linear, and on CPUs the C++ API's, as the calibrator's networks: where that has more
// than two dimensions it adds the bias in place, and its weight.t() is no leaf that autocast's
// cache takes.
Tensor linear(Recorder& recorder, const Tensor& input, const LinearOptions& options) {
  const bool module = recorder.on_cpu() && !options.function;
  const bool fused = options.bias && (options.matrix || !recorder.on_cpu());
  Tensor bias = undefined();
  if (options.bias) {
    bias = fused ? product_parameter(recorder, *options.bias) : parameter(recorder, *options.bias);
  }
  const Tensor weight = module ? lower(recorder, parameter(recorder, options.weight))
                               : product_parameter(recorder, options.weight);
  const Tensor x = lower(recorder, input);
  if (fused) return matrix_product(recorder, {x, weight, bias}, options.out);
  Tensor product = viewed_product(recorder, x, weight, options.out);
  return options.bias ? add_bias(recorder, product, bias) : product;
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

std::vector<Tensor> attention(Recorder& recorder, const std::vector<Tensor>& inputs,
                              const AttentionSize& size) {
  const bool fused = size.options.flash && !(recorder.on_cpu() && size.options.dropout);
  std::vector<Tensor> heads;
  for (const Tensor& part : parts(recorder, inputs)) {
    // The product for the keys leaves their gradient as the view wants it.
    heads.push_back(fused ? part : split_heads(recorder, part, heads.size() != 1));
  }
  if (fused) {
    const Tensor output = flash(recorder, heads, size);
    if (inputs.size() > 3) return {copy(recorder, output), output};
    return {view(recorder, output)};
  }
  const Tensor output = materialised(recorder, heads, size);
  return {copy(recorder, output), output};
}

}  // namespace rehearse::tape
