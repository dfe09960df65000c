#include "model/architecture.hpp"

namespace rehearse::inline model {
namespace {

constexpr const char* kSmallSource = "made for tests and for CPUs; no dropout, no batch norm";

ModelShape small_shape(const ModelShape& asked, const std::string& name) {
  ModelShape shape =
      image_shape(asked, {.name = name, .side = 32, .smallest = name == "small_cnn" ? 4 : 1});
  if (asked.classes == 0) shape.classes = 10;
  return shape;
}

void append_convolution(Layers& layers, const std::string& name, std::int64_t channels) {
  layers.unit(name);
  layers.convolution({.channels = channels, .kernel = 3, .padding = 1, .bias = true});
  layers.relu();
  layers.max_pool({});
}

}  // namespace

Model build_small_cnn(const ModelShape& asked) {
  const ModelShape shape = small_shape(asked, "small_cnn");
  Layers layers(image_input(shape));
  append_convolution(layers, "conv1", 32);
  append_convolution(layers, "conv2", 64);
  layers.unit("fc1");
  layers.flatten();
  layers.linear({128});
  layers.relu();
  layers.unit("fc2");
  layers.linear({shape.classes});
  layers.cross_entropy();
  return image_model("small_cnn", shape, kSmallSource, layers);
}

Model build_small_mlp(const ModelShape& asked) {
  const ModelShape shape = small_shape(asked, "small_mlp");
  Layers layers(image_input(shape));
  layers.unit("fc1");
  layers.flatten();
  layers.linear({128});
  layers.relu();
  layers.unit("fc2");
  layers.linear({64});
  layers.relu();
  layers.unit("fc3");
  layers.linear({shape.classes});
  layers.cross_entropy();
  return image_model("small_mlp", shape, kSmallSource, layers);
}

}  // namespace rehearse::inline model
