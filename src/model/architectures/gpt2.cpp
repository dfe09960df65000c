#include <fmt/format.h>

#include "model/architecture.hpp"

namespace rehearse {
namespace {

constexpr const char* kSource =
    "Radford et al. 2019, Language Models are Unsupervised Multitask Learners; tied lm_head";
constexpr std::int64_t kVocabulary = 50257;
constexpr std::int64_t kPositions = 1024;

struct Size {
  std::string name;
  std::int64_t hidden;
  std::int64_t heads;
  int blocks;
};

void append_embeddings(Layers& layers) {
  layers.unit("embeddings");
  const Activation input = layers.current();
  layers.embedding(kVocabulary);
  const Activation words = layers.current();
  layers.resume(input);
  layers.embedding(kPositions, true);
  layers.add(words);
  layers.dropout();
}

void append_block(Layers& layers, const Size& size, bool flash) {
  const Activation input = layers.current();
  layers.layer_norm();
  layers.linear({3 * size.hidden});
  layers.attention({.heads = size.heads,
                    .kv_heads = size.heads,
                    .head_width = size.hidden / size.heads,
                    .flash = flash,
                    .dropout = true});
  layers.linear({size.hidden});
  layers.dropout();
  layers.add(input);
  const Activation middle = layers.current();
  layers.layer_norm();
  layers.linear({4 * size.hidden});
  layers.gelu();
  layers.linear({size.hidden});
  layers.dropout();
  layers.add(middle);
}

Model build(const ModelShape& asked, const Size& size) {
  const ModelShape shape =
      sequence_shape(asked, {.name = size.name, .tokens = kPositions, .most = kPositions});
  Layers layers(token_input(shape.sequence, size.hidden));
  append_embeddings(layers);
  for (int block = 0; block < size.blocks; ++block) {
    layers.unit(fmt::format("h.{}", block));
    append_block(layers, size, shape.flash_attention);
  }
  layers.unit("head");
  layers.layer_norm();
  layers.tied_linear(kVocabulary, false);
  layers.cross_entropy();
  return token_model(size.name, shape, kSource, layers);
}

}  // namespace

Model build_gpt2(const ModelShape& shape) {
  return build(shape, {.name = "gpt2", .hidden = 768, .heads = 12, .blocks = 12});
}

Model build_gpt2_xl(const ModelShape& shape) {
  return build(shape, {.name = "gpt2_xl", .hidden = 1600, .heads = 25, .blocks = 48});
}

}  // namespace rehearse
