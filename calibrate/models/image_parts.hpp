#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/model.hpp"
#include "models/chain.hpp"

namespace rehearse::inline calibrate {

/// A unit that runs its layers one after the other.
class SequentialUnit : public UnitModule {
 public:
  explicit SequentialUnit(const torch::nn::Sequential& layers)
      : layers_(register_module("layers", layers)) {}
  torch::Tensor forward(const torch::Tensor& input) override { return layers_->forward(input); }

 private:
  torch::nn::Sequential layers_;
};

std::shared_ptr<UnitModule> sequential_unit(const torch::nn::Sequential& layers);

struct ConvolutionShape {
  std::int64_t in = 3;
  std::int64_t out = 3;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
  bool bias = false;
};
torch::nn::Conv2d convolution(const ConvolutionShape& shape);
torch::nn::BatchNorm2d batch_norm(std::int64_t channels, double epsilon = 1e-5);
torch::nn::ReLU relu_in_place();
torch::nn::SiLU silu();

/// Adaptive average pooling to side x side.
torch::nn::AdaptiveAvgPool2d average_to(std::int64_t side);

/// Drops the whole residual branch of a sample with `probability`, and scales what stays
/// (torchvision.ops.StochasticDepth, mode "row"). Nothing for probability 0 or in evaluation.
torch::Tensor stochastic_depth(const torch::Tensor& input, double probability, bool training);

/// Mean cross entropy over classes.
torch::Tensor classification_loss(const torch::Tensor& output, const torch::Tensor& target);

/// A chain over images, with the classification loss.
Chain image_chain(const std::string& name, const ModelShape& shape, std::vector<ChainUnit> units);

}  // namespace rehearse::inline calibrate
