#pragma once

#include <torch/torch.h>

#include <vector>

#include "measure/timed_optimizer.hpp"

namespace rehearse::inline calibrate {

/// torch.cuda.amp.GradScaler with its defaults: small gradients of fp16 survive because the loss is
/// multiplied by a factor, which is halved where a gradient overflows and doubled now and then.
class LossScaler {
 public:
  explicit LossScaler(torch::Device device);

  torch::Tensor scale(const torch::Tensor& loss) const { return loss * scale_; }
  /// Divides the gradients by the factor; steps, unless one of them is not finite; updates the
  /// factor.
  void step(TimedOptimizer& optimizer, const std::vector<torch::Tensor>& parameters);
  double factor() const { return scale_.item<double>(); }

 private:
  torch::Tensor scale_;
  torch::Tensor good_steps_;  ///< since the factor changed
};

}  // namespace rehearse::inline calibrate
