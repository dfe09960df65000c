#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace rehearse::inline calibrate {

/// Steps of a worker between reading the parameters and sending what came of them.
struct LocalSteps {
  std::uint32_t steps = 1;   ///< above 1: local SGD, with steps of its own
  double learning_rate = 0;  ///< of those
  double weight_decay = 0;   ///< as torch.optim.SGD: its share of the parameters joins the gradient
  /// True for an outer optimizer: how far a single step led is sent, too.
  bool pseudo_gradient = false;
};

/// Forward and backward of the step's own batch, which leave the parameters' gradients; gives the
/// loss.
using StepGradients = std::function<double(std::uint32_t step)>;

/// Leaves in each parameter's grad what the worker sends: of one step its gradient; of several, or
/// for an outer optimizer, how far they led, from where they began to where they ended (a server of
/// learning rate 1 then averages the workers). The parameters end as they began. Returns the mean
/// of the losses.
double take_local_steps(const std::vector<torch::Tensor>& parameters,
                        const StepGradients& gradients, const LocalSteps& options);

}  // namespace rehearse::inline calibrate
