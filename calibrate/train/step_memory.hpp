#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"

namespace rehearse::inline calibrate {

/// Bytes that tensors held while one part of a step ran, all that live included.
struct MemoryPart {
  std::string phase;  ///< "forward", "backward", "reduction", "optimizer", "pull" or "push"
  std::string unit;   ///< whose forward or backward it is; else empty
  Bytes peak;
  Bytes live;  ///< at its end
};

/// Bytes that one rank's tensors held in one step, by the allocator's own count.
struct StepMemory {
  /// When the step begins: what lives from step to step, the last one's gradients included.
  Bytes at_rest;
  Bytes allocated_peak;
  std::optional<Bytes> reserved_peak;  ///< of a caching allocator
  std::vector<MemoryPart> parts;       ///< in the order in which they ran

  /// Where the step's peak is: the first part that reaches it. Needs at least one.
  const MemoryPart& peak_part() const;
};

}  // namespace rehearse::inline calibrate
