// What stands before and behind the blocks of a transformer: embeddings, logits, losses.
#include "model/architectures/transformer_build.hpp"

#include <fmt/format.h>

namespace rehearse::inline model {
namespace {

/// The rows of the position table: as many as tokens where the shape does not say.
std::int64_t position_rows(const TransformerBuild& b) {
  return b.t.position_rows > 0 ? b.t.position_rows : b.tokens * b.parallel.context;
}

}  // namespace

void append_token_embeddings(TransformerBuild& b) {
  Layers& layers = b.layers;
  const std::int64_t width = layers.current().channels;
  const Activation input = layers.current();
  const bool learned = b.t.position == PositionKind::learned;
  layers.parameter(b.t.vocabulary * width, ParameterShare::sharded);
  const auto whole_table = [&](std::int64_t rows) {
    layers.parameter(rows * b.t.hidden, ParameterShare::replicated);
  };
  if (learned) whole_table(position_rows(b));
  if (b.t.token_types > 0) whole_table(b.t.token_types);
  std::vector<Activation> sums;
  if (b.t.token_types > 0) {
    layers.embedding({.rows = b.t.token_types,
                      .parameter = 2,
                      .own_ids = true,
                      .by_sample = b.t.own_positions,
                      .narrow = b.shape.narrow_embeddings});
    layers.hold();
    sums.push_back(layers.current());
    layers.resume(input);
  }
  if (learned) {
    Activation wide = input;
    wide.channels = b.t.hidden;
    layers.resume(wide);
    layers.embedding({.rows = position_rows(b),
                      .parameter = 1,
                      .positions = true,
                      .by_sample = b.t.own_positions,
                      .counted = b.t.spelling.counted,
                      .narrow = b.shape.narrow_embeddings});
    layers.hold();
    sums.push_back(layers.current());
    layers.resume(input);
  }
  layers.embedding({.rows = b.t.vocabulary, .parameter = 0, .narrow = b.shape.narrow_embeddings});
  layers.sum_rows(sums.empty());
  if (b.t.embedding_scale) layers.scale();
  if (width != b.t.hidden) layers.linear({b.t.hidden}, false);
  for (auto sum = sums.rbegin(); sum != sums.rend(); ++sum) {
    layers.hold();
    layers.add(*sum);
  }
  if (sums.size() > 1) layers.release();
  if (!sums.empty()) {
    layers.hold();
    layers.scatter();
  }
  if (b.t.embedding_norm) {
    append_norm(b);
    if (b.drops()) layers.hold();
  }
  if (b.drops() && b.t.embedding_dropout) layers.dropout();
}

// DeepSeek-V3's modules (arXiv:2412.19437, section 2.2): norms of the state and of the next token's
// embedding, a product of both, a block and a norm.
std::vector<Activation> append_predictions(TransformerBuild& b) {
  std::vector<Activation> states;
  for (std::int64_t depth = 0; depth < b.t.predicted_tokens; ++depth) {
    b.layers.unit(fmt::format("predict.{}", depth));
    append_norm(b);
    const Activation normed = b.layers.current();
    b.layers.resume(token_input(b.tokens, b.t.hidden));
    b.layers.shared_embedding(b.t.vocabulary);
    b.layers.sum_rows(true);
    append_norm(b);
    b.layers.beside(normed);
    b.layers.linear({b.t.hidden}, false);
    append_block(b, b.t.layers + depth);
    append_norm(b);
    states.push_back(b.layers.current());
  }
  return states;
}

namespace {

void append_loss(TransformerBuild& b) {
  b.layers.gather_logits();
  if (b.t.logits_scale) b.layers.scale_logits(b.t.divided_logits);
  if (b.t.logits_softcap != 0) b.layers.softcap();
  b.layers.cross_entropy(b.shape.loss);
}

/// `bias`: the parameter that is added to tied logits.
void append_logits(TransformerBuild& b, std::optional<std::uint32_t> bias) {
  Layers& layers = b.layers;
  if (b.t.embedding_width > 0 && b.t.embedding_width != b.t.hidden)
    layers.linear({b.t.embedding_width}, false);
  if (b.t.tied) {
    layers.tied_linear(b.t.vocabulary, bias);
  } else {
    layers.linear({b.t.vocabulary}, b.t.head_bias, Split::columns);
    layers.name_outputs({"lm_head"});
  }
  layers.set_loss_parts(b.shape.loss_parts);
  append_loss(b);
}

}  // namespace

void append_further_logits(TransformerBuild& b, const std::vector<Activation>& states) {
  for (const Activation& state : states) {
    b.layers.resume(state);
    if (b.t.tied) {
      b.layers.tied_linear(b.t.vocabulary);
    } else {
      b.layers.repeat_linear(b.t.vocabulary);
    }
    append_loss(b);
  }
}

void append_head(TransformerBuild& b) {
  Layers& layers = b.layers;
  layers.unit("head");
  if (b.t.final_norm) append_norm(b);
  std::optional<std::uint32_t> bias;
  if (b.t.head == HeadKind::masked) {
    // The decoder's, registered before the dense layer.
    bias = layers.parameter(b.t.vocabulary, ParameterShare::sharded);
    layers.linear({b.t.hidden}, b.t.masked_bias);
    layers.gelu();
    layers.layer_norm(b.t.norm_bias);
  }
  if (b.t.head == HeadKind::classes) {
    layers.select(1);
    layers.linear({b.shape.classes}, true);
    layers.cross_entropy();
  } else {
    append_logits(b, bias);
  }
  layers.keep_unit_wide();
}

}  // namespace rehearse::inline model
