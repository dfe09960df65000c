#include "models/image_parts.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {

namespace nn = torch::nn;

// Neither has dropout or batch norm: a batch split over ranks has the gradients of the whole one.

Chain small_cnn_chain(const ModelShape& shape) {
  const auto block = [](std::int64_t in, std::int64_t out) {
    return sequential_unit(
        nn::Sequential(convolution({.in = in, .out = out, .kernel = 3, .padding = 1, .bias = true}),
                       relu_in_place(), nn::MaxPool2d(2)));
  };
  const std::int64_t side = shape.image / 4;
  return image_chain(
      "small_cnn", shape,
      {{"conv1", block(3, 32)},
       {"conv2", block(32, 64)},
       {"fc1", sequential_unit(nn::Sequential(nn::Flatten(), nn::Linear(64 * side * side, 128),
                                              relu_in_place()))},
       {"fc2", sequential_unit(nn::Sequential(nn::Linear(128, shape.classes)))}});
}

Chain small_mlp_chain(const ModelShape& shape) {
  const std::int64_t inputs = 3 * shape.image * shape.image;
  return image_chain(
      "small_mlp", shape,
      {{"fc1",
        sequential_unit(nn::Sequential(nn::Flatten(), nn::Linear(inputs, 128), relu_in_place()))},
       {"fc2", sequential_unit(nn::Sequential(nn::Linear(128, 64), relu_in_place()))},
       {"fc3", sequential_unit(nn::Sequential(nn::Linear(64, shape.classes)))}});
}

}  // namespace rehearse::inline calibrate
