#pragma once

#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse {

/// What FSDP wraps as one: a run of units [first, last] whose parameters form one flat, padded
/// buffer.
struct FlatParameter {
  std::size_t first = 0, last = 0;
  std::int64_t elements = 0;  ///< padded to a multiple of the sharding group's ranks
};

/// Cuts a model's units as the wrap policy says. Units without parameters join the run before them
/// (or after, at the start). A model without parameters gives no runs.
std::vector<FlatParameter> wrap(const Model& model, const Fsdp& options, std::int64_t shards);

}  // namespace rehearse
