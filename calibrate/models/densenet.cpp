#include <fmt/format.h>

#include <array>

#include "models/image_parts.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

namespace nn = torch::nn;

constexpr std::array<int, 4> kLayers = {6, 12, 24, 16};
constexpr std::int64_t kGrowth = 32;
constexpr std::int64_t kBottleneck = 4 * kGrowth;

/// Appends its features to those it got. torchvision concatenates where the features are read,
/// which is the same copies, one unit later.
class DenseLayer : public UnitModule {
 public:
  explicit DenseLayer(std::int64_t in)
      : layers_(register_module(
            "layers",
            nn::Sequential(
                batch_norm(in), relu_in_place(), convolution({.in = in, .out = kBottleneck}),
                batch_norm(kBottleneck), relu_in_place(),
                convolution({.in = kBottleneck, .out = kGrowth, .kernel = 3, .padding = 1})))) {}

  torch::Tensor forward(const torch::Tensor& input) override {
    return torch::cat({input, layers_->forward(input)}, 1);
  }

 private:
  nn::Sequential layers_;
};

std::shared_ptr<UnitModule> stem() {
  return sequential_unit(
      nn::Sequential(convolution({.out = 2 * kGrowth, .kernel = 7, .stride = 2, .padding = 3}),
                     batch_norm(2 * kGrowth), relu_in_place(),
                     nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1))));
}

std::shared_ptr<UnitModule> transition(std::int64_t channels) {
  return sequential_unit(nn::Sequential(batch_norm(channels), relu_in_place(),
                                        convolution({.in = channels, .out = channels / 2}),
                                        nn::AvgPool2d(2)));
}

}  // namespace

Chain densenet121_chain(const ModelShape& shape) {
  std::vector<ChainUnit> units;
  units.push_back({"stem", stem()});
  std::int64_t channels = 2 * kGrowth;
  for (std::size_t block = 0; block < kLayers.size(); ++block) {
    for (int layer = 0; layer < kLayers[block]; ++layer, channels += kGrowth) {
      units.push_back({fmt::format("denseblock{}.{}", block + 1, layer + 1),
                       std::make_shared<DenseLayer>(channels)});
    }
    if (block + 1 == kLayers.size()) break;
    units.push_back({fmt::format("transition{}", block + 1), transition(channels)});
    channels /= 2;
  }
  units.push_back({"head", sequential_unit(nn::Sequential(batch_norm(channels), relu_in_place(),
                                                          average_to(1), nn::Flatten(),
                                                          nn::Linear(channels, shape.classes)))});
  return image_chain("densenet121", shape, std::move(units));
}

}  // namespace rehearse::inline calibrate
