#include "measure/timed_optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

namespace optim = torch::optim;
using Tensors = std::vector<torch::Tensor>;

// PyTorch's defaults.
constexpr double kMomentum = 0.9;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;
constexpr double kDecay = 0.01;  ///< AdamW's weight decay

class LoopOptimizer : public TimedOptimizer {
 public:
  explicit LoopOptimizer(std::unique_ptr<optim::Optimizer> optimizer)
      : optimizer_(std::move(optimizer)) {}
  void step() override { optimizer_->step(); }

 private:
  std::unique_ptr<optim::Optimizer> optimizer_;
};

std::unique_ptr<optim::Optimizer> loop_optimizer(const std::string& kind, double rate,
                                                 Tensors parameters) {
  if (kind == "sgd") {
    return std::make_unique<optim::SGD>(std::move(parameters), optim::SGDOptions(rate));
  }
  if (kind == "sgd_momentum") {
    return std::make_unique<optim::SGD>(std::move(parameters),
                                        optim::SGDOptions(rate).momentum(kMomentum));
  }
  if (kind == "adam") {
    return std::make_unique<optim::Adam>(std::move(parameters), optim::AdamOptions(rate));
  }
  return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions(rate));
}

Tensors gradients(const Tensors& parameters) {
  Tensors all;
  for (const torch::Tensor& parameter : parameters) all.push_back(parameter.grad());
  return all;
}

Tensors zeros_like(const Tensors& tensors) {
  Tensors all;
  for (const torch::Tensor& tensor : tensors) all.push_back(torch::zeros_like(tensor));
  return all;
}

/// torch.optim.SGD(foreach=True).
class ForeachSgd : public TimedOptimizer {
 public:
  ForeachSgd(Tensors parameters, double rate, double momentum)
      : parameters_(std::move(parameters)), rate_(rate), momentum_(momentum) {}

  void step() override {
    const torch::NoGradGuard no_grad;
    Tensors direction = gradients(parameters_);
    if (momentum_ > 0) {
      // The first step's momentum is the gradient itself: 0 m + g.
      if (momenta_.empty()) momenta_ = zeros_like(parameters_);
      at::_foreach_mul_(momenta_, momentum_);
      at::_foreach_add_(momenta_, direction, 1);
      direction = momenta_;
    }
    at::_foreach_add_(parameters_, direction, -rate_);
  }

 private:
  Tensors parameters_, momenta_;
  double rate_, momentum_;
};

/// torch.optim.Adam(foreach=True), and AdamW with a weight decay.
class ForeachAdam : public TimedOptimizer {
 public:
  ForeachAdam(Tensors parameters, double rate, double decay)
      : parameters_(std::move(parameters)),
        first_(zeros_like(parameters_)),
        second_(zeros_like(parameters_)),
        rate_(rate),
        decay_(decay) {}

  void step() override {
    const torch::NoGradGuard no_grad;
    const Tensors gradient = gradients(parameters_);
    ++steps_;
    if (decay_ > 0) at::_foreach_mul_(parameters_, 1 - rate_ * decay_);
    at::_foreach_mul_(first_, kBeta1);
    at::_foreach_add_(first_, gradient, 1 - kBeta1);
    at::_foreach_mul_(second_, kBeta2);
    at::_foreach_addcmul_(second_, gradient, gradient, 1 - kBeta2);
    Tensors denominator = at::_foreach_sqrt(second_);
    at::_foreach_div_(denominator, std::sqrt(1 - std::pow(kBeta2, steps_)));
    at::_foreach_add_(denominator, kEpsilon);
    at::_foreach_addcdiv_(parameters_, first_, denominator,
                          -rate_ / (1 - std::pow(kBeta1, steps_)));
  }

 private:
  Tensors parameters_, first_, second_;
  double rate_, decay_;
  int steps_ = 0;
};

}  // namespace

const std::vector<std::string>& timed_optimizers() {
  static const std::vector<std::string> kNames = {"sgd", "sgd_momentum", "adam", "adamw"};
  return kNames;
}

std::unique_ptr<TimedOptimizer> make_optimizer(const OptimizerChoice& choice, Tensors parameters) {
  const std::string& kind = choice.kind;
  check(std::find(timed_optimizers().begin(), timed_optimizers().end(), kind) !=
            timed_optimizers().end(),
        "an optimizer that can be timed");
  const double rate = choice.learning_rate;
  if (!choice.foreach) {
    return std::make_unique<LoopOptimizer>(loop_optimizer(kind, rate, std::move(parameters)));
  }
  if (kind == "sgd" || kind == "sgd_momentum") {
    return std::make_unique<ForeachSgd>(std::move(parameters), rate, kind == "sgd" ? 0 : kMomentum);
  }
  return std::make_unique<ForeachAdam>(std::move(parameters), rate, kind == "adam" ? 0 : kDecay);
}

std::unique_ptr<TimedOptimizer> default_optimizer(const std::string& kind, Tensors parameters) {
  const bool foreach = !parameters.empty() && parameters.front().is_cuda();
  return make_optimizer({.kind = kind, .foreach = foreach}, std::move(parameters));
}

}  // namespace rehearse::inline calibrate
