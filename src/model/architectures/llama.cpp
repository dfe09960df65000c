#include <fmt/format.h>

#include "model/architecture.hpp"

namespace rehearse {
namespace {

constexpr const char* kSource =
    "Touvron et al., arXiv:2307.09288 (Llama 2); torch.nn.RMSNorm, rotary embedding as in the "
    "reference code";
constexpr std::int64_t kTokens = 4096;

/// Tensors in the order of use (norm, q, k, v, o, norm, gate, up, down), as in the reference code.
void append_block(Layers& layers, const LlamaSize& size, bool flash) {
  const Activation input = layers.current();
  const std::int64_t head_width = size.hidden / size.heads;
  const std::int64_t kv_width = size.kv_heads * head_width;
  layers.rms_norm();
  layers.linear({size.hidden, kv_width, kv_width}, false);
  const Attention attention{
      .heads = size.heads, .kv_heads = size.kv_heads, .head_width = head_width, .flash = flash};
  layers.rotate(attention);
  layers.attention(attention);
  layers.linear({size.hidden}, false);
  layers.add(input);
  const Activation middle = layers.current();
  layers.rms_norm();
  layers.linear({size.feed_forward, size.feed_forward}, false);
  layers.swiglu();
  layers.linear({size.hidden}, false);
  layers.add(middle);
}

}  // namespace

Model llama_model(const LlamaSize& size, const ModelShape& asked) {
  const ModelShape shape = sequence_shape(asked, {.name = size.name, .tokens = kTokens});
  Layers layers(token_input(shape.sequence, size.hidden));
  layers.unit("embeddings");
  layers.parameter(size.vocabulary * size.hidden);
  layers.embedding({.rows = size.vocabulary, .parameter = 0});
  for (int block = 0; block < size.blocks; ++block) {
    layers.unit(fmt::format("layers.{}", block));
    append_block(layers, size, shape.flash_attention);
  }
  layers.unit("head");
  layers.rms_norm();
  layers.linear({size.vocabulary}, false);
  layers.cross_entropy(shape.loss);
  return token_model(size.name, shape, kSource, layers);
}

Model build_llama_7b(const ModelShape& shape) {
  return llama_model({.name = "llama_7b",
                      .hidden = 4096,
                      .feed_forward = 11008,
                      .heads = 32,
                      .kv_heads = 32,
                      .blocks = 32},
                     shape);
}

Model build_llama_70b(const ModelShape& shape) {
  return llama_model({.name = "llama_70b",
                      .hidden = 8192,
                      .feed_forward = 28672,
                      .heads = 64,
                      .kv_heads = 8,
                      .blocks = 80},
                     shape);
}

Model build_small_llama(const ModelShape& shape) {
  return llama_model({.name = "small_llama",
                      .hidden = 512,
                      .feed_forward = 1376,
                      .heads = 4,
                      .kv_heads = 2,
                      .blocks = 4},
                     shape);
}

}  // namespace rehearse
