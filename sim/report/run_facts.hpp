#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/report.hpp"

namespace rehearse::inline report {

/// Breakdown of the recorded ranks over iterations [first, last).
Breakdown break_down(const Schedule& schedule, const Trace& trace, std::uint32_t first,
                     std::uint32_t last);

/// Half-widths of 90 % intervals, from recorded runs.
struct ModelError {
  double step = 0;       ///< on ln(step time)
  double staleness = 0;  ///< relative, on the mean staleness
};

struct Anatomy;

/// Facts of a run besides its trace.
struct RunFacts {
  const Scenario& scenario;
  const Schedule& schedule;  ///< as simulated (folded or not)
  const Trace& trace;
  std::string fidelity;
  std::string provenance;
  std::vector<std::string> assumptions, outside_calibration;
  /// The same job with another batch per GPU, for the largest batch that fits; empty: the batch
  /// cannot vary.
  std::function<Schedule(std::int64_t batch)> schedule_at_batch = {};
  /// It is of the measured steps (anatomy_of), where it is at hand.
  const Anatomy* anatomy = nullptr;
  /// Errors that the costs may have, independent of one another.
  std::vector<ErrorSource> error_sources = {};
  /// Says what the errors of its memory come from; empty: its memory is taken as exact.
  std::function<MemoryMechanisms(const MemoryReport&)> memory_mechanisms = {};
  /// Error of the model itself where all costs are known.
  ModelError model_error = {};
  /// The runs of which this is the median one, and how well their median is known.
  std::uint32_t replications = 1;
  std::optional<double> replications_error = {};
  /// The jobs beside this one, as played, and its step time without them.
  const OtherJobs* others = nullptr;
  std::optional<Seconds> step_time_alone = {};
  /// Throughput with one node fewer over that with all, where it was simulated.
  std::optional<double> speed_without_one = {};
  /// Samples per second of the part that is in step before updates go stale, where there is one.
  std::optional<double> synchronous_rate = {};
  std::vector<CollectiveReport> collectives = {};
  /// Memory that the schedule's programs need, without the largest batch, where it is known.
  std::optional<MemoryReport> memory = {};
  std::vector<ComputeReport> compute = {};
  /// Versions of libraries ("simgrid": "3.32.0"); rehearse's own is added.
  std::map<std::string, std::string> versions = {};
};
Report summarize(const RunFacts& facts);
/// The figures alone, of the schedule's iterations (the trace may hold more).
Headline headline(const RunFacts& facts);

}  // namespace rehearse::inline report
