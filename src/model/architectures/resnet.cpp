#include <fmt/format.h>

#include <array>

#include "model/architecture.hpp"

namespace rehearse::inline model {
namespace {

constexpr const char* kResNetSource =
    "He et al., arXiv:1512.03385, stride in the 3x3 convolution; torchvision.models.";
using Blocks = std::array<int, 4>;
constexpr std::int64_t kExpansion = 4;

void append_bottleneck(Layers& layers, std::int64_t width, std::int64_t stride) {
  const Activation input = layers.current();
  layers.convolution({.channels = width});
  layers.batch_norm();
  layers.relu();
  layers.convolution({.channels = width, .kernel = 3, .stride = stride, .padding = 1});
  layers.batch_norm();
  layers.relu();
  layers.convolution({.channels = kExpansion * width});
  layers.batch_norm();
  const Activation output = layers.current();
  layers.resume(input);
  if (stride != 1 || input.channels != output.channels) {
    layers.convolution({.channels = output.channels, .stride = stride});
    layers.batch_norm();
  }
  const Activation residual = layers.current();
  layers.resume(output);
  layers.add(residual, true);
  layers.relu();
}

Model build(const std::string& name, const Blocks& blocks, const ModelShape& asked) {
  const ModelShape shape = image_shape(asked, {.name = name});
  Layers layers(image_input(shape));
  layers.unit("stem");
  layers.convolution({.channels = 64, .kernel = 7, .stride = 2, .padding = 3});
  layers.batch_norm();
  layers.relu();
  layers.max_pool({.kernel = 3, .stride = 2, .padding = 1});
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      layers.unit(fmt::format("layer{}.{}", stage + 1, block));
      append_bottleneck(layers, std::int64_t{64} << stage, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  layers.unit("head");
  layers.adaptive_pool(1);
  layers.linear({shape.classes});
  layers.cross_entropy();
  return image_model(name, shape, kResNetSource + name, layers);
}

}  // namespace

Model build_resnet50(const ModelShape& asked) { return build("resnet50", {3, 4, 6, 3}, asked); }

Model build_resnet101(const ModelShape& asked) { return build("resnet101", {3, 4, 23, 3}, asked); }

Model build_resnet152(const ModelShape& asked) { return build("resnet152", {3, 8, 36, 3}, asked); }

}  // namespace rehearse::inline model
