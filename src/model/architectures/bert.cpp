#include <fmt/format.h>

#include "model/architecture.hpp"

namespace rehearse {
namespace {

// BertForPreTraining, uncased: embeddings, 24 layers, pooler, masked-token head (its decoder tied
// to the word embeddings, with a bias of its own) and next-sentence head: 336,226,108 parameters
// with the vocabulary of 30,522. NVIDIA's recipe pads the vocabulary to 30,528, which adds 6 x
// 1,024 + 6 = 6,150 parameters to the same network.
constexpr const char* kSource =
    "Devlin et al., arXiv:1810.04805; BertForPreTraining, uncased vocabulary of 30,522";
constexpr std::int64_t kVocabulary = 30522;
constexpr std::int64_t kPositions = 512;
constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kHeads = 16;
constexpr int kLayers = 24;

/// Masked tokens per sequence as the pre-training data has them: 20 of 128, 80 of 512.
std::int64_t masked(std::int64_t tokens) { return (tokens * 5 + 31) / 32; }

void append_embeddings(Layers& layers) {
  layers.unit("embeddings");
  const Activation input = layers.current();
  layers.embedding(kVocabulary);
  const Activation words = layers.current();
  layers.resume(input);
  layers.embedding(kPositions, true);
  layers.add(words);
  const Activation sum = layers.current();
  layers.resume(input);
  layers.embedding(2);
  layers.add(sum);
  layers.layer_norm();
  layers.dropout();
}

void append_layer(Layers& layers, bool flash) {
  const Activation input = layers.current();
  layers.linear({kHidden, kHidden, kHidden});
  layers.attention({.heads = kHeads,
                    .kv_heads = kHeads,
                    .head_width = kHidden / kHeads,
                    .flash = flash,
                    .dropout = true});
  layers.linear({kHidden});
  layers.dropout();
  layers.add(input);
  layers.layer_norm();
  const Activation middle = layers.current();
  layers.linear({4 * kHidden});
  layers.gelu();
  layers.linear({kHidden});
  layers.dropout();
  layers.add(middle);
  layers.layer_norm();
}

/// Only masked tokens enter the vocabulary product, as in NVIDIA's recipe; the first token is
/// pooled.
void append_head(Layers& layers, std::int64_t tokens) {
  layers.unit("head");
  const Activation output = layers.current();
  layers.select(1);
  layers.linear({kHidden});
  layers.tanh();
  const Activation pooled = layers.current();
  layers.resume(output);
  layers.select(masked(tokens));
  layers.parameter(kVocabulary);  // the decoder's bias belongs to the head itself: registered first
  layers.linear({kHidden});
  layers.gelu();
  layers.layer_norm();
  layers.tied_linear(kVocabulary, false);
  layers.cross_entropy();
  layers.resume(pooled);
  layers.linear({2});
  layers.cross_entropy();
}

}  // namespace

Model build_bert_large(const ModelShape& asked) {
  const ModelShape shape =
      sequence_shape(asked, {.name = "bert_large", .tokens = 128, .most = kPositions});
  Layers layers(token_input(shape.sequence, kHidden));
  append_embeddings(layers);
  for (int layer = 0; layer < kLayers; ++layer) {
    layers.unit(fmt::format("layer.{}", layer));
    append_layer(layers, shape.flash_attention);
  }
  append_head(layers, shape.sequence);
  return token_model("bert_large", shape, kSource, layers);
}

}  // namespace rehearse
