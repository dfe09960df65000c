#include <array>

#include "models/image_parts.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

namespace nn = torch::nn;

/// Channels of a stage's convolutions, 3x3 each; a 2x2 pooling ends the stage.
struct Stage {
  std::int64_t channels;
  int convolutions;
};
constexpr std::array<Stage, 5> kStages = {{{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}};
constexpr std::int64_t kHidden = 4096;

std::vector<ChainUnit> features() {
  std::vector<ChainUnit> units;
  std::int64_t channels = 3;
  for (const Stage& stage : kStages) {
    for (int i = 0; i < stage.convolutions; ++i) {
      nn::Sequential layers(
          convolution(
              {.in = channels, .out = stage.channels, .kernel = 3, .padding = 1, .bias = true}),
          relu_in_place());
      if (i + 1 == stage.convolutions) layers->push_back(nn::MaxPool2d(2));
      units.push_back({"conv" + std::to_string(units.size() + 1), sequential_unit(layers)});
      channels = stage.channels;
    }
  }
  return units;
}

}  // namespace

Chain vgg16_chain(const ModelShape& shape) {
  std::vector<ChainUnit> units = features();
  units.push_back({"fc1", sequential_unit(nn::Sequential(average_to(7), nn::Flatten(),
                                                         nn::Linear(512 * 7 * 7, kHidden),
                                                         relu_in_place(), nn::Dropout(0.5)))});
  units.push_back({"fc2", sequential_unit(nn::Sequential(nn::Linear(kHidden, kHidden),
                                                         relu_in_place(), nn::Dropout(0.5)))});
  units.push_back({"fc3", sequential_unit(nn::Sequential(nn::Linear(kHidden, shape.classes)))});
  return image_chain("vgg16", shape, std::move(units));
}

}  // namespace rehearse::inline calibrate
