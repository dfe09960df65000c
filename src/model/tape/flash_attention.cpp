// Fused attention: one kernel each way.
#include <algorithm>

#include "model/tape/operators.hpp"

namespace rehearse::tape {
namespace {

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

/// Rows of sums that PyTorch's memory-efficient kernel fills up (mem_eff_attention/
/// kernel_forward.h: kAlignLSE).
constexpr std::int64_t kAlignedRows = 32;

/// What computes fused attention, and how it lays out what it makes.
struct FlashKernel {
  std::string_view forward, backward;
  bool like_queries = true;  ///< else tokens before heads
  bool last_row = false;     ///< sums of a row have a last dimension of 1
  std::int64_t rows = 1;     ///< of which as many more make a multiple
};

FlashKernel kernel_of(const Attention& o, Type type) {
  if (o.kernel != AttentionKernel::sdpa && !is_cudnn(o.kernel))
    return {"_flash_attention_forward", "_flash_attention_backward"};
  if (o.kernel == AttentionKernel::cudnn_fp8)
    return {.forward = "fused_attn_fp8_fwd", .backward = "fused_attn_fp8_bwd", .last_row = true};
  if (type == Type::float16 && !o.biased && !o.spelling.indexes && o.head_width % 8 == 0 &&
      (o.head_width <= 128 || o.head_width == 256))
    return {.forward = "_scaled_dot_product_cudnn_attention",
            .backward = "_scaled_dot_product_cudnn_attention_backward",
            .last_row = true};
  return {"_scaled_dot_product_efficient_attention",
          "_scaled_dot_product_efficient_attention_backward", false, false, kAlignedRows};
}

/// (samples, heads, tokens, width) with the heads of a token side by side.
Shape by_tokens(const Sizes& sizes) {
  return {sizes, {sizes[1] * sizes[2] * sizes[3], sizes[3], sizes[1] * sizes[3], 1}};
}

/// The sizes, in the order of memory that `like` has.
Shape ordered_as(const Shape& like, const Sizes& sizes) {
  const Shape apart(sizes, like.strides);
  return broadcast({&apart});
}

/// A mask that a module hands on, as numbers (scaled_dot_product_attention: convert_boolean_mask).
Tensor own_mask(Recorder& recorder, const Tensor& queries) {
  const Sizes pairs = {queries.sizes[0], 1, queries.sizes[2], queries.sizes[2]};
  const Tensor zeros = recorder.call("zeros", {}, pairs, queries.type);
  Tensor seen;
  static_cast<Shape&>(seen) = pairs;
  seen.type = Type::boolean;
  return recorder.call("masked_fill", {&zeros, &seen}, pairs, queries.type);
}

}  // namespace

/// Sinks are a further input, and so are biases of distances. Each block hands the kernel a copy of
/// these for all samples, and the first of a stack makes them of buckets. Backward makes their
/// gradient for each sample; attention to an encoder has zeros in their place, without a gradient.
Tensor flash_attention(Recorder& recorder, Tensors inputs, const AttentionSize& size) {
  const Attention& o = size.options;
  for (Tensor& input : inputs) input = lower(recorder, input);
  const Type type = inputs[0].type;
  FlashKernel kernel = kernel_of(o, type);
  if (recorder.on_cpu()) kernel.like_queries = true;
  const Tensor &q = inputs[0], &k = inputs[1], &v = inputs[2];
  const Sizes out = {q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]};
  const std::int64_t rows = q.sizes[0] * q.sizes[1] * q.sizes[2], pairs = rows * k.sizes[2];
  const auto laid_out = [like = kernel.like_queries](const Tensor& t) {
    return like ? broadcast({&t}) : by_tokens(t.sizes);
  };
  Tensor output = recorder.take(kernel.like_queries ? ordered_as(q, out) : by_tokens(out), type);
  const std::int64_t full = (q.sizes[2] + kernel.rows - 1) / kernel.rows * kernel.rows;
  Sizes row = {q.sizes[0], q.sizes[1], recorder.on_cpu() ? q.sizes[2] : full};
  if (kernel.last_row) row.push_back(1);
  // Sums of exponents are backward's; FlashAttention's own kernel makes them all the same
  // (aten/src/ATen/native/transformers/cuda/attention.cu: compute_log_sumexp).
  const bool keeps_sums =
      recorder.has_gradients() || recorder.on_cpu() || kernel.forward == "_flash_attention_forward";
  const Tensor logarithms = keeps_sums ? recorder.take(row, Type::float32) : undefined();
  Tensor seed, offset;
  if (recorder.on_cpu()) {
    cpu_flash_forward_workspace(recorder, size, type);
  } else {  // of dropout's generator
    seed = recorder.take(Sizes(), Type::int64);
    offset = recorder.take(Sizes(), Type::int64);
  }
  std::vector<std::pair<std::string_view, std::vector<double>>> with = {
      {"dropout_p", {o.dropout ? 0.1 : 0.0}}, {"is_causal", {o.causal ? 1.0 : 0.0}}};
  if (o.kernel != AttentionKernel::sdpa) {
    with.emplace_back("library", std::vector{static_cast<double>(o.kernel)});
    if (o.window > 0) with.emplace_back("window", std::vector{static_cast<double>(o.window)});
  }
  const Tensor mask =
      o.spelling.indexes && !recorder.on_cpu() ? own_mask(recorder, q) : undefined();
  recorder.record(kernel.forward, {&q, &k, &v, &mask}, {&output, &logarithms, &seed, &offset},
                  {.with = with});
  Tensors saved = {output, logarithms, seed, offset};
  for (const Tensor& input : inputs) saved.push_back(input.detached());
  const bool sinks = !size.bias.sizes.empty();
  const bool trains_biases = o.biased && o.keys == 0;
  if (o.biased) saved.push_back(recorder.take(pairs / recorder.batch(), type));
  if (sinks && o.biased)
    saved.push_back(recorder.take(pairs / recorder.batch() / o.heads, Type::int64));  // buckets
  if (sinks) inputs.push_back(parameter(recorder, size.bias));
  recorder.connect(
      output, inputs,
      [&recorder, size, kernel, laid_out, pairs, rows, type, saved, sinks, trains_biases, with,
       mask, wide = inputs.back().type](const Gradients& gradients) -> Gradients {
        Gradients results;
        const Tensor biases = trains_biases ? recorder.workspace(pairs, type) : undefined();
        for (std::size_t side = 4; side < 7; ++side)
          results.push_back(recorder.take(laid_out(saved[side]), type));
        recorder.record(kernel.backward,
                        {&gradients[0], &saved[4], &saved[5], &saved[6], &mask, &saved[0],
                         &saved[1], &saved[2], &saved[3]},
                        {&results[0], &results[1], &results[2]}, {.with = with});
        if (sinks) results.push_back(recorder.take(size.bias.sizes, wide));
        if (recorder.on_cpu()) {
          cpu_flash_backward_workspace(recorder, size, type);
        } else {
          // FlashAttention 2: the sum of dO * O per row, and dQ accumulated in fp32.
          const Tensor sums = recorder.workspace(rows, Type::float32);
          recorder.workspace(saved[4].sizes, Type::float32);
        }
        return results;
      });
  return output;
}

}  // namespace rehearse::tape
