#include "models/attention.hpp"

#include <cmath>
#include <limits>

namespace rehearse::inline calibrate {
namespace {

torch::Tensor materialised(const torch::Tensor& queries, const torch::Tensor& keys,
                           const torch::Tensor& values, const AttentionOptions& options) {
  const double scale = 1 / std::sqrt(static_cast<double>(queries.size(-1)));
  torch::Tensor scores = torch::matmul(queries * scale, keys.transpose(-2, -1));
  if (options.causal) {
    const auto mask = torch::ones({queries.size(-2), keys.size(-2)},
                                  torch::TensorOptions(torch::kBool).device(queries.device()))
                          .triu(1);
    scores = scores.masked_fill(mask, -std::numeric_limits<float>::infinity());
  }
  const torch::Tensor probabilities = torch::softmax(scores, -1);
  return torch::matmul(torch::dropout(probabilities, options.dropout, options.dropout > 0), values);
}

/// A template, so that the call need not exist: torch 1.13 has no public fused attention.
template <class T>
torch::Tensor fused_or_materialised(const T& queries, const T& keys, const T& values,
                                    const AttentionOptions& options) {
  constexpr bool kFused = requires {
    scaled_dot_product_attention(queries, keys, values, {}, 0.0, true);
  };
  if constexpr (kFused) {
    if (options.flash) {
      return scaled_dot_product_attention(queries, keys, values, {}, options.dropout,
                                          options.causal);
    }
  }
  return materialised(queries, keys, values, options);
}

}  // namespace

torch::Tensor attention(const torch::Tensor& queries, const torch::Tensor& keys,
                        const torch::Tensor& values, const AttentionOptions& options) {
  return fused_or_materialised(queries, keys, values, options);
}

torch::Tensor split_heads(const torch::Tensor& input, std::int64_t heads) {
  return input.view({input.size(0), input.size(1), heads, input.size(2) / heads}).transpose(1, 2);
}

torch::Tensor join_heads(const torch::Tensor& input) {
  return input.transpose(1, 2).reshape({input.size(0), input.size(2), -1});
}

torch::Tensor token_loss(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(output.flatten(0, -2), target.flatten());
}

}  // namespace rehearse::inline calibrate
