#pragma once

#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse {

/// What FSDP wraps as one: a run of units [first, last] whose parameters form one flat, padded
/// buffer.
struct FlatParameter {
  std::size_t first = 0, last = 0;
  std::int64_t elements = 0;  ///< padded to a multiple of the sharding group's ranks
  std::int64_t trained = 0;   ///< those with a gradient, likewise
  Bytes others;               ///< of frozen tensors that are not kept as the precision says
  StoredAs storage = StoredAs::model;  ///< of what is trained
  std::int64_t graded = 0;  ///< elements that gradients are made of: `trained`, or all that are flat
};

/// Cuts a model's units as the wrap policy says. Units without parameters join the run before them
/// (or after, at the start). A model without parameters gives no runs.
std::vector<FlatParameter> wrap(const Model& model, const Fsdp& options, Precision precision,
                                std::int64_t shards);

}  // namespace rehearse
