#pragma once

#include <cstdint>
#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// Blocks of each stage, so that the fullest one has as little as can be (Layout::balance), each on
/// the slowest or smallest GPU that computes it; of several such splits the most even one. Time is
/// what a micro-batch computes in both passes, recomputation included. Memory is the part of the
/// GPU's that parameters, their gradients and states take, and activations of the micro-batches
/// that 1F1B has in flight at that stage. Empty where no split is legal.
std::vector<std::int64_t> balanced_split(const Strategy& strategy, const Job& job);

}  // namespace rehearse::inline strategy
