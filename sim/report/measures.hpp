#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "report/report.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline report {

/// Largest batch that leaves no less than no room; nothing if not even 1 does. `room` must not grow
/// with the batch: it is extrapolated from `start`, and the guess is then corrected by doubling
/// steps and halving.
std::optional<std::int64_t> largest_batch(const std::function<Bytes(std::int64_t batch)>& room,
                                          std::int64_t start);

/// Where a rank's tensors come from: its GPU's allocator under the scenario's settings, its
/// capacity, and what is taken of that already.
MemoryDevice memory_device(const Scenario& scenario, const Schedule& schedule, RankId rank);
/// The same by the schedule's programs, each of its first rank.
std::vector<MemoryDevice> memory_devices(const Scenario& scenario, const Schedule& schedule);

/// The mean share of the ranks' computing in which they stand ready and others have the cores;
/// nothing where none are shared.
std::optional<double> ready_share(const RunFacts& facts);

/// Memory of the GPU with the least room left; nothing if the schedule says nothing of memory.
std::optional<MemoryReport> memory_report(const RunFacts& facts);
/// MemoryReport::largest_batch_per_gpu of the report of the scenario's own batch; nothing where its
/// device's memory is not known.
std::optional<std::int64_t> largest_batch_that_fits(
    const Scenario& scenario, const std::function<Schedule(std::int64_t batch)>& schedule_at,
    const MemoryReport& memory);

}  // namespace rehearse::inline report
