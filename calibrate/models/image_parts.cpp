#include "models/image_parts.hpp"

#include <utility>

namespace rehearse::inline calibrate {

namespace nn = torch::nn;

std::shared_ptr<UnitModule> sequential_unit(const nn::Sequential& layers) {
  return std::make_shared<SequentialUnit>(layers);
}

nn::Conv2d convolution(const ConvolutionShape& shape) {
  return nn::Conv2d(nn::Conv2dOptions(shape.in, shape.out, shape.kernel)
                        .stride(shape.stride)
                        .padding(shape.padding)
                        .groups(shape.groups)
                        .bias(shape.bias));
}

nn::BatchNorm2d batch_norm(std::int64_t channels, double epsilon) {
  return nn::BatchNorm2d(nn::BatchNorm2dOptions(channels).eps(epsilon));
}

nn::ReLU relu_in_place() { return nn::ReLU(nn::ReLUOptions(true)); }

nn::SiLU silu() { return {}; }

nn::AdaptiveAvgPool2d average_to(std::int64_t side) {
  return nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(side));
}

torch::Tensor stochastic_depth(const torch::Tensor& input, double probability, bool training) {
  if (!training || probability == 0) return input;
  const double survival = 1 - probability;
  const auto options = torch::TensorOptions().dtype(input.dtype()).device(input.device());
  torch::Tensor noise = torch::empty({input.size(0), 1, 1, 1}, options).bernoulli_(survival);
  return input * noise.div_(survival);
}

torch::Tensor classification_loss(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(output, target);
}

Chain image_chain(const std::string& name, const ModelShape& shape, std::vector<ChainUnit> units) {
  return {.name = name,
          .input = {.image = shape.image, .classes = shape.classes},
          .units = std::move(units),
          .loss = classification_loss};
}

}  // namespace rehearse::inline calibrate
