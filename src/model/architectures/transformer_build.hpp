#pragma once

#include "model/architecture.hpp"
#include "model/transformer.hpp"

namespace rehearse::inline model {

/// One model under construction: the dimensions, what was asked, the layers so far.
struct TransformerBuild {
  const TransformerShape& t;
  ModelShape shape;
  Layers layers;
  ModelParallel parallel = {};
  std::int64_t tokens = 0;  ///< of the decoder, or of the only stack: this rank's
  bool causal = true;       ///< of the stack under construction

  bool flash() const { return fuses_attention(t, shape); }
  /// transformers adds biases of distances to scores that it materialises.
  bool biased() const {
    return t.position == PositionKind::relative || t.position == PositionKind::alibi;
  }
  bool drops() const { return t.dropout > 0; }
};

// transformer_blocks.cpp

void append_norm(TransformerBuild& b);
void append_attention(TransformerBuild& b, std::int64_t block);
/// Appends the decoder's attention to what the encoder has made.
void append_cross_attention(TransformerBuild& b, const Activation& encoded, std::int64_t block);
void append_feed_forward(TransformerBuild& b, std::int64_t block);
void append_block(TransformerBuild& b, std::int64_t block);

/// Norm, sublayer and sum, where the shape has them.
template <typename Sublayer>
void append_residual(TransformerBuild& b, const Sublayer& sublayer) {
  const Activation input = b.layers.current();
  const NormPlace place = b.t.norm_place;
  if (place == NormPlace::before || place == NormPlace::around) append_norm(b);
  sublayer();
  if (place == NormPlace::around || place == NormPlace::after) append_norm(b);
  if (b.t.branch_scale) b.layers.scale();
  b.layers.add(input);
  if (place == NormPlace::after_sum) append_norm(b);
}

// transformer_ends.cpp

void append_token_embeddings(TransformerBuild& b);
/// Appends the modules of further tokens, and returns what each leaves for its logits.
std::vector<Activation> append_predictions(TransformerBuild& b);
void append_head(TransformerBuild& b);
/// The logits of further tokens: the same weight.
void append_further_logits(TransformerBuild& b, const std::vector<Activation>& states);

}  // namespace rehearse::inline model
