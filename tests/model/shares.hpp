#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "model/mixers.hpp"
#include "model/parallel.hpp"
#include "model/transformer.hpp"

namespace rehearse {

inline void check_close(double value, double expected) {
  BOOST_TEST(std::abs(value - expected) <= 1e-9 * std::abs(expected),
             value << " is not " << expected);
}

/// GPT as Megatron-LM trains it; 2,048 divides by 128 times any degree up to 16.
inline TransformerShape gpt(double dropout = 0.1) {
  TransformerShape t;
  t.name = "gpt";
  t.layers = 3;
  t.hidden = 256;
  t.heads = t.kv_heads = 16;
  t.head_width = 16;
  t.feed_forward = 1024;
  t.vocabulary = 2048;
  t.norm = NormKind::layer_norm;
  t.position = PositionKind::learned;
  t.position_rows = 512;
  t.activation = ActivationKind::gelu;
  t.gated = false;
  t.fused_qkv = t.qkv_bias = t.output_bias = t.feed_forward_bias = true;
  t.dropout = dropout;
  return t;
}

/// Grouped queries, SwiGLU, no biases.
inline TransformerShape llama() {
  TransformerShape t;
  t.name = "llama";
  t.layers = 3;
  t.hidden = 512;
  t.heads = 16;
  t.kv_heads = 8;
  t.head_width = 32;
  t.feed_forward = 1408;
  t.vocabulary = 4096;
  return t;
}

inline TransformerShape mixture() {
  TransformerShape t = llama();
  t.experts = Experts{.count = 8, .active = 2, .width = 256, .shared_width = 128};
  return t;
}

/// Three blocks of linear attention, then one of gated attention.
inline TransformerShape delta_net() {
  TransformerShape t = mixture();
  t.layers = 4;
  t.attention_gate = true;
  const MixerPtr linear = mixer(
      LinearAttention{.key_heads = 16, .key_width = 32, .value_heads = 32, .value_width = 16});
  t.parts = {{linear}, {linear}, {linear}, {}};
  return t;
}

/// Kimi's, and latent attention without rotation.
inline TransformerShape kimi_delta() {
  TransformerShape t = mixture();
  t.layers = 4;
  t.kv_heads = 16;
  t.position = PositionKind::none;
  t.latent =
      LatentAttention{.key_rank = 64, .plain_width = 32, .rotated_width = 16, .value_width = 32};
  const MixerPtr linear = mixer(KimiDeltaAttention{.heads = 16, .width = 32});
  t.parts = {{linear}, {linear}, {linear}, {}};
  return t;
}

/// State spaces, attention, a feed-forward layer and experts, a block each.
inline TransformerShape state_spaces() {
  TransformerShape t = mixture();
  t.layers = 8;
  t.gated = false;
  t.activation = ActivationKind::relu_squared;
  t.experts->latent = 64;
  const StateSpace mamba = {.heads = 32, .head_width = 16, .state = 32, .groups = 16, .chunk = 64};
  set_hybrid_pattern("MEM*M-ME", mixer(mamba), t);
  return t;
}

inline TransformerShape latent() {
  TransformerShape t = llama();
  t.kv_heads = 16;
  t.latent = LatentAttention{
      .query_rank = 128, .key_rank = 64, .plain_width = 32, .rotated_width = 16, .value_width = 32};
  return t;
}

inline constexpr ModelShape kTokens{.sequence = 256};

inline Model share(const TransformerShape& t, const ModelParallel& parallel) {
  return share_of(t, kTokens, parallel);
}

inline const std::vector<int> kDegrees = {2, 4, 8};

/// All ranks' different parameters, by what the share says of each.
inline double different_parameters(const Model& model, const ModelParallel& parallel) {
  double sum = 0;
  for (const Unit& unit : model.units) {
    BOOST_TEST_REQUIRE(unit.shares.size() == unit.tensors.size());
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      double ranks = 1;
      if (unit.shares[i] == ParameterShare::sharded) ranks = parallel.tensor;
      if (unit.shares[i] == ParameterShare::expert)
        ranks = parallel.expert * parallel.expert_tensor;
      sum += ranks * static_cast<double>(unit.tensors[i]);
    }
  }
  return sum;
}

}  // namespace rehearse
