// Attention whose scores are materialised: one batched product for all heads and samples each.
#include <algorithm>

#include "cost/roofline.hpp"

namespace rehearse::inline cost {
namespace {

double keys_of(const Operator& op) {
  return op.heads.keys > 0 ? static_cast<double>(op.heads.keys) : op.tokens;
}

/// Queries by keys, for each document of a packed sample and each head.
ProductShape scores_of(const Operator& op) {
  return {.rows = op.tokens,
          .columns = keys_of(op),
          .inner = static_cast<double>(op.heads.head_width),
          .products = std::max(1.0, op.product.products) * static_cast<double>(op.heads.heads)};
}

/// Probabilities by values.
ProductShape outputs_of(const Operator& op) {
  ProductShape shape = scores_of(op);
  shape.columns = static_cast<double>(op.heads.values());
  shape.inner = keys_of(op);
  return shape;
}

}  // namespace

Seconds Roofline::products_of_heads(const ProductShape& product, double batch,
                                    Direction direction) const {
  const auto& [rows, columns, inner, products, window, stride, weights, together] = product;
  const double heads = batch * products;
  const auto role = KernelModel::Role::forward;
  if (direction == Direction::forward) return kernels_.product({rows, columns, inner, heads}, role);
  return kernels_.product({rows, inner, columns, heads}, role) +
         kernels_.product({inner, columns, rows, heads}, role);
}

// _scaled_dot_product_attention_math. Forward adds the mask (broadcast), makes the softmax, looks
// for rows without any key and replaces them (broadcast). Backward reads two tensors of scores and
// writes one, twice. An H200's profile of Llama in fp32 has these kernels
// (tests/validation/hopper).
Seconds Roofline::math_attention(const Operator& op, double batch, Direction direction) const {
  const ProductShape scores = scores_of(op);
  const double pairs = scores.products * scores.rows * scores.columns;
  const EagerKernels forward{.kernels = 5, .written = 2 * pairs, .plain = 3.5 * pairs};
  const EagerKernels backward{.kernels = 2, .plain = 6 * pairs};
  return products_of_heads(scores, batch, direction) +
         products_of_heads(outputs_of(op), batch, direction) +
         eager_time(direction == Direction::forward ? forward : backward, batch, element(op));
}

Nearness Roofline::near_math_attention(const Operator& op, double batch) const {
  const ProductShape scores = scores_of(op);
  return kernels_.near_product({scores.rows, scores.columns, scores.inner, batch * scores.products},
                               false);
}

}  // namespace rehearse::inline cost
