#pragma once

// Declarations of what reducer.hpp mentions of distributed autograd, for LibTorch packages (Debian's)
// that bring the library without this header. The Reducer holds a null pointer to it, nothing more.
#include <ATen/ATen.h>

#include <functional>
#include <memory>

namespace torch::distributed::autograd {

class DistAutogradContext {
 public:
  using GradCallback = std::function<bool(torch::Tensor&)>;
};
using ContextPtr = std::shared_ptr<DistAutogradContext>;

}  // namespace torch::distributed::autograd
