#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

namespace rehearse::inline calibrate {

/// sgd, sgd_momentum, adam, adamw: what can be timed.
const std::vector<std::string>& timed_optimizers();

/// An optimizer as PyTorch runs it by default: tensor by tensor on CPUs, all tensors at once
/// (torch._foreach) on GPUs.
class TimedOptimizer {
 public:
  TimedOptimizer() = default;
  TimedOptimizer(const TimedOptimizer&) = delete;
  TimedOptimizer& operator=(const TimedOptimizer&) = delete;
  virtual ~TimedOptimizer() = default;
  /// Every parameter must have a gradient.
  virtual void step() = 0;
};

struct OptimizerChoice {
  std::string kind;  ///< one of timed_optimizers()
  /// So small that weights stay where they are: a repeated batch must not change what is measured.
  double learning_rate = 1e-9;
  bool foreach = false;
};

std::unique_ptr<TimedOptimizer> make_optimizer(const OptimizerChoice& choice,
                                               std::vector<torch::Tensor> parameters);
/// PyTorch's default implementation for the device that the parameters are on.
std::unique_ptr<TimedOptimizer> default_optimizer(const std::string& kind,
                                                  std::vector<torch::Tensor> parameters);

}  // namespace rehearse::inline calibrate
