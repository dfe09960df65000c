#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/report.hpp"

namespace rehearse::inline view {

/// `rehearse.report/1`, two-space indented, keys in a fixed order.
std::string to_json(const Report& report);
/// The report that such a text says: to_json() of it is that text. What follows from other keys
/// (`answer`, `used_bytes`, `verdict`, `step_time_interval_s`) and unknown keys are passed over;
/// `stages` and `memory.would_fit` may be missing. Not in the JSON, and so not in the report: what
/// strategy_forecast() leaves out of `accuracy`, and of a goodput without failures the intervals
/// and estimates. InputError where the text is no JSON, of another schema, lacks a key or has
/// another value: `file: error: accuracy.curve[3].samples: expected a number; got nothing`.
Report report_from_json(const std::string& text, const std::string& file = "report");
/// A header line and a row; nested keys joined by dots (`memory.allocated_peak_bytes`).
std::string to_csv(const std::vector<Report>& reports);
/// How much a view for people says.
enum class Detail {
  brief,  ///< the answer, why, and what would help: about 25 lines
  all
};
/// For people: columns fit `width`; ANSI colours if `color`.
std::string to_terminal(const Report& report, int width, bool color, Detail detail = Detail::all);
/// Chrome trace events (opens in Perfetto): a process per rank, a thread per lane, memory of
/// the first rank of each program as counters, by kind and (where `devices`, by program, have an
/// allocator) as it is reserved. At most `iterations` iterations after the warm-up. Collectives say
/// what `answers` has of them.
std::string to_chrome_trace(const Schedule& schedule, const Trace& trace,
                            std::uint32_t first_iteration, std::uint32_t last_iteration,
                            const std::vector<MemoryDevice>& devices = {},
                            const std::vector<CollectiveAnswer>& answers = {});

/// PyTorch's memory snapshot (torch.cuda.memory._snapshot() as a pickle), which
/// https://pytorch.org/memory_viz draws: the allocator's history over the setup and two iterations,
/// and its segments at the end. Frames name the tensor's kind and unit, and the operation.
std::string memory_snapshot(const Program& program, const MemoryDevice& device);

}  // namespace rehearse::inline view
