#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/layers.hpp"
#include "model/model.hpp"
#include "model/transformer.hpp"

namespace rehearse::inline model {

/// A built-in network of another kind than transformers: what it is called, how it is described,
/// what builds it.
struct Architecture {
  std::string name;
  std::string description;
  Model (*build)(const ModelShape& shape);
};

/// A built-in transformer.
struct BuiltInTransformer {
  TransformerShape shape;
  std::string description;
};
const std::vector<BuiltInTransformer>& built_in_transformers();

// One function per network, in architectures/<family>.cpp. Each throws std::invalid_argument as
// build_architecture says.
Model build_vgg16(const ModelShape& shape);
Model build_resnet50(const ModelShape& shape);
Model build_resnet101(const ModelShape& shape);
Model build_resnet152(const ModelShape& shape);
Model build_densenet121(const ModelShape& shape);
Model build_efficientnet_v2_l(const ModelShape& shape);
Model build_convnext_large(const ModelShape& shape);
Model build_bert_large(const ModelShape& shape);
Model build_bert_base(const ModelShape& shape);
Model build_small_cnn(const ModelShape& shape);
Model build_small_mlp(const ModelShape& shape);

// Transformers of the classic families at any size: what the named ones are made of, and small ones
// for tests. Throw as they do.
struct GptSize {
  const char* name = "gpt2";
  std::int64_t hidden = 768;
  std::int64_t heads = 12;
  int blocks = 12;
  std::int64_t vocabulary = 50257;
  std::int64_t positions = 1024;  ///< rows of the position table
};
struct BertSize {
  const char* name = "bert";
  std::int64_t hidden = 1024;
  std::int64_t heads = 16;
  int blocks = 24;
  std::int64_t vocabulary = 30522;
  std::int64_t positions = 512;
};
struct VitSize {
  const char* name;
  std::int64_t hidden, heads, blocks, feed_forward, patch;
};
struct LlamaSize {
  const char* name = "llama";
  std::int64_t hidden = 4096;
  std::int64_t feed_forward = 11008;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 32;  ///< fewer than `heads`: grouped queries
  int blocks = 32;
  std::int64_t vocabulary = 32000;
};
Model gpt2_model(const GptSize& size, const ModelShape& shape);
Model bert_model(const BertSize& size, const ModelShape& shape);
/// torchvision's vision transformer, whose attention is torch.nn.MultiheadAttention.
TransformerShape vit(const VitSize& size);
Model llama_model(const LlamaSize& size, const ModelShape& shape);

/// Values that an image network takes when the shape does not say.
struct ImageDefaults {
  std::string name;
  std::int64_t side = 224;
  std::int64_t smallest = 32;  ///< the product of its strides
};
/// Values that a transformer takes, and the most tokens that its position table has (0: no table).
struct SequenceDefaults {
  std::string name;
  std::int64_t tokens = 1024;
  std::int64_t most = 0;
};

/// The shape with its defaults filled in; std::invalid_argument if it does not suit.
ModelShape image_shape(const ModelShape& shape, const ImageDefaults& defaults);
ModelShape sequence_shape(const ModelShape& shape, const SequenceDefaults& defaults);

/// The activation that an image network starts from, and the model's description of it.
Activation image_input(const ModelShape& shape);
Model image_model(const std::string& name, const ModelShape& shape, const std::string& source,
                  Layers& layers);
/// The same for tokens: `width` hidden channels per token.
Activation token_input(std::int64_t tokens, std::int64_t width);
Model token_model(const std::string& name, const ModelShape& shape, const std::string& source,
                  Layers& layers);

}  // namespace rehearse::inline model
