#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "report/report.hpp"

namespace rehearse {

/// Largest batch that leaves no less than no room; nothing if not even 1 does. `room` must not grow
/// with the batch: it is extrapolated from `start`, and the guess is then corrected by doubling
/// steps and halving.
std::optional<std::int64_t> largest_batch(const std::function<Bytes(std::int64_t batch)>& room,
                                          std::int64_t start);

/// Of the GPU with the least room left; nothing if the schedule says nothing of memory.
std::optional<MemoryReport> memory_report(const RunFacts& facts);

}  // namespace rehearse
