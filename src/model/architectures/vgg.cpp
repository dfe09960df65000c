#include <array>
#include <string>

#include "model/architecture.hpp"

namespace rehearse::inline model {
namespace {

constexpr const char* kVggSource =
    "Simonyan and Zisserman, arXiv:1409.1556, configuration D; torchvision.models.vgg16";

/// Channels of a stage's convolutions, 3x3 each; a 2x2 pooling ends the stage.
struct VggStage {
  std::int64_t channels;
  int convolutions;
};
constexpr std::array<VggStage, 5> kVggStages = {{{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}};

void append_features(Layers& layers) {
  int number = 0;
  for (const VggStage& stage : kVggStages) {
    for (int i = 0; i < stage.convolutions; ++i) {
      layers.unit("conv" + std::to_string(++number));
      layers.convolution({.channels = stage.channels, .kernel = 3, .padding = 1, .bias = true});
      layers.relu();
    }
    layers.max_pool({});
  }
}

}  // namespace

Model build_vgg16(const ModelShape& asked) {
  const ModelShape shape = image_shape(asked, {.name = "vgg16"});
  Layers layers(image_input(shape));
  append_features(layers);
  layers.unit("fc1");
  layers.adaptive_pool(7);
  layers.flatten();
  layers.linear({4096});
  layers.relu();
  layers.dropout();
  layers.unit("fc2");
  layers.linear({4096});
  layers.relu();
  layers.dropout();
  layers.unit("fc3");
  layers.linear({shape.classes});
  layers.cross_entropy();
  return image_model("vgg16", shape, kVggSource, layers);
}

}  // namespace rehearse::inline model
