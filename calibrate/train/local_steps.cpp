#include "train/local_steps.hpp"

namespace rehearse::inline calibrate {
namespace {

void forget_gradients(const std::vector<torch::Tensor>& parameters) {
  for (const torch::Tensor& one : parameters) one.mutable_grad() = torch::Tensor();
}

/// A parameter that the loss does not reach has no gradient, and does not decay, as in torch.
double take_gradient(const std::vector<torch::Tensor>& parameters, std::uint32_t step,
                     const StepGradients& gradients, double weight_decay) {
  forget_gradients(parameters);
  const double loss = gradients(step);
  const torch::NoGradGuard no_gradient;
  for (const torch::Tensor& one : parameters) {
    if (weight_decay != 0 && one.grad().defined()) one.grad().add_(one, weight_decay);
  }
  return loss;
}

void descend(const std::vector<torch::Tensor>& parameters, double learning_rate) {
  const torch::NoGradGuard no_gradient;
  for (const torch::Tensor& one : parameters) {
    if (one.grad().defined()) one.sub_(one.grad(), learning_rate);
  }
}

}  // namespace

double take_local_steps(const std::vector<torch::Tensor>& parameters,
                        const StepGradients& gradients, const LocalSteps& options) {
  if (options.steps == 1 && !options.pseudo_gradient)
    return take_gradient(parameters, 0, gradients, options.weight_decay);
  std::vector<torch::Tensor> begun;
  begun.reserve(parameters.size());
  for (const torch::Tensor& one : parameters) begun.push_back(one.detach().clone());
  double sum = 0;
  for (std::uint32_t step = 0; step < options.steps; ++step) {
    sum += take_gradient(parameters, step, gradients, options.weight_decay);
    descend(parameters, options.learning_rate);
  }
  const torch::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& one = parameters[i];
    one.mutable_grad() = begun[i] - one;
    one.copy_(begun[i]);
  }
  return sum / options.steps;
}

}  // namespace rehearse::inline calibrate
