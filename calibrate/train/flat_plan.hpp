#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "models/chain.hpp"

namespace rehearse::inline calibrate {

/// Which units of a chain are sharded together: each by itself, but for units that share a weight.
struct FlatPlan {
  /// Per flat unit, the chain's units whose parameters it has, in forward order.
  std::vector<std::vector<std::size_t>> flats;
  /// Per unit of the chain, the flat unit that it reads; none where it has no parameters.
  std::vector<std::optional<std::size_t>> flat_of;
};

FlatPlan plan_flats(const Chain& chain);

}  // namespace rehearse::inline calibrate
