#pragma once

#include <array>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearse {

/// What a rank holds at one moment, by kind.
struct MemoryUse {
  std::array<Bytes, kMemoryKinds> by_kind{};
  Bytes total() const;
};

/// The most that one rank holds during an iteration, and where.
struct MemoryPeak {
  MemoryUse use;
  std::size_t op = 0;  ///< index of the operation at whose start the peak stands
  std::string label;   ///< of that operation; empty if the resident memory alone is the peak
};

/// Plays a program's allocations in issue order, twice (what an iteration leaves for the next one
/// counts), and finds the peak of the second round. InternalError if a kind goes below zero in the
/// second round (the first may free what the iteration before it would have left) or the second
/// round does not end with what it began with.
MemoryPeak memory_peak(const Program& program);

/// CUDA context and library handles, outside the allocator: a stated constant (memory.cpp has its
/// source).
Bytes cuda_context();

}  // namespace rehearse
