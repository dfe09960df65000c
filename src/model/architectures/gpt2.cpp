#include <fmt/format.h>

#include "model/architecture.hpp"

namespace rehearse {
namespace {

/// What GPTs of one family have in common.
struct Family {
  const char* source;
  std::int64_t vocabulary;
  std::int64_t tokens;  ///< where the shape does not say
  bool any_length;      ///< the position table is as long as the sequence; else of `tokens`
  bool dropout;
};
constexpr Family kGpt2 = {
    .source =
        "Radford et al. 2019, Language Models are Unsupervised Multitask Learners; tied lm_head",
    .vocabulary = 50257,
    .tokens = 1024,
    .any_length = false,
    .dropout = true};
constexpr Family kMpt = {
    .source = "mosaicml/llm-foundry, scripts/train/yamls/pretrain/mpt-*.yaml; tied lm_head",
    .vocabulary = 50368,
    .tokens = 2048,
    .any_length = true,
    .dropout = false};

void append_embeddings(Layers& layers, const Family& family, std::int64_t positions) {
  layers.unit("embeddings");
  const Activation input = layers.current();
  layers.parameter(family.vocabulary * input.channels);
  layers.parameter(positions * input.channels);
  layers.embedding({.rows = positions, .parameter = 1, .positions = true});
  layers.hold();
  const Activation table = layers.current();
  layers.resume(input);
  layers.embedding({.rows = family.vocabulary, .parameter = 0});
  layers.hold();
  layers.add(table);
  layers.hold();
  if (family.dropout) layers.dropout();
}

void append_block(Layers& layers, const GptSize& size, bool flash, bool dropout) {
  const Activation input = layers.current();
  layers.layer_norm();
  layers.linear({3 * size.hidden});
  layers.attention({.heads = size.heads,
                    .kv_heads = size.heads,
                    .head_width = size.hidden / size.heads,
                    .flash = flash,
                    .dropout = dropout});
  layers.linear({size.hidden});
  if (dropout) layers.dropout();
  layers.add(input);
  const Activation middle = layers.current();
  layers.layer_norm();
  layers.linear({4 * size.hidden});
  layers.gelu();
  layers.linear({size.hidden});
  if (dropout) layers.dropout();
  layers.add(middle);
}

Model build(const ModelShape& asked, const Family& family, const GptSize& size) {
  const ModelShape shape = sequence_shape(
      asked,
      {.name = size.name, .tokens = family.tokens, .most = family.any_length ? 0 : family.tokens});
  Layers layers(token_input(shape.sequence, size.hidden));
  append_embeddings(layers, family, family.any_length ? shape.sequence : family.tokens);
  for (int block = 0; block < size.blocks; ++block) {
    layers.unit(fmt::format("h.{}", block));
    append_block(layers, size, shape.flash_attention, family.dropout);
  }
  layers.unit("head");
  layers.layer_norm();
  layers.tied_linear(family.vocabulary);
  layers.cross_entropy(shape.loss);
  return token_model(size.name, shape, family.source, layers);
}

}  // namespace

Model gpt2_model(const GptSize& size, const ModelShape& shape) {
  Family family = kGpt2;
  family.vocabulary = size.vocabulary;
  family.tokens = size.positions;
  return build(shape, family, size);
}

Model build_gpt2(const ModelShape& shape) {
  return build(shape, kGpt2, {.name = "gpt2", .hidden = 768, .heads = 12, .blocks = 12});
}

Model build_gpt2_xl(const ModelShape& shape) {
  return build(shape, kGpt2, {.name = "gpt2_xl", .hidden = 1600, .heads = 25, .blocks = 48});
}

Model build_mpt_125m(const ModelShape& shape) {
  return build(shape, kMpt, {.name = "mpt_125m", .hidden = 768, .heads = 12, .blocks = 12});
}

Model build_mpt_350m(const ModelShape& shape) {
  return build(shape, kMpt, {.name = "mpt_350m", .hidden = 1024, .heads = 16, .blocks = 24});
}

Model build_mpt_760m(const ModelShape& shape) {
  return build(shape, kMpt, {.name = "mpt_760m", .hidden = 1536, .heads = 12, .blocks = 24});
}

Model build_mpt_1b(const ModelShape& shape) {
  return build(shape, kMpt, {.name = "mpt_1b", .hidden = 2048, .heads = 16, .blocks = 24});
}

Model build_mpt_3b(const ModelShape& shape) {
  return build(shape, kMpt, {.name = "mpt_3b", .hidden = 2560, .heads = 20, .blocks = 32});
}

Model build_mpt_7b(const ModelShape& shape) {
  return build(shape, kMpt, {.name = "mpt_7b", .hidden = 4096, .heads = 32, .blocks = 32});
}

Model build_mpt_13b(const ModelShape& shape) {
  return build(shape, kMpt, {.name = "mpt_13b", .hidden = 5120, .heads = 40, .blocks = 40});
}

}  // namespace rehearse
