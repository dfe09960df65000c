#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convergence/token_cost.hpp"

namespace rehearse::inline convergence {

/// What a training's length stands for: what it comes to, or what its way to train costs in loss.
struct LossCost {
  enum class Asked {
    length,  ///< so many tokens or epochs, whatever they come to
    like,    ///< the loss of plain synchronous training on `asked_tokens`
    target   ///< an accuracy or a loss
  } asked = Asked::length;
  std::string method{};                      ///< "synchronous", "DiLoCo, 2 replicas, H 30, NVFP4"
  std::optional<double> like_tokens{};       ///< asked for
  std::string unit{};                        ///< of `amount`: "tokens", "epochs", "samples"
  std::optional<Estimate<double>> amount{};  ///< that it takes, 90 %
  std::vector<TokenCost> parts{};            ///< what makes it differ from plain training
  std::string line{};                        ///< in a sentence
};

}  // namespace rehearse::inline convergence
