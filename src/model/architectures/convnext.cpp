#include <fmt/format.h>

#include <array>

#include "model/architecture.hpp"

namespace rehearse::inline model {
namespace {

constexpr const char* kConvNextSource =
    "Liu et al., arXiv:2201.03545; torchvision.models.convnext_large";

struct ConvNextStage {
  std::int64_t channels;
  int blocks;
};
constexpr std::array<ConvNextStage, 4> kConvNextStages = {
    {{192, 3}, {384, 3}, {768, 27}, {1536, 3}}};

/// `first` of the whole network: its stochastic depth has probability 0 and does nothing.
void append_block(Layers& layers, bool first) {
  const Activation input = layers.current();
  const std::int64_t channels = input.channels;
  layers.parameter(channels);  // layer_scale is the block's own: registered before its layers
  layers.convolution(
      {.channels = channels, .kernel = 7, .padding = 3, .groups = channels, .bias = true});
  layers.layer_norm();
  layers.linear({4 * channels});
  layers.gelu();
  layers.linear({channels});
  layers.layer_scale();
  if (!first) layers.stochastic_depth();
  layers.add(input, true);
}

void append_downsample(Layers& layers, std::int64_t channels) {
  layers.layer_norm();
  layers.convolution({.channels = channels, .kernel = 2, .stride = 2, .bias = true});
}

}  // namespace

Model build_convnext_large(const ModelShape& asked) {
  const ModelShape shape = image_shape(asked, {.name = "convnext_large"});
  Layers layers(image_input(shape));
  layers.unit("stem");
  layers.convolution(
      {.channels = kConvNextStages[0].channels, .kernel = 4, .stride = 4, .bias = true});
  layers.layer_norm();
  for (std::size_t stage = 0; stage < kConvNextStages.size(); ++stage) {
    if (stage > 0) {
      layers.unit(fmt::format("downsample{}", stage));
      append_downsample(layers, kConvNextStages[stage].channels);
    }
    for (int block = 0; block < kConvNextStages[stage].blocks; ++block) {
      layers.unit(fmt::format("stage{}.{}", stage + 1, block));
      append_block(layers, stage == 0 && block == 0);
    }
  }
  layers.unit("head");
  layers.adaptive_pool(1);
  layers.layer_norm();
  layers.linear({shape.classes});
  layers.flatten_input(layers.calls() - 1);
  layers.cross_entropy();
  return image_model("convnext_large", shape, kConvNextSource, layers);
}

}  // namespace rehearse::inline model
