#pragma once

#include <string>
#include <vector>

#include "model/captured/captured.hpp"

namespace rehearse::captured {

/// Kernels of a unit, in the order of the host; `node` tells the nodes of autograd apart.
struct UnitCalls {
  std::string name;
  std::vector<Kernel> forward{}, backward{};
};

/// Kernels of one pass as the tape records them; `narrow`: the type of 16 bits.
std::vector<Kernel> kernels_of(const std::vector<model::Kernel>& played, bool backward,
                               const std::string& narrow);

/// Kernels of one forward and backward pass at `options.batch`: as the tape records them, or, of a
/// captured model, as PyTorch called them. Empty where units were given without layers.
std::vector<UnitCalls> calls_of(const Model& model, TapeOptions options);

/// Kernels of a unit's forward that run again in front of its backward under
/// torch.utils.checkpoint(use_reentrant=False): until the last tensor that backward needs is there
/// (torch.utils.checkpoint.set_checkpoint_early_stop).
std::vector<Kernel> run_again(const std::vector<Kernel>& forward);

/// A tensor as people write it: "bf16[256, 1024]".
std::string to_string(const Tensor& tensor, double batch);

}  // namespace rehearse::captured
