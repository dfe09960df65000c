#include <fmt/format.h>

#include "model/architecture.hpp"

namespace rehearse::inline model {
namespace {

// BertForPreTraining, uncased: embeddings, 24 layers, pooler, masked-token head (its decoder tied
// to the word embeddings, with a bias of its own) and next-sentence head: 336,226,108 parameters
// with the vocabulary of 30,522. NVIDIA's recipe pads the vocabulary to 30,528, which adds 6 x
// 1,024 + 6 = 6,150 parameters to the same network.
constexpr const char* kBertSource =
    "Devlin et al., arXiv:1810.04805; BertForPreTraining, uncased vocabulary of 30,522";
constexpr BertSize kLarge = {.name = "bert_large",
                             .hidden = 1024,
                             .heads = 16,
                             .blocks = 24,
                             .vocabulary = 30522,
                             .positions = 512};

/// Masked tokens per sequence as the pre-training data has them: 20 of 128, 80 of 512.
std::int64_t masked(std::int64_t tokens) { return (tokens * 5 + 31) / 32; }

void append_embeddings(Layers& layers, const BertSize& size) {
  layers.unit("embeddings");
  const Activation input = layers.current();
  for (const std::int64_t rows : {size.vocabulary, size.positions, std::int64_t{2}}) {
    layers.parameter(rows * size.hidden);
  }
  // A sum's right side is made first.
  layers.embedding({.rows = 2, .parameter = 2, .own_ids = true});
  layers.hold();
  const Activation types = layers.current();
  layers.resume(input);
  layers.embedding({.rows = size.positions, .parameter = 1, .positions = true});
  layers.hold();
  const Activation table = layers.current();
  layers.resume(input);
  layers.embedding({.rows = size.vocabulary, .parameter = 0});
  layers.hold();
  layers.add(table);
  layers.hold();
  layers.add(types);
  layers.release();
  layers.hold();
  layers.layer_norm();
  layers.hold();
  layers.dropout();
}

void append_layer(Layers& layers, const BertSize& size, const ModelShape& shape) {
  const Activation input = layers.current();
  layers.linear({size.hidden, size.hidden, size.hidden});
  layers.attention({.heads = size.heads,
                    .kv_heads = size.heads,
                    .head_width = size.hidden / size.heads,
                    .flash = shape.flash_attention,
                    .kernel = shape.attention_kernel,
                    .dropout = true,
                    .causal = false});
  layers.hold();
  layers.linear({size.hidden});
  layers.dropout();
  layers.add(input);
  layers.layer_norm();
  const Activation middle = layers.current();
  layers.linear({4 * size.hidden});
  layers.gelu();
  layers.linear({size.hidden});
  layers.hold();
  layers.dropout();
  layers.hold();
  layers.add(middle);
  layers.layer_norm();
}

/// Only masked tokens enter the vocabulary product, as in NVIDIA's recipe; the first token is
/// pooled.
void append_head(Layers& layers, const BertSize& size, std::int64_t tokens) {
  layers.unit("head");
  const Activation output = layers.current();
  layers.select(1);
  layers.linear({size.hidden});
  layers.tanh();
  const Activation pooled = layers.current();
  layers.resume(output);
  layers.select(masked(tokens));
  layers.parameter(
      size.vocabulary);  // the decoder's bias belongs to the head itself: registered first
  layers.linear({size.hidden});
  layers.gelu();
  layers.layer_norm();
  layers.tied_linear(size.vocabulary, 2);
  const Activation logits = layers.current();
  layers.resume(pooled);
  layers.linear({2});
  layers.cross_entropy();
  layers.resume(logits);
  layers.cross_entropy();
}

}  // namespace

Model bert_model(const BertSize& size, const ModelShape& asked) {
  const ModelShape shape =
      sequence_shape(asked, {.name = size.name, .tokens = 128, .most = size.positions});
  Layers layers(token_input(shape.sequence, size.hidden));
  append_embeddings(layers, size);
  for (int layer = 0; layer < size.blocks; ++layer) {
    layers.unit(fmt::format("layer.{}", layer));
    append_layer(layers, size, shape);
  }
  append_head(layers, size, shape.sequence);
  Model model = token_model(size.name, shape, kBertSource, layers);
  model.layers = size.blocks;
  return model;
}

Model build_bert_large(const ModelShape& shape) { return bert_model(kLarge, shape); }

Model build_bert_base(const ModelShape& shape) {
  return bert_model({.name = "bert_base", .hidden = 768, .heads = 12, .blocks = 12}, shape);
}

}  // namespace rehearse::inline model
