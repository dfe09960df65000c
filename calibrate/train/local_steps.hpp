#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace rehearse {

/// What a worker does between reading the parameters and sending what came of them.
struct LocalSteps {
  std::uint32_t steps = 1;   ///< above 1: local SGD, with steps of its own
  double learning_rate = 0;  ///< of those
  double weight_decay = 0;   ///< as torch.optim.SGD: its share of the parameters joins the gradient
};

/// The loss of the step's own batch, a scalar that backward starts from.
using StepLoss = std::function<torch::Tensor(std::uint32_t step)>;

/// Leaves in each parameter's grad what the worker sends: of one step its gradient; of several how
/// far they led, from where they began to where they ended (a server of learning rate 1 then
/// averages the workers). The parameters end as they began. Returns the mean of the losses.
double take_local_steps(const std::vector<torch::Tensor>& parameters, const StepLoss& loss,
                        const LocalSteps& options);

}  // namespace rehearse
