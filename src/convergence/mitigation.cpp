#include "convergence/mitigation.hpp"

#include <algorithm>

namespace rehearse::inline convergence {

MomentumAndRate corrected_momentum(const MomentumAndRate& asked, std::uint32_t workers) {
  const double wanted = asked.momentum / (1 - asked.momentum);
  const double left = std::max(0.0, wanted - static_cast<double>(workers - 1));
  const double momentum = left / (1 + left);
  return {momentum, asked.learning_rate * (1 - momentum) / (1 - asked.momentum)};
}

}  // namespace rehearse::inline convergence
