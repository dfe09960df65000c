#include <fmt/format.h>

#include "models/attention.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

namespace nn = torch::nn;

nn::LayerNorm layer_norm(std::int64_t width) {
  return nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-12));
}

/// Masked tokens per sequence as the pre-training data has them: 20 of 128, 80 of 512.
std::int64_t masked(std::int64_t tokens) { return (tokens * 5 + 31) / 32; }

class Embeddings : public UnitModule {
 public:
  explicit Embeddings(const TransformerSize& size)
      : words_(register_module("words", nn::Embedding(size.vocabulary, size.hidden))),
        positions_(register_module("positions", nn::Embedding(size.positions, size.hidden))),
        types_(register_module("types", nn::Embedding(2, size.hidden))),
        norm_(register_module("norm", layer_norm(size.hidden))),
        dropout_(register_module("dropout", nn::Dropout(size.dropout))) {}

  /// All tokens are of the first sentence.
  torch::Tensor forward(const torch::Tensor& input) override {
    const auto options = torch::TensorOptions(torch::kInt64).device(input.device());
    const torch::Tensor sum = words_->forward(input) +
                              positions_->forward(torch::arange(input.size(1), options)) +
                              types_->forward(torch::zeros_like(input));
    return dropout_->forward(norm_->forward(sum));
  }
  torch::Tensor word_weight() const { return words_->weight; }

 private:
  nn::Embedding words_, positions_, types_;
  nn::LayerNorm norm_;
  nn::Dropout dropout_;
};

class EncoderLayer : public UnitModule {
 public:
  EncoderLayer(const TransformerSize& size, bool flash)
      : size_(size),
        flash_(flash),
        query_(register_module("query", nn::Linear(size.hidden, size.hidden))),
        key_(register_module("key", nn::Linear(size.hidden, size.hidden))),
        value_(register_module("value", nn::Linear(size.hidden, size.hidden))),
        out_(register_module("out", nn::Linear(size.hidden, size.hidden))),
        norm1_(register_module("norm1", layer_norm(size.hidden))),
        up_(register_module("up", nn::Linear(size.hidden, size.feed_forward))),
        down_(register_module("down", nn::Linear(size.feed_forward, size.hidden))),
        norm2_(register_module("norm2", layer_norm(size.hidden))),
        dropout_(register_module("dropout", nn::Dropout(size.dropout))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    const AttentionOptions options{
        .causal = false, .dropout = is_training() ? size_.dropout : 0, .flash = flash_};
    const torch::Tensor mixed =
        attention(split_heads(query_->forward(input), size_.heads),
                  split_heads(key_->forward(input), size_.heads),
                  split_heads(value_->forward(input), size_.heads), options);
    const torch::Tensor middle =
        norm1_->forward(dropout_->forward(out_->forward(join_heads(mixed))) + input);
    const torch::Tensor hidden = down_->forward(torch::gelu(up_->forward(middle)));
    return norm2_->forward(dropout_->forward(hidden) + middle);
  }

 private:
  TransformerSize size_;
  bool flash_;
  nn::Linear query_, key_, value_, out_;
  nn::LayerNorm norm1_;
  nn::Linear up_, down_;
  nn::LayerNorm norm2_;
  nn::Dropout dropout_;
};

/// A bias alone: the masked-token decoder's, whose weight is the word embeddings'.
class Bias : public nn::Module {
 public:
  explicit Bias(std::int64_t width) : bias_(register_parameter("bias", torch::zeros({width}))) {}
  const torch::Tensor& tensor() const { return bias_; }

 private:
  torch::Tensor bias_;
};

/// The pre-training heads. `forward` gives the transformed masked tokens with the pooled first
/// token behind them; `loss` holds the products with the vocabulary and with the two sentence
/// classes. The masked tokens are the sequence's first ones: where they stand costs nothing.
class Head : public UnitModule {
 public:
  Head(const TransformerSize& size, torch::Tensor word_weight)
      : word_weight_(std::move(word_weight)),
        pooler_(register_module("pooler", nn::Linear(size.hidden, size.hidden))),
        bias_(register_module("decoder", std::make_shared<Bias>(size.vocabulary))),
        transform_(register_module("transform", nn::Linear(size.hidden, size.hidden))),
        norm_(register_module("norm", layer_norm(size.hidden))),
        sentence_(register_module("sentence", nn::Linear(size.hidden, 2))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor pooled = torch::tanh(pooler_->forward(input.slice(1, 0, 1)));
    const torch::Tensor chosen = input.slice(1, 0, masked(input.size(1)));
    const torch::Tensor words = norm_->forward(torch::gelu(transform_->forward(chosen)));
    return torch::cat({words, pooled}, 1);
  }

  /// Sum of the masked tokens' and the next sentence's cross entropies.
  torch::Tensor loss(const torch::Tensor& features, const torch::Tensor& target) {
    const std::int64_t words = features.size(1) - 1;
    const torch::Tensor logits =
        torch::linear(features.slice(1, 0, words), word_weight_, bias_->tensor());
    const torch::Tensor sentence = sentence_->forward(features.select(1, words));
    return token_loss(logits, target) + token_loss(sentence, target.select(1, 0).remainder(2));
  }

 private:
  torch::Tensor word_weight_;
  nn::Linear pooler_;
  std::shared_ptr<Bias> bias_;
  nn::Linear transform_;
  nn::LayerNorm norm_;
  nn::Linear sentence_;
};

}  // namespace

Chain bert_chain(const std::string& name, const TransformerSize& size, const ModelShape& shape) {
  const auto embeddings = std::make_shared<Embeddings>(size);
  const auto head = std::make_shared<Head>(size, embeddings->word_weight());
  std::vector<ChainUnit> units = {{"embeddings", embeddings}};
  for (int layer = 0; layer < size.blocks; ++layer) {
    units.push_back({fmt::format("layer.{}", layer),
                     std::make_shared<EncoderLayer>(size, shape.flash_attention)});
  }
  units.push_back({"head", head, "embeddings"});
  return {.name = name,
          .input = {.sequence = shape.sequence,
                    .vocabulary = size.vocabulary,
                    .targets_per_sample = masked(shape.sequence)},
          .units = std::move(units),
          .loss = [head](const torch::Tensor& output, const torch::Tensor& target) {
            return head->loss(output, target);
          }};
}

}  // namespace rehearse::inline calibrate
