#include <fmt/format.h>

#include <array>

#include "model/architecture.hpp"

namespace rehearse::inline model {
namespace {

constexpr const char* kEfficientNetSource =
    "Tan and Le, arXiv:2104.00298; torchvision.models.efficientnet_v2_l";
constexpr std::int64_t kStem = 32;
constexpr std::int64_t kHead = 1280;

/// Blocks of one kind; the first has the stride, the others 1. A fused block has one full 3x3
/// convolution, the other kind a 1x1, a depthwise 3x3 and squeeze-and-excitation.
struct EfficientNetStage {
  bool fused;
  std::int64_t expansion, stride, channels;
  int blocks;
};
constexpr std::array<EfficientNetStage, 7> kEfficientNetStages = {{{true, 1, 1, 32, 4},
                                                                   {true, 4, 2, 64, 7},
                                                                   {true, 4, 2, 96, 7},
                                                                   {false, 4, 2, 192, 10},
                                                                   {false, 6, 1, 224, 19},
                                                                   {false, 6, 2, 384, 25},
                                                                   {false, 6, 1, 640, 7}}};

void append_activated(Layers& layers, const Convolution& convolution) {
  layers.convolution(convolution);
  layers.batch_norm();
  layers.silu();
}

void append_fused(Layers& layers, const EfficientNetStage& stage, std::int64_t expanded,
                  std::int64_t stride) {
  if (stage.expansion == 1) {
    append_activated(layers,
                     {.channels = stage.channels, .kernel = 3, .stride = stride, .padding = 1});
    return;
  }
  append_activated(layers, {.channels = expanded, .kernel = 3, .stride = stride, .padding = 1});
  layers.convolution({.channels = stage.channels});
  layers.batch_norm();
}

void append_depthwise(Layers& layers, const EfficientNetStage& stage, std::int64_t expanded,
                      std::int64_t stride) {
  const std::int64_t squeezed = layers.current().channels / 4;
  append_activated(layers, {.channels = expanded});
  append_activated(
      layers,
      {.channels = expanded, .kernel = 3, .stride = stride, .padding = 1, .groups = expanded});
  layers.squeeze_excite(squeezed);
  layers.convolution({.channels = stage.channels});
  layers.batch_norm();
}

/// `first` of the whole network: its stochastic depth has probability 0 and does nothing.
void append_block(Layers& layers, const EfficientNetStage& stage, std::int64_t stride, bool first) {
  const Activation input = layers.current();
  const std::int64_t expanded = stage.expansion * input.channels;
  if (stage.fused) {
    append_fused(layers, stage, expanded, stride);
  } else {
    append_depthwise(layers, stage, expanded, stride);
  }
  if (stride != 1 || input.channels != stage.channels) return;
  layers.hold();
  if (!first) layers.stochastic_depth();
  layers.add(input);
}

}  // namespace

Model build_efficientnet_v2_l(const ModelShape& asked) {
  const ModelShape shape = image_shape(asked, {.name = "efficientnet_v2_l", .side = 480});
  Layers layers(image_input(shape));
  layers.unit("stem");
  append_activated(layers, {.channels = kStem, .kernel = 3, .stride = 2, .padding = 1});
  for (std::size_t i = 0; i < kEfficientNetStages.size(); ++i) {
    for (int block = 0; block < kEfficientNetStages[i].blocks; ++block) {
      layers.unit(fmt::format("features.{}.{}", i + 1, block));
      append_block(layers, kEfficientNetStages[i], block == 0 ? kEfficientNetStages[i].stride : 1,
                   i == 0 && block == 0);
    }
  }
  layers.unit("head");
  append_activated(layers, {.channels = kHead});
  layers.adaptive_pool(1);
  layers.dropout(true);
  layers.linear({shape.classes});
  layers.cross_entropy();
  return image_model("efficientnet_v2_l", shape, kEfficientNetSource, layers);
}

}  // namespace rehearse::inline model
