#include <fmt/format.h>

#include "models/attention.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

namespace nn = torch::nn;

constexpr double kEpsilon = 1e-5;
constexpr double kRotaryBase = 10000;

nn::Linear linear(std::int64_t in, std::int64_t out) {
  return nn::Linear(nn::LinearOptions(in, out).bias(false));
}

class RmsNorm : public nn::Module {
 public:
  explicit RmsNorm(std::int64_t width)
      : weight_(register_parameter("weight", torch::ones({width}))) {}

  /// In fp32 inside, as the reference code.
  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor wide =
        input.scalar_type() == torch::kFloat64 ? input : input.to(torch::kFloat32);
    const torch::Tensor scale = torch::rsqrt(wide.pow(2).mean(-1, true) + kEpsilon);
    return (wide * scale).to(input.scalar_type()) * weight_;
  }

 private:
  torch::Tensor weight_;
};

class Embeddings : public UnitModule {
 public:
  explicit Embeddings(const TransformerSize& size)
      : words_(register_module("words", nn::Embedding(size.vocabulary, size.hidden))) {}
  torch::Tensor forward(const torch::Tensor& input) override { return words_->forward(input); }

 private:
  nn::Embedding words_;
};

/// Cosines and sines of each position's angles, (2, tokens, width / 2).
torch::Tensor rotary_table(std::int64_t tokens, std::int64_t width, const torch::Tensor& like) {
  const auto options = torch::TensorOptions(torch::kFloat32).device(like.device());
  const torch::Tensor exponents = torch::arange(0, width, 2, options) / static_cast<double>(width);
  const torch::Tensor frequencies = torch::pow(kRotaryBase, -exponents);
  const torch::Tensor angles = torch::outer(torch::arange(tokens, options), frequencies);
  return torch::stack({angles.cos(), angles.sin()}).to(like.scalar_type());
}

/// Rotates the two halves of each head's channels by their position's angles.
torch::Tensor rotate(const torch::Tensor& heads, const torch::Tensor& table) {
  const std::vector<torch::Tensor> half = heads.chunk(2, -1);
  const torch::Tensor cosine = table[0], sine = table[1];
  return torch::cat({half[0] * cosine - half[1] * sine, half[1] * cosine + half[0] * sine}, -1);
}

/// Tensors in the order of use: norm, q, k, v, o, norm, gate, up, down.
class Block : public UnitModule {
 public:
  Block(const TransformerSize& size, bool flash) : size_(size), flash_(flash) {
    const std::int64_t kv_width = size.hidden / size.heads * size.kv_heads;
    norm1_ = register_module("norm1", std::make_shared<RmsNorm>(size.hidden));
    query_ = register_module("query", linear(size.hidden, size.hidden));
    key_ = register_module("key", linear(size.hidden, kv_width));
    value_ = register_module("value", linear(size.hidden, kv_width));
    out_ = register_module("out", linear(size.hidden, size.hidden));
    norm2_ = register_module("norm2", std::make_shared<RmsNorm>(size.hidden));
    gate_ = register_module("gate", linear(size.hidden, size.feed_forward));
    up_ = register_module("up", linear(size.hidden, size.feed_forward));
    down_ = register_module("down", linear(size.feed_forward, size.hidden));
  }

  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor middle = input + attend(norm1_->forward(input));
    const torch::Tensor normed = norm2_->forward(middle);
    const torch::Tensor gated = torch::silu(gate_->forward(normed)) * up_->forward(normed);
    return middle + down_->forward(gated);
  }

 private:
  torch::Tensor attend(const torch::Tensor& input) {
    const torch::Tensor queries = split_heads(query_->forward(input), size_.heads);
    const torch::Tensor keys = split_heads(key_->forward(input), size_.kv_heads);
    const torch::Tensor values = split_heads(value_->forward(input), size_.kv_heads);
    const torch::Tensor table = rotary_table(input.size(1), size_.hidden / size_.heads, queries);
    const torch::Tensor mixed =
        attention(rotate(queries, table), shared(rotate(keys, table)), shared(values),
                  {.causal = true, .dropout = 0, .flash = flash_});
    return out_->forward(join_heads(mixed));
  }

  /// Each key and value head serves several query heads.
  torch::Tensor shared(const torch::Tensor& heads) const {
    const std::int64_t queries_per_head = size_.heads / size_.kv_heads;
    return queries_per_head == 1 ? heads : heads.repeat_interleave(queries_per_head, 1);
  }

  TransformerSize size_;
  bool flash_;
  std::shared_ptr<RmsNorm> norm1_, norm2_;
  nn::Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, out_{nullptr};
  nn::Linear gate_{nullptr}, up_{nullptr}, down_{nullptr};
};

class Head : public UnitModule {
 public:
  explicit Head(const TransformerSize& size)
      : norm_(register_module("norm", std::make_shared<RmsNorm>(size.hidden))),
        words_(register_module("words", linear(size.hidden, size.vocabulary))) {}
  torch::Tensor forward(const torch::Tensor& input) override {
    return words_->forward(norm_->forward(input));
  }

 private:
  std::shared_ptr<RmsNorm> norm_;
  nn::Linear words_;
};

}  // namespace

Chain llama_chain(const std::string& name, const TransformerSize& size, const ModelShape& shape) {
  std::vector<ChainUnit> units = {{"embeddings", std::make_shared<Embeddings>(size)}};
  for (int block = 0; block < size.blocks; ++block) {
    units.push_back(
        {fmt::format("layers.{}", block), std::make_shared<Block>(size, shape.flash_attention)});
  }
  units.push_back({"head", std::make_shared<Head>(size)});
  return {.name = name,
          .input = {.sequence = shape.sequence,
                    .vocabulary = size.vocabulary,
                    .targets_per_sample = shape.sequence},
          .units = std::move(units),
          .loss = token_loss};
}

}  // namespace rehearse::inline calibrate
