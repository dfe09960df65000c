#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "memory/replay.hpp"
#include "schedule/schedule.hpp"
#include "trace/trace.hpp"

namespace rehearse::inline html {

/// A simulated run, for its pictures.
struct RunShown {
  const Schedule& schedule;  ///< as simulated (folded or not)
  const Trace& trace;
  std::uint32_t first = 0, last = 0;         ///< the measured iterations: [first, last)
  Seconds step_time;                         ///< as reported
  const std::vector<MemoryDevice>& devices;  ///< by program, as memory_devices() has them
};

/// Data of a run's page besides its report: `extras` of to_html. Times are in seconds since
/// the beginning of the step that is shown: of the first worker's measured steps the one whose
/// length is nearest to the reported one.
///   timeline: {iteration, length_s, ranks, operations, phases: [..], lanes: [{rank, name, stage}],
///              labels: [..], spans: [[lane, start, end, label, phase, operations], ..]}
///     What the first worker, the slowest of those recorded, and a few more do in that time; of a
///     pipeline, a rank of each stage does (elsewhere there is no `stage`).
///     Neighbours of one phase that are too short to be seen are one span.
///   memory: [{program, rank, capacity_bytes, kinds: [..], samples: [[time, bytes.., reserved],
///   ..]}]
///     Of the first rank of each program. Where there are many moments, the one that holds most of
///     each stretch. `reserved` and `capacity_bytes` are null where there is none.
nlohmann::ordered_json run_extras(const RunShown& run);

}  // namespace rehearse::inline html
