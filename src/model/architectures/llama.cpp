#include <fmt/format.h>

#include "model/architecture.hpp"

namespace rehearse {
namespace {

constexpr const char* kSource =
    "Touvron et al., arXiv:2307.09288 (Llama 2); torch.nn.RMSNorm, rotary embedding as in the "
    "reference code";
constexpr std::int64_t kVocabulary = 32000;
constexpr std::int64_t kTokens = 4096;
constexpr std::int64_t kHeadWidth = 128;

struct Size {
  std::string name;
  std::int64_t hidden;
  std::int64_t feed_forward;
  std::int64_t heads;
  std::int64_t kv_heads;
  int blocks;
};

/// Tensors in the order of use (norm, q, k, v, o, norm, gate, up, down), as in the reference code.
void append_block(Layers& layers, const Size& size, bool flash) {
  const Activation input = layers.current();
  const std::int64_t kv_width = size.kv_heads * kHeadWidth;
  layers.rms_norm();
  layers.linear({size.hidden, kv_width, kv_width}, false);
  layers.rotate(size.hidden + kv_width);
  layers.attention(
      {.heads = size.heads, .kv_heads = size.kv_heads, .head_width = kHeadWidth, .flash = flash});
  layers.linear({size.hidden}, false);
  layers.add(input);
  const Activation middle = layers.current();
  layers.rms_norm();
  layers.linear({size.feed_forward, size.feed_forward}, false);
  layers.swiglu();
  layers.linear({size.hidden}, false);
  layers.add(middle);
}

Model build(const ModelShape& asked, const Size& size) {
  const ModelShape shape = sequence_shape(asked, {.name = size.name, .tokens = kTokens});
  Layers layers(token_input(shape.sequence, size.hidden));
  layers.unit("embeddings");
  layers.embedding(kVocabulary);
  for (int block = 0; block < size.blocks; ++block) {
    layers.unit(fmt::format("layers.{}", block));
    append_block(layers, size, shape.flash_attention);
  }
  layers.unit("head");
  layers.rms_norm();
  layers.linear({kVocabulary}, false);
  layers.cross_entropy();
  return token_model(size.name, shape, kSource, layers);
}

}  // namespace

Model build_llama_7b(const ModelShape& shape) {
  return build(shape, {.name = "llama_7b",
                       .hidden = 4096,
                       .feed_forward = 11008,
                       .heads = 32,
                       .kv_heads = 32,
                       .blocks = 32});
}

Model build_llama_70b(const ModelShape& shape) {
  return build(shape, {.name = "llama_70b",
                       .hidden = 8192,
                       .feed_forward = 28672,
                       .heads = 64,
                       .kv_heads = 8,
                       .blocks = 80});
}

Model build_small_llama(const ModelShape& shape) {
  return build(shape, {.name = "small_llama",
                       .hidden = 512,
                       .feed_forward = 1376,
                       .heads = 4,
                       .kv_heads = 2,
                       .blocks = 4});
}

}  // namespace rehearse
