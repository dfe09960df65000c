#pragma once

#include <cstdint>

namespace rehearse::inline scenario {

/// The largest `model.batch_per_gpu`, in samples, and the largest micro-batch.
constexpr std::int64_t kLargestBatch = 1'000'000;

}  // namespace rehearse::inline scenario
