#include <fmt/format.h>

#include <array>

#include "models/image_parts.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

namespace nn = torch::nn;

struct Stage {
  std::int64_t channels;
  int blocks;
};
constexpr std::array<Stage, 4> kStages = {{{192, 3}, {384, 3}, {768, 27}, {1536, 3}}};
constexpr double kEpsilon = 1e-6;
constexpr double kLayerScale = 1e-6;
constexpr double kStochasticDepth = 0.5;

nn::LayerNorm layer_norm(std::int64_t channels) {
  return nn::LayerNorm(nn::LayerNormOptions({channels}).eps(kEpsilon));
}

nn::Functional permute(std::vector<std::int64_t> order) {
  return nn::Functional(
      [order](const torch::Tensor& x) -> torch::Tensor { return x.permute(order); });
}

/// Layer norm over the channels of an image.
void append_layer_norm(nn::Sequential& layers, std::int64_t channels) {
  layers->push_back(permute({0, 2, 3, 1}));
  layers->push_back(layer_norm(channels));
  layers->push_back(permute({0, 3, 1, 2}));
}

class Block : public UnitModule {
 public:
  Block(std::int64_t channels, double drop)
      : scale_(register_parameter("layer_scale", torch::full({channels, 1, 1}, kLayerScale))),
        layers_(register_module(
            "layers", nn::Sequential(convolution({.in = channels,
                                                  .out = channels,
                                                  .kernel = 7,
                                                  .padding = 3,
                                                  .groups = channels,
                                                  .bias = true}),
                                     permute({0, 2, 3, 1}), layer_norm(channels),
                                     nn::Linear(channels, 4 * channels), nn::GELU(),
                                     nn::Linear(4 * channels, channels), permute({0, 3, 1, 2})))),
        drop_(drop) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor output = scale_ * layers_->forward(input);
    output = stochastic_depth(output, drop_, is_training());
    return output += input;
  }

 private:
  torch::Tensor scale_;
  nn::Sequential layers_;
  double drop_;
};

std::shared_ptr<UnitModule> stem() {
  nn::Sequential layers(
      convolution({.out = kStages[0].channels, .kernel = 4, .stride = 4, .bias = true}));
  append_layer_norm(layers, kStages[0].channels);
  return sequential_unit(layers);
}

std::shared_ptr<UnitModule> downsample(std::int64_t in, std::int64_t out) {
  nn::Sequential layers;
  append_layer_norm(layers, in);
  layers->push_back(convolution({.in = in, .out = out, .kernel = 2, .stride = 2, .bias = true}));
  return sequential_unit(layers);
}

std::shared_ptr<UnitModule> head(std::int64_t channels, std::int64_t classes) {
  nn::Sequential layers(average_to(1));
  append_layer_norm(layers, channels);
  layers->push_back(nn::Flatten());
  layers->push_back(nn::Linear(channels, classes));
  return sequential_unit(layers);
}

int block_count() {
  int count = 0;
  for (const Stage& stage : kStages) count += stage.blocks;
  return count;
}

}  // namespace

Chain convnext_large_chain(const ModelShape& shape) {
  std::vector<ChainUnit> units = {{"stem", stem()}};
  int number = 0;
  for (std::size_t stage = 0; stage < kStages.size(); ++stage) {
    const std::int64_t channels = kStages[stage].channels;
    if (stage > 0) {
      units.push_back(
          {fmt::format("downsample{}", stage), downsample(kStages[stage - 1].channels, channels)});
    }
    for (int block = 0; block < kStages[stage].blocks; ++block, ++number) {
      const double drop = kStochasticDepth * number / (block_count() - 1);
      units.push_back(
          {fmt::format("stage{}.{}", stage + 1, block), std::make_shared<Block>(channels, drop)});
    }
  }
  units.push_back({"head", head(kStages.back().channels, shape.classes)});
  return image_chain("convnext_large", shape, std::move(units));
}

}  // namespace rehearse::inline calibrate
