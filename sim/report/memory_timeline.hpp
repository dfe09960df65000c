#pragma once

#include <optional>
#include <vector>

#include "memory/replay.hpp"
#include "trace/trace.hpp"

namespace rehearse::inline report {

/// Memory that a rank holds from a moment on.
struct MemorySample {
  Seconds time;
  std::uint32_t iteration = 0;
  MemoryUse use;
  std::optional<Bytes> reserved;  ///< nothing on a CPU
};

/// A rank's memory as time goes by. What an operation takes and gives back is spread evenly over
/// its time, the first event at its start and the last at its end (one alone: taken at the start,
/// given back at the end), at 16 moments at most. Reserved is what the allocator holds in a steady
/// iteration once the operation was issued. `spans` are the rank's, of all iterations.
std::vector<MemorySample> memory_timeline(const Program& program, const MemoryDevice& device,
                                          const std::vector<const Span*>& spans);

}  // namespace rehearse::inline report
