#include <fmt/format.h>

#include <array>

#include "models/image_parts.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t kStem = 32;
constexpr std::int64_t kHead = 1280;
constexpr double kEpsilon = 1e-3;
constexpr double kDropout = 0.4;
constexpr double kStochasticDepth = 0.2;

/// Blocks of one kind; the first has the stride, the others 1. A fused block has one full 3x3
/// convolution, the other kind a 1x1, a depthwise 3x3 and squeeze-and-excitation.
struct Stage {
  bool fused;
  std::int64_t expansion, stride, channels;
  int blocks;
};
constexpr std::array<Stage, 7> kStages = {{{true, 1, 1, 32, 4},
                                           {true, 4, 2, 64, 7},
                                           {true, 4, 2, 96, 7},
                                           {false, 4, 2, 192, 10},
                                           {false, 6, 1, 224, 19},
                                           {false, 6, 2, 384, 25},
                                           {false, 6, 1, 640, 7}}};

class SqueezeExcite : public nn::Module {
 public:
  SqueezeExcite(std::int64_t channels, std::int64_t squeezed)
      : down_(
            register_module("down", convolution({.in = channels, .out = squeezed, .bias = true}))),
        up_(register_module("up", convolution({.in = squeezed, .out = channels, .bias = true}))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor mean = torch::adaptive_avg_pool2d(input, {1, 1});
    torch::Tensor squeezed = down_->forward(mean);
    return torch::sigmoid(up_->forward(torch::silu_(squeezed))) * input;
  }

 private:
  nn::Conv2d down_, up_;
};

void append_convolution(nn::Sequential& layers, const ConvolutionShape& shape) {
  layers->push_back(convolution(shape));
  layers->push_back(batch_norm(shape.out, kEpsilon));
}

/// torchvision's SiLU works in place.
void append_activated(nn::Sequential& layers, const ConvolutionShape& shape) {
  append_convolution(layers, shape);
  layers->push_back(nn::Functional([](torch::Tensor x) { return torch::silu_(x); }));
}

struct BlockShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t expanded = 0;
  std::int64_t stride = 1;
};

nn::Sequential fused_layers(const BlockShape& s) {
  nn::Sequential layers;
  if (s.expanded == s.in) {
    append_activated(layers,
                     {.in = s.in, .out = s.out, .kernel = 3, .stride = s.stride, .padding = 1});
    return layers;
  }
  append_activated(layers,
                   {.in = s.in, .out = s.expanded, .kernel = 3, .stride = s.stride, .padding = 1});
  append_convolution(layers, {.in = s.expanded, .out = s.out});
  return layers;
}

nn::Sequential depthwise_layers(const BlockShape& s) {
  nn::Sequential layers;
  append_activated(layers, {.in = s.in, .out = s.expanded});
  append_activated(layers, {.in = s.expanded,
                            .out = s.expanded,
                            .kernel = 3,
                            .stride = s.stride,
                            .padding = 1,
                            .groups = s.expanded});
  layers->push_back(std::make_shared<SqueezeExcite>(s.expanded, s.in / 4));
  append_convolution(layers, {.in = s.expanded, .out = s.out});
  return layers;
}

class Block : public UnitModule {
 public:
  Block(const nn::Sequential& layers, bool residual, double drop)
      : layers_(register_module("layers", layers)), residual_(residual), drop_(drop) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    const torch::Tensor output = layers_->forward(input);
    return residual_ ? stochastic_depth(output, drop_, is_training()) + input : output;
  }

 private:
  nn::Sequential layers_;
  bool residual_;
  double drop_;
};

int block_count() {
  int count = 0;
  for (const Stage& stage : kStages) count += stage.blocks;
  return count;
}

}  // namespace

Chain efficientnet_v2_l_chain(const ModelShape& shape) {
  nn::Sequential stem;
  append_activated(stem, {.out = kStem, .kernel = 3, .stride = 2, .padding = 1});
  std::vector<ChainUnit> units = {{"stem", sequential_unit(stem)}};
  std::int64_t channels = kStem;
  for (std::size_t i = 0; i < kStages.size(); ++i) {
    const Stage& stage = kStages[i];
    for (int block = 0; block < stage.blocks; ++block, channels = stage.channels) {
      const BlockShape s{channels, stage.channels, stage.expansion * channels,
                         block == 0 ? stage.stride : 1};
      const double drop = kStochasticDepth * static_cast<double>(units.size() - 1) / block_count();
      units.push_back({fmt::format("features.{}.{}", i + 1, block),
                       std::make_shared<Block>(stage.fused ? fused_layers(s) : depthwise_layers(s),
                                               s.stride == 1 && s.in == s.out, drop)});
    }
  }
  nn::Sequential head;
  append_activated(head, {.in = channels, .out = kHead});
  head->push_back(average_to(1));
  head->push_back(nn::Flatten());
  head->push_back(nn::Dropout(kDropout));
  head->push_back(nn::Linear(kHead, shape.classes));
  units.push_back({"head", sequential_unit(head)});
  return image_chain("efficientnet_v2_l", shape, std::move(units));
}

}  // namespace rehearse::inline calibrate
