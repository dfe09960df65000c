#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ends.hpp"

namespace rehearse::inline convergence {

/// How a language model is trained with Adam, as far as its loss goes by it.
struct LossMethod {
  double parameters = 0;
  double tokens_per_step = 0;  ///< of all workers
  /// DiLoCo's M and H: `period` steps of each replica's own between two outer steps; both 1: plain
  /// synchronous training.
  int replicas = 1, period = 1;
  enum class Order {
    synchronous,
    one_late,     ///< a gradient is applied one update after its own
    asynchronous  ///< pseudo-gradients are applied as they come
  } order = Order::synchronous;
  bool delayed_nesterov = false;  ///< asynchronous: with delayed Nesterov, dynamic local updates
  bool tuned = false;             ///< rates and batch were searched for this method
  enum class Format { wide, fp8, mxfp8, nvfp4 } format = Format::wide;
  std::optional<double> unique_tokens{};  ///< of the data; nothing: none is seen twice
  /// -dL/d ln D of the user's own runs, in nats; nothing: the stated one with its spread.
  std::optional<double> slope{};

  bool has_local_steps() const { return period > 1 || replicas > 1; }
};

/// Why no public row speaks of a method, and what can be done.
struct LossRefusal {
  std::string why, remedy;
};
/// `tokens` are those of plain synchronous training that it is to be like.
std::optional<LossRefusal> refusal_of(const LossMethod& method, double tokens);

/// ln(loss / plain synchronous training's) of synchronous DiLoCo; 0 without local steps.
Estimate<double> diloco_cost(const LossMethod& method);

/// One thing that costs tokens.
struct TokenCost {
  std::string name;        ///< "DiLoCo, 8 replicas, H 30"
  Estimate<double> ratio;  ///< tokens over those without it, 90 %
  std::string source;
};

/// What a training takes to come to the loss of plain synchronous training, at its best batch, on
/// `like` tokens.
struct EqualLoss {
  double like = 0;
  Estimate<double> tokens;
  std::vector<TokenCost> parts;  ///< independent of one another

  Estimate<double> ratio() const {
    return {tokens.value / like, tokens.low / like, tokens.high / like};
  }
};
/// Of a method that refusal_of() does not refuse.
///
/// A loss L (1 + g) becomes tokens by L(D) = E' + B D^-beta: D is multiplied by
/// (1 - beta L g / s)^(-1 / beta), with s = -dL/d ln D at `like` tokens. Ends of intervals add in
/// quadrature of ln.
EqualLoss equal_loss(const LossMethod& method, double like);

/// Tokens of a step at which 20 % more tokens come to the same loss.
Estimate<double> critical_batch(const LossMethod& method, double tokens);

}  // namespace rehearse::inline convergence
