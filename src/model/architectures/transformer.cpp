// Any transformer: embeddings, blocks and a head, from its dimensions.
#include "model/transformer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/architecture.hpp"

namespace rehearse {
namespace {

/// One model under construction: the dimensions, what was asked, the layers so far.
struct Build {
  const TransformerShape& t;
  ModelShape shape;
  Layers layers;
  std::int64_t tokens = 0;  ///< of the decoder, or of the only stack
  bool causal = true;       ///< of the stack under construction

  bool flash() const {
    return shape.flash_attention && t.softcap == 0 && !t.sinks && !biased();
  }
  /// transformers adds biases of distances to scores that it materialises.
  bool biased() const {
    return t.position == PositionKind::relative || t.position == PositionKind::alibi;
  }
  bool drops() const { return t.dropout > 0; }
};

void append_norm(Build& b) {
  if (b.t.norm == NormKind::rms_norm) {
    b.layers.rms_norm();
  } else {
    b.layers.layer_norm(b.t.norm_bias);
  }
}

Attention attention_of(const Build& b, std::int64_t block) {
  const TransformerShape& t = b.t;
  return {.heads = t.heads,
          .kv_heads = t.kv_heads,
          .head_width = t.head_width,
          .flash = b.flash(),
          .dropout = b.drops(),
          .causal = b.causal,
          .window = t.slides(block) ? t.window : 0,
          .softcap = t.softcap != 0,
          .biased = b.biased(),
          .fused = t.fused_qkv,
          .shared_table = t.shared_rotary};
}

/// Queries, keys and values of the current activation, side by side.
void append_qkv(Build& b) {
  const TransformerShape& t = b.t;
  if (t.fused_qkv) {
    b.layers.linear({t.query_width() + 2 * t.kv_width()}, t.qkv_bias);
  } else {
    b.layers.linear({t.query_width(), t.kv_width(), t.kv_width()}, t.qkv_bias);
  }
}

Attention append_latent(Build& b, std::int64_t block) {
  const LatentAttention& latent = *b.t.latent;
  const std::int64_t width = latent.plain_width + latent.rotated_width;
  const Activation input = b.layers.current();
  if (latent.query_rank > 0) {
    b.layers.linear({latent.query_rank}, b.t.qkv_bias);
    b.layers.rms_norm();
  }
  b.layers.linear({b.t.heads * width}, false);
  const Activation queries = b.layers.current();
  b.layers.resume(input);
  b.layers.linear({latent.key_rank + latent.rotated_width}, b.t.qkv_bias);
  b.layers.latent_heads(latent, b.t.heads, queries);
  Attention attention = attention_of(b, block);
  attention.head_width = width;
  attention.value_width = latent.value_width;
  attention.kv_heads = attention.heads;
  return attention;
}

/// Between its norm and its sum: dropout and the norm after it included.
void append_attention(Build& b, std::int64_t block) {
  const TransformerShape& t = b.t;
  Attention attention = attention_of(b, block);
  if (t.latent) {
    attention = append_latent(b, block);
  } else {
    append_qkv(b);
    if (t.head_norm != HeadNorm::none)
      b.layers.head_norm(attention, t.head_norm == HeadNorm::all_heads);
    if (t.position == PositionKind::rope) b.layers.rotate(attention);
  }
  if (t.sinks) {
    attention.bias_parameter = b.layers.parameter(t.heads);
    attention.trained_bias = t.heads;
  }
  if (t.position == PositionKind::relative && block == 0)
    attention.trained_bias = t.buckets * t.heads;
  b.layers.attention(attention);
  b.layers.linear({t.hidden}, t.output_bias);
  if (b.drops()) b.layers.dropout();
}

/// The function between a feed-forward layer's products.
void append_activation(Build& b) {
  switch (b.t.activation) {
    case ActivationKind::gelu:
      return b.layers.gelu();
    case ActivationKind::gelu_new:
      return b.layers.gelu_new();
    case ActivationKind::relu:
      return b.layers.rectify();
    case ActivationKind::silu:
      return b.layers.silu_out();
  }
}

void append_dense(Build& b, std::int64_t width) {
  const TransformerShape& t = b.t;
  if (!t.gated) {
    b.layers.linear({width}, t.feed_forward_bias);
    append_activation(b);
  } else {
    if (t.fused_gate) {
      b.layers.linear({2 * width}, t.feed_forward_bias);
    } else {
      b.layers.linear({width, width}, t.feed_forward_bias);
    }
    b.layers.swiglu();
  }
  b.layers.linear({t.hidden}, t.feed_forward_bias);
}

void append_experts(Build& b) {
  const Experts& experts = *b.t.experts;
  const Activation input = b.layers.current();
  b.layers.experts({.count = experts.count,
                    .active = experts.active,
                    .width = experts.width,
                    .biases = experts.biases,
                    .capacity = experts.capacity});
  if (experts.shared_width == 0) return;
  const Activation routed = b.layers.current();
  b.layers.resume(input);
  append_dense(b, experts.shared_width);
  if (experts.shared_gate) {
    const Activation shared = b.layers.current();
    b.layers.resume(input);
    b.layers.gate(shared);
  }
  b.layers.add(routed);
}

void append_feed_forward(Build& b, std::int64_t block) {
  if (b.t.experts && b.t.experts->at(block)) {
    append_experts(b);
  } else {
    append_dense(b, b.t.feed_forward);
  }
  if (b.drops()) b.layers.dropout();
}

/// Norm, sublayer and sum, where the shape has them.
template <typename Sublayer>
void append_residual(Build& b, const Sublayer& sublayer) {
  const Activation input = b.layers.current();
  const NormPlace place = b.t.norm_place;
  if (place == NormPlace::before || place == NormPlace::around) append_norm(b);
  sublayer();
  if (place == NormPlace::around || place == NormPlace::after) append_norm(b);
  b.layers.add(input);
  if (place == NormPlace::after_sum) append_norm(b);
}

/// Attention and feed-forward of the same input, and one sum of three.
void append_parallel_block(Build& b, std::int64_t block) {
  const Activation input = b.layers.current();
  append_norm(b);
  const Activation normed = b.layers.current();
  append_attention(b, block);
  const Activation attended = b.layers.current();
  b.layers.resume(b.t.parallel_norms == 2 ? input : normed);
  if (b.t.parallel_norms == 2) append_norm(b);
  append_feed_forward(b, block);
  b.layers.add(attended);
  b.layers.add(input);
}

void append_block(Build& b, std::int64_t block) {
  if (b.t.parallel_norms > 0) return append_parallel_block(b, block);
  append_residual(b, [&] { append_attention(b, block); });
  append_residual(b, [&] { append_feed_forward(b, block); });
}

/// The rows of the position table: as many as tokens where the shape does not say.
std::int64_t position_rows(const Build& b) {
  return b.t.position_rows > 0 ? b.t.position_rows : b.tokens;
}

void append_token_embeddings(Build& b) {
  Layers& layers = b.layers;
  const std::int64_t width = layers.current().channels;
  const Activation input = layers.current();
  const bool learned = b.t.position == PositionKind::learned;
  layers.parameter(b.t.vocabulary * width);
  if (learned) layers.parameter(position_rows(b) * b.t.hidden);
  if (b.t.token_types > 0) layers.parameter(b.t.token_types * b.t.hidden);
  std::vector<Activation> sums;
  if (b.t.token_types > 0) {
    layers.embedding({.rows = b.t.token_types, .parameter = 2, .own_ids = true});
    layers.hold();
    sums.push_back(layers.current());
    layers.resume(input);
  }
  if (learned) {
    Activation wide = input;
    wide.channels = b.t.hidden;
    layers.resume(wide);
    layers.embedding({.rows = position_rows(b), .parameter = 1, .positions = true});
    layers.hold();
    sums.push_back(layers.current());
    layers.resume(input);
  }
  layers.embedding({.rows = b.t.vocabulary, .parameter = 0});
  if (b.t.embedding_scale) layers.scale();
  if (width != b.t.hidden) layers.linear({b.t.hidden}, false);
  for (auto sum = sums.rbegin(); sum != sums.rend(); ++sum) {
    layers.hold();
    layers.add(*sum);
  }
  if (sums.size() > 1) layers.release();
  if (!sums.empty()) layers.hold();
  if (b.t.embedding_norm) {
    append_norm(b);
    if (b.drops()) layers.hold();
  }
  if (b.drops()) layers.dropout();
}

void append_stack(Build& b, const std::string& name) {
  for (std::int64_t block = 0; block < b.t.layers; ++block) {
    b.layers.unit(fmt::format("{}.{}", name, block));
    append_block(b, block);
  }
}

/// DeepSeek-V3's modules (arXiv:2412.19437, section 2.2): norms of the state and of the next
/// token's embedding, a product of both, a block and a norm; what each leaves for the logits.
std::vector<Activation> append_predictions(Build& b) {
  std::vector<Activation> states;
  for (std::int64_t depth = 0; depth < b.t.predicted_tokens; ++depth) {
    b.layers.unit(fmt::format("predict.{}", depth));
    append_norm(b);
    const Activation normed = b.layers.current();
    b.layers.resume(token_input(b.tokens, b.t.hidden));
    b.layers.shared_embedding(b.t.vocabulary);
    append_norm(b);
    b.layers.beside(normed);
    b.layers.linear({b.t.hidden}, false);
    append_block(b, b.t.layers + depth);
    append_norm(b);
    states.push_back(b.layers.current());
  }
  return states;
}

void append_loss(Build& b) {
  if (b.t.logits_softcap != 0) b.layers.softcap();
  b.layers.cross_entropy(b.shape.loss);
}

void append_logits(Build& b) {
  Layers& layers = b.layers;
  if (b.t.embedding_width > 0 && b.t.embedding_width != b.t.hidden)
    layers.linear({b.t.embedding_width}, false);
  if (b.t.tied) {
    layers.tied_linear(b.t.vocabulary, b.t.head == HeadKind::masked
                                           ? std::optional<std::uint32_t>(0)
                                           : std::nullopt);
  } else {
    layers.linear({b.t.vocabulary}, b.t.head_bias);
  }
  append_loss(b);
}

/// The logits of further tokens: the same weight.
void append_further_logits(Build& b, const std::vector<Activation>& states) {
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

void append_head(Build& b) {
  Layers& layers = b.layers;
  layers.unit("head");
  if (b.t.final_norm) append_norm(b);
  if (b.t.head == HeadKind::masked) {
    layers.parameter(b.t.vocabulary);  // the decoder's bias, registered before the dense layer
    layers.linear({b.t.hidden}, true);
    layers.gelu();
    layers.layer_norm();
  }
  if (b.t.head == HeadKind::classes) {
    layers.select(1);
    layers.linear({b.shape.classes}, true);
    layers.cross_entropy();
    return;
  }
  append_logits(b);
}

/// Encoder, then decoder: each of the decoder's blocks also attends to what the encoder has made.
void append_encoder(Build& b) {
  b.causal = false;
  for (std::int64_t block = 0; block < b.t.encoder_layers; ++block) {
    b.layers.unit(fmt::format("encoder.{}", block));
    if (block == 0 && b.t.position == PositionKind::relative)
      b.layers.parameter(b.t.buckets * b.t.heads);
    append_block(b, block);
  }
  append_norm(b);
  if (b.drops()) b.layers.dropout();
}

void append_cross_attention(Build& b, const Activation& encoded) {
  const TransformerShape& t = b.t;
  Attention attention = attention_of(b, 0);
  attention.causal = false;
  attention.biased = false;
  attention.keys = encoded.height;
  b.layers.linear({t.query_width()}, t.qkv_bias);
  const Activation queries = b.layers.current();
  b.layers.resume(encoded);
  b.layers.linear({t.kv_width(), t.kv_width()}, t.qkv_bias);
  b.layers.cross_attention(attention, queries);
  b.layers.linear({t.hidden}, t.output_bias);
  if (b.drops()) b.layers.dropout();
}

void append_decoder(Build& b) {
  const Activation encoded = b.layers.current();
  b.causal = true;
  b.layers.unit("decoder.embeddings");
  b.layers.resume(token_input(b.tokens, b.t.hidden));
  b.layers.shared_embedding(b.t.vocabulary);
  if (b.drops()) b.layers.dropout();
  for (std::int64_t block = 0; block < b.t.layers; ++block) {
    b.layers.unit(fmt::format("decoder.{}", block));
    if (block == 0 && b.t.position == PositionKind::relative)
      b.layers.parameter(b.t.buckets * b.t.heads);
    append_residual(b, [&] { append_attention(b, block); });
    append_residual(b, [&] { append_cross_attention(b, encoded); });
    append_residual(b, [&] { append_feed_forward(b, block); });
  }
}

Model build_tokens(const TransformerShape& t, const ModelShape& asked) {
  const ModelShape shape = sequence_shape(
      asked, {.name = t.name, .tokens = t.tokens, .most = t.most_tokens});
  const std::int64_t width = t.embedding_width > 0 ? t.embedding_width : t.hidden;
  const bool pair = t.encoder_layers > 0;
  Build b{t, shape, Layers(token_input(shape.sequence, width))};
  b.tokens = pair && t.target_tokens > 0 ? t.target_tokens : shape.sequence;
  b.causal = t.causal();
  b.layers.unit("embeddings");
  append_token_embeddings(b);
  if (pair) {
    append_encoder(b);
    append_decoder(b);
  } else {
    append_stack(b, t.unit_prefix);
  }
  const Activation trunk = b.layers.current();
  const std::vector<Activation> states = append_predictions(b);
  b.layers.resume(trunk);
  append_head(b);
  append_further_logits(b, states);
  return token_model(t.name, shape, t.source, b.layers);
}

Model build_patches(const TransformerShape& t, const ModelShape& asked) {
  ModelShape shape = image_shape(asked, {.name = t.name, .side = t.image, .smallest = t.patch});
  if (asked.classes == 0) shape.classes = t.classes;
  Build b{t, shape, Layers(image_input(shape))};
  b.causal = false;
  b.layers.unit("embeddings");
  b.layers.parameter(t.hidden);
  const std::int64_t side = shape.image / t.patch;
  b.layers.parameter((side * side + 1) * t.hidden);
  b.layers.convolution(
      {.channels = t.hidden, .kernel = t.patch, .stride = t.patch, .bias = true});
  b.layers.class_token();
  if (b.drops()) b.layers.dropout();
  append_stack(b, t.unit_prefix);
  append_head(b);
  return image_model(t.name, shape, t.source, b.layers);
}

}  // namespace

bool Experts::at(std::int64_t block) const {
  return block >= first_dense && (block + 1) % interval == 0 &&
         std::ranges::find(dense_blocks, block) == dense_blocks.end();
}

bool TransformerShape::slides(std::int64_t block) const {
  if (window == 0) return false;
  if (block < static_cast<std::int64_t>(sliding.size()))
    return sliding[static_cast<std::size_t>(block)];
  return full_every == 0 || (block + 1) % full_every != 0;
}

Model transformer_model(const TransformerShape& t, const ModelShape& shape) {
  Model model = t.image > 0 ? build_patches(t, shape) : build_tokens(t, shape);
  model.family = t.family;
  model.layers = t.layers + t.encoder_layers;
  return model;
}

std::string contradiction(const TransformerShape& t) {
  if (t.kv_heads > 0 && t.heads % t.kv_heads != 0)
    return fmt::format("{} attention heads are no multiple of {} key-value heads", t.heads,
                       t.kv_heads);
  if (t.experts && t.experts->active > t.experts->count)
    return fmt::format("{} active experts of {}", t.experts->active, t.experts->count);
  if (t.position == PositionKind::rope && !t.latent && t.head_width % 2 != 0)
    return fmt::format("rotary positions turn pairs: heads of {} channels have none for the last",
                       t.head_width);
  if (t.image > 0 && t.image % t.patch != 0)
    return fmt::format("patches of {} pixels do not divide an image of {}", t.patch, t.image);
  return "";
}

}  // namespace rehearse
