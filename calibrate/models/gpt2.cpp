#include <fmt/format.h>

#include "models/attention.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

namespace nn = torch::nn;

class Embeddings : public UnitModule {
 public:
  explicit Embeddings(const TransformerSize& size)
      : words_(register_module("words", nn::Embedding(size.vocabulary, size.hidden))),
        positions_(register_module("positions", nn::Embedding(size.positions, size.hidden))),
        dropout_(register_module("dropout", nn::Dropout(size.dropout))) {
    // As OpenAI's gpt-2 and transformers' initializer_range have them: logits begin near 0.
    constexpr double kDeviation = 0.02;
    for (const nn::Embedding& table : {words_, positions_})
      nn::init::normal_(table->weight, 0, kDeviation);
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor positions =
        torch::arange(input.size(1), torch::TensorOptions(torch::kInt64).device(input.device()));
    return dropout_->forward(words_->forward(input) + positions_->forward(positions));
  }
  torch::Tensor word_weight() const { return words_->weight; }

 private:
  nn::Embedding words_, positions_;
  nn::Dropout dropout_;
};

class Block : public UnitModule {
 public:
  Block(const TransformerSize& size, bool flash)
      : size_(size),
        flash_(flash),
        norm1_(register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({size.hidden})))),
        qkv_(register_module("qkv", nn::Linear(size.hidden, 3 * size.hidden))),
        out_(register_module("out", nn::Linear(size.hidden, size.hidden))),
        norm2_(register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({size.hidden})))),
        up_(register_module("up", nn::Linear(size.hidden, size.feed_forward))),
        down_(register_module("down", nn::Linear(size.feed_forward, size.hidden))),
        dropout_(register_module("dropout", nn::Dropout(size.dropout))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor middle = input + dropout_->forward(attend(norm1_->forward(input)));
    const torch::Tensor hidden = torch::gelu(up_->forward(norm2_->forward(middle)), "tanh");
    return middle + dropout_->forward(down_->forward(hidden));
  }

 private:
  torch::Tensor attend(const torch::Tensor& input) {
    const std::vector<torch::Tensor> parts = qkv_->forward(input).chunk(3, -1);
    const AttentionOptions options{
        .causal = true, .dropout = is_training() ? size_.dropout : 0, .flash = flash_};
    return out_->forward(
        join_heads(attention(split_heads(parts[0], size_.heads), split_heads(parts[1], size_.heads),
                             split_heads(parts[2], size_.heads), options)));
  }

  TransformerSize size_;
  bool flash_;
  nn::LayerNorm norm1_;
  nn::Linear qkv_, out_;
  nn::LayerNorm norm2_;
  nn::Linear up_, down_;
  nn::Dropout dropout_;
};

/// Logits with the embeddings' weight, which stays the embeddings' parameter.
class Head : public UnitModule {
 public:
  Head(const TransformerSize& size, torch::Tensor weight)
      : norm_(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({size.hidden})))),
        weight_(std::move(weight)) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    return torch::linear(norm_->forward(input), weight_);
  }

 private:
  nn::LayerNorm norm_;
  torch::Tensor weight_;
};

}  // namespace

Chain gpt2_chain(const std::string& name, const TransformerSize& size, const ModelShape& shape) {
  const auto embeddings = std::make_shared<Embeddings>(size);
  std::vector<ChainUnit> units = {{"embeddings", embeddings}};
  for (int block = 0; block < size.blocks; ++block) {
    units.push_back(
        {fmt::format("h.{}", block), std::make_shared<Block>(size, shape.flash_attention)});
  }
  units.push_back({"head", std::make_shared<Head>(size, embeddings->word_weight()), "embeddings"});
  return {.name = name,
          .input = {.sequence = shape.sequence,
                    .vocabulary = size.vocabulary,
                    .targets_per_sample = shape.sequence},
          .units = std::move(units),
          .loss = token_loss};
}

}  // namespace rehearse::inline calibrate
