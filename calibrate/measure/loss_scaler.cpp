#include "measure/loss_scaler.hpp"

namespace rehearse::inline calibrate {
namespace {

// PyTorch's defaults.
constexpr double kFirstFactor = 65536;
constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;

}  // namespace

LossScaler::LossScaler(torch::Device device)
    : scale_(torch::full({}, kFirstFactor, torch::TensorOptions(torch::kFloat32).device(device))),
      good_steps_(torch::zeros({}, torch::TensorOptions(torch::kInt32).device(device))) {}

void LossScaler::step(TimedOptimizer& optimizer, const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const torch::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  torch::Tensor overflow = torch::zeros_like(scale_);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, overflow, scale_.reciprocal());
  if (overflow.item<double>() == 0) optimizer.step();
  at::_amp_update_scale_(scale_, good_steps_, overflow, kGrowth, kBackoff, kGrowthInterval);
}

}  // namespace rehearse::inline calibrate
