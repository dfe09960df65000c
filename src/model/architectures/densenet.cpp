#include <fmt/format.h>

#include <array>

#include "model/architecture.hpp"

namespace rehearse::inline model {
namespace {

constexpr const char* kDenseNetSource =
    "Huang et al., arXiv:1608.06993; torchvision.models.densenet121, memory_efficient=False";
constexpr std::array<int, 4> kLayers = {6, 12, 24, 16};
constexpr std::int64_t kGrowth = 32;
constexpr std::int64_t kBottleneck = 4 * kGrowth;

/// A dense layer reads the concatenation of all features before it; the block's features grow by
/// its output.
void append_dense_layer(Layers& layers, std::int64_t channels, int layer) {
  const Activation features = layers.current();
  layers.concatenate(channels, layer + 1);
  layers.batch_norm();
  layers.relu();
  layers.convolution({.channels = kBottleneck});
  layers.batch_norm();
  layers.relu();
  layers.convolution({.channels = kGrowth, .kernel = 3, .padding = 1});
  layers.join(features, true);
}

void append_transition(Layers& layers, std::int64_t channels) {
  layers.concatenate(channels, 0);
  layers.batch_norm();
  layers.relu();
  layers.convolution({.channels = channels / 2});
  layers.average_pool({});
}

void append_stem(Layers& layers) {
  layers.unit("stem");
  layers.convolution({.channels = 2 * kGrowth, .kernel = 7, .stride = 2, .padding = 3});
  layers.batch_norm();
  layers.relu();
  layers.max_pool({.kernel = 3, .stride = 2, .padding = 1});
}

}  // namespace

Model build_densenet121(const ModelShape& asked) {
  const ModelShape shape = image_shape(asked, {.name = "densenet121"});
  Layers layers(image_input(shape));
  append_stem(layers);
  std::int64_t channels = layers.current().channels;
  for (std::size_t block = 0; block < kLayers.size(); ++block) {
    for (int layer = 0; layer < kLayers[block]; ++layer, channels += kGrowth) {
      layers.unit(fmt::format("denseblock{}.{}", block + 1, layer + 1));
      append_dense_layer(layers, channels, layer);
    }
    if (block + 1 == kLayers.size()) break;
    layers.unit(fmt::format("transition{}", block + 1));
    append_transition(layers, channels);
    channels /= 2;
  }
  layers.unit("head");
  layers.concatenate(channels, 0);
  layers.batch_norm();
  layers.relu();
  layers.adaptive_pool(1);
  layers.linear({shape.classes});
  layers.cross_entropy();
  return image_model("densenet121", shape, kDenseNetSource, layers);
}

}  // namespace rehearse::inline model
