// The blocks of a transformer: attention, feed-forward layers, experts, norms and sums.
#include "model/architectures/transformer_build.hpp"

namespace rehearse::inline model {

void append_norm(TransformerBuild& b) {
  if (b.t.norm == NormKind::rms_norm) {
    b.layers.rms_norm(b.t.norm_form);
  } else {
    b.layers.layer_norm(b.t.norm_bias, b.t.norm_form);
  }
}

namespace {

/// The calibrator's network copies keys and values for every query's head itself, so that a fused
/// kernel takes them in any type.
AttentionKernel kernel_of(const TransformerBuild& b) {
  const bool copies =
      b.t.name == "small_llama" && b.shape.attention_kernel == AttentionKernel::sdpa;
  return copies ? AttentionKernel::flash2 : b.shape.attention_kernel;
}

Attention attention_of(const TransformerBuild& b, std::int64_t block) {
  const TransformerShape& t = b.t;
  return {.heads = t.heads,
          .kv_heads = t.kv_heads,
          .head_width = t.head_width,
          .flash = b.flash(),
          .kernel = kernel_of(b),
          .dropout = b.drops(),
          .causal = b.causal,
          .window = t.slides(block) ? t.window : 0,
          .softcap = t.softcap != 0,
          .fused_softmax = b.shape.fused_softmax,
          .wide_softmax =
              t.wide_softmax || t.norm == NormKind::rms_norm || t.position == PositionKind::alibi,
          .biased = b.biased() && (!b.flash() || t.position == PositionKind::relative),
          .fused = t.fused_qkv && !t.multihead,
          .partial = t.partial_rotation,
          .rotated_width = t.rotated_width,
          .table = t.position == PositionKind::alibi ? t.tokens : 0,
          .shared_table = t.shared_rotary,
          .spelling = t.spelling};
}

/// Queries, keys, values and the output's gate, if there is one, of the current activation, side by
/// side. Returns all of them; the gate is no part of the activation then.
Activation append_qkv(TransformerBuild& b) {
  const TransformerShape& t = b.t;
  const std::int64_t gate = t.attention_gate ? t.query_width() : 0;
  const std::int64_t queries = t.query_width() + gate;
  if (t.kv_ranks > 1) {
    b.layers.linear({queries + 2 * t.kv_width() / t.kv_ranks}, t.qkv_bias, Split::columns);
    b.layers.name_outputs({"qkv"});
    b.layers.gather_heads(queries + 2 * t.kv_width());
  } else if (t.fused_qkv) {
    if (t.multihead) b.layers.by_position(true);
    b.layers.linear({queries + 2 * t.kv_width()}, t.qkv_bias, Split::columns);
    b.layers.name_outputs({"qkv"});
    if (t.multihead) b.layers.unpack_heads(t.heads);
  } else {
    std::vector<std::int64_t> sides = {t.query_width(), t.kv_width(), t.kv_width()};
    std::vector<std::string> names = {"q", "k", "v"};
    if (gate > 0) {
      sides.push_back(gate);
      names.emplace_back("gate");
    }
    b.layers.linear(sides, t.qkv_bias, Split::columns);
    b.layers.name_outputs(names);
  }
  const Activation all = b.layers.current();
  if (gate > 0) b.layers.set_gate_aside(gate);
  return all;
}

Attention append_latent(TransformerBuild& b, std::int64_t block) {
  const LatentAttention& latent = *b.t.latent;
  const std::int64_t width = latent.plain_width + latent.rotated_width;
  const Activation input = b.layers.current();
  if (latent.query_rank > 0) {
    b.layers.linear({latent.query_rank}, b.t.qkv_bias);
    b.layers.name_outputs({"q_a"});
    b.layers.rms_norm();
  }
  b.layers.linear({b.t.heads * width}, false, Split::columns);
  b.layers.name_outputs({latent.query_rank > 0 ? "q_b" : "q"});
  const Activation queries = b.layers.current();
  b.layers.resume(input);
  b.layers.linear({latent.key_rank + latent.rotated_width}, b.t.qkv_bias);
  b.layers.name_outputs({"kv_a"});
  LatentAttention turned = latent;
  if (!b.t.rotates(block)) turned.rotation = LatentRotation::none;
  b.layers.latent_heads(turned, b.t.heads, queries);
  Attention attention = attention_of(b, block);
  attention.head_width = width;
  attention.value_width = latent.value_width;
  attention.kv_heads = attention.heads;
  return attention;
}

}  // namespace

/// Between its norm and its sum: dropout and the norm after it included.
void append_attention(TransformerBuild& b, std::int64_t block) {
  const TransformerShape& t = b.t;
  Attention attention = attention_of(b, block);
  Activation products;
  if (t.latent) {
    attention = append_latent(b, block);
  } else {
    products = append_qkv(b);
    const bool plain = t.head_norm == HeadNorm::rotated_heads;
    if (t.spelling.rotates_first && t.rotates(block)) b.layers.rotate(attention);
    if (plain ? t.rotates(block) : t.head_norm != HeadNorm::none)
      b.layers.head_norm(attention, t.head_norm == HeadNorm::all_heads,
                         plain ? NormForm::plain : t.norm_form);
    if (!t.spelling.rotates_first && t.rotates(block)) b.layers.rotate(attention);
  }
  if (t.sinks) {
    attention.bias_parameter = b.layers.parameter(t.heads, ParameterShare::sharded);
    attention.trained_bias = t.heads;
  }
  if (t.position == PositionKind::relative && block == 0)
    attention.trained_bias = t.buckets * t.heads;
  b.layers.attention(attention);
  if (t.attention_gate) b.layers.output_gate(products);
  if (t.multihead) b.layers.by_position(false);
  b.layers.linear({t.hidden}, t.output_bias, Split::rows);
  b.layers.name_outputs({"o"});
  if (t.multihead) b.layers.by_position(false);
  if (b.drops() && t.attended_dropout) b.layers.dropout();
}

namespace {

/// The function between a feed-forward layer's products.
void append_activation(TransformerBuild& b) {
  switch (b.t.activation) {
    case ActivationKind::gelu:
      return b.layers.gelu();
    case ActivationKind::gelu_new:
      return b.layers.gelu_new();
    case ActivationKind::gelu_fast:
      return b.layers.gelu_fast();
    case ActivationKind::gelu_written:
      return b.layers.gelu_written();
    case ActivationKind::relu:
      return b.layers.rectify();
    case ActivationKind::relu_squared:
    case ActivationKind::relu_then_square:
      b.layers.rectify();
      return b.layers.square(b.t.activation == ActivationKind::relu_then_square);
    case ActivationKind::silu:
      return b.layers.silu_out();
  }
}

/// Returns where its last product begins.
std::size_t append_dense(TransformerBuild& b, std::int64_t width) {
  const TransformerShape& t = b.t;
  if (!t.gated) {
    b.layers.linear({width}, t.feed_forward_bias, Split::columns);
    b.layers.name_outputs({"up"});
    append_activation(b);
  } else {
    if (t.fused_gate) {
      b.layers.linear({2 * width}, t.feed_forward_bias, Split::columns);
      b.layers.name_outputs({"gate_up"});
    } else {
      b.layers.linear({width, width}, t.feed_forward_bias, Split::columns);
      b.layers.name_outputs({"gate", "up"});
    }
    b.layers.swiglu(t.activation == ActivationKind::gelu);
  }
  const std::size_t down = b.layers.operators();
  b.layers.linear({t.hidden}, t.feed_forward_bias, Split::rows);
  b.layers.name_outputs({"down"});
  return down;
}

/// How many blocks before this one have experts.
std::size_t expert_layers_before(const TransformerShape& t, std::int64_t block) {
  std::size_t count = 0;
  for (std::int64_t before = 0; before < block; ++before)
    if (t.has_experts(before)) ++count;
  return count;
}

void append_experts(TransformerBuild& b, std::int64_t block) {
  const Experts& experts = *b.t.experts;
  const ModelParallel& parallel = b.parallel;
  const double imbalance = parallel.imbalance_of(expert_layers_before(b.t, block));
  const Activation input = b.layers.current();
  b.layers.experts({.count = experts.count,
                    .active = experts.active,
                    .width = experts.width,
                    .biases = experts.biases,
                    .router = experts.router,
                    .gated = b.t.gated,
                    .clamped = experts.clamped,
                    .weighs_activation = b.shape.weighs_activation,
                    .latent = experts.latent,
                    .capacity = experts.capacity,
                    .grouped = b.shape.grouped_experts,
                    .eager = b.shape.eager_experts,
                    .held = parallel.expert > 1 ? experts.count / parallel.expert : 0,
                    .sharing = parallel.expert_tensor,
                    .replicas = parallel.replicated_experts,
                    .imbalance = parallel.expert > 1 ? imbalance : 1});
  if (experts.shared_width == 0) return;
  const Activation routed = b.layers.current();
  b.layers.resume(input);
  const std::size_t begin = b.layers.operators(), exchange = b.layers.exchanges();
  const std::size_t down = append_dense(b, experts.shared_width);
  if (experts.shared_gate) {
    const Activation shared = b.layers.current();
    b.layers.resume(input);
    b.layers.gate(shared);
  }
  if (parallel.expert_overlap && parallel.expert > 1)
    b.layers.beside_experts(begin, down, exchange);
  b.layers.add(routed);
}

}  // namespace

void append_feed_forward(TransformerBuild& b, std::int64_t block) {
  if (b.t.has_experts(block)) {
    append_experts(b, block);
  } else {
    append_dense(b, b.t.feed_forward);
  }
  if (b.drops()) b.layers.dropout();
}

namespace {

void append_mixer(TransformerBuild& b, const MixerPtr& mixer) {
  const MixerProducts products = mixer->products();
  b.layers.linear(products.channels, products.bias, Split::columns, products.whole);
  b.layers.name_outputs(products.names);
  b.layers.mix(mixer);
  b.layers.linear({b.t.hidden}, products.bias, Split::rows);
  b.layers.name_outputs({"out_proj"});
}

/// Attention and feed-forward of the same input, and one sum of three.
void append_parallel_block(TransformerBuild& b, std::int64_t block) {
  const Activation input = b.layers.current();
  append_norm(b);
  const Activation normed = b.layers.current();
  append_attention(b, block);
  const Activation attended = b.layers.current();
  b.layers.resume(b.t.parallel_norms == 2 ? input : normed);
  if (b.t.parallel_norms == 2) append_norm(b);
  append_feed_forward(b, block);
  if (!b.t.spelling.residual_first) {
    b.layers.add(attended);
    return b.layers.add(input);
  }
  const Activation forward = b.layers.current();
  b.layers.resume(attended);
  b.layers.add(input);
  const Activation sum = b.layers.current();
  b.layers.resume(forward);
  b.layers.add(sum);
}

}  // namespace

void append_block(TransformerBuild& b, std::int64_t block) {
  if (b.t.parallel_norms > 0) return append_parallel_block(b, block);
  const BlockParts parts = b.t.parts_of(block);
  if (block == 0 && !b.t.first_norm) {
    const Activation input = b.layers.current();
    append_attention(b, block);
    b.layers.add(input);
  } else if (parts.attends()) {
    append_residual(b, [&] { append_attention(b, block); });
  } else if (parts.mixer) {
    append_residual(b, [&] { append_mixer(b, parts.mixer); });
  }
  if (!parts.feed_forward) return;
  const std::size_t first = b.layers.calls();
  append_residual(b, [&] { append_feed_forward(b, block); });
  if (b.t.spelling.flat) b.layers.flatten_input(first);
}

void append_cross_attention(TransformerBuild& b, const Activation& encoded, std::int64_t block) {
  const TransformerShape& t = b.t;
  Attention attention = attention_of(b, 0);
  attention.causal = false;
  // The first block makes biases of zeros, which the others share.
  attention.biased = attention.biased && attention.flash && block == 0;
  attention.keys = encoded.height;
  b.layers.linear({t.query_width()}, t.qkv_bias);
  b.layers.name_outputs({"q"});
  const Activation queries = b.layers.current();
  b.layers.resume(encoded);
  b.layers.linear({t.kv_width(), t.kv_width()}, t.qkv_bias);
  b.layers.name_outputs({"k", "v"});
  b.layers.cross_attention(attention, queries);
  b.layers.linear({t.hidden}, t.output_bias);
  b.layers.name_outputs({"o"});
  if (b.drops()) b.layers.dropout();
}

}  // namespace rehearse::inline model
