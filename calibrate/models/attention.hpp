#pragma once

#include "models/chain.hpp"

namespace rehearse::inline calibrate {

struct AttentionOptions {
  bool causal = false;
  double dropout = 0;  ///< on the probabilities, in training
  bool flash = true;   ///< PyTorch's fused kernel where it has one (2.0); else materialised scores
};

/// softmax(q k^T / sqrt(width)) v over tensors of (batch, heads, tokens, width).
torch::Tensor attention(const torch::Tensor& queries, const torch::Tensor& keys,
                        const torch::Tensor& values, const AttentionOptions& options);

/// (batch, tokens, heads * width) as (batch, heads, tokens, width), and back.
torch::Tensor split_heads(const torch::Tensor& input, std::int64_t heads);
torch::Tensor join_heads(const torch::Tensor& input);

/// Mean cross entropy over all target positions: output (..., vocabulary), target (...).
torch::Tensor token_loss(const torch::Tensor& output, const torch::Tensor& target);

}  // namespace rehearse::inline calibrate
