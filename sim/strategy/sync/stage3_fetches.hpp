#pragma once

#include <cstdint>
#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// What DeepSpeed's PartitionedParameterCoordinator does at one use of a module, once it has
/// recorded a step: fetch_sub_module and release_sub_module.
struct Stage3Use {
  bool fetches = false;                   ///< the module's own parameters are not there
  std::vector<std::size_t> prefetched{};  ///< modules gathered together behind that
  bool released = false;                  ///< its parameters go after this use
};

/// By use, of modules with so many elements that are partitioned. `uses`: modules of a forward and
/// a backward, in order; each begins with nothing there.
///
/// Prefetch takes the next parameters in the order of use until prefetch_bucket_size is reached, or
/// max_live_parameters with what is there. A module stays where prefetch has passed by its next
/// use, or where that lies within max_reuse_distance elements.
std::vector<Stage3Use> stage3_uses(const std::vector<std::int64_t>& elements,
                                   const std::vector<std::size_t>& uses,
                                   const DeepspeedZero3& options);

}  // namespace rehearse::inline strategy
