#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "report/report.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline prediction {

/// The machine that a scenario (solved()) plays: its schedule, built and validated, and folded
/// where the scenario's fidelity asks for that; with the other jobs of its cluster. InputError if
/// it asks and the ranks are not alike.
Machine machine_of(const Scenario& scenario);

/// EngineOptions::enough of the scenario's schedule, which it refers to: empty where all ranks end
/// after run.steps.
std::function<bool(const Trace&)> until_steady(const Scenario& scenario, const Schedule& schedule);

struct Prediction {
  Machine machine;
  Trace trace;
  std::vector<CollectiveAnswer> answers;   ///< of this job's collectives
  std::vector<ErrorSource> error_sources;  ///< what the report's intervals follow from
  Report report;
};

/// The scenario's schedule at another batch per GPU; empty where times are given, which hold for
/// one batch. The scenario is copied.
std::function<Schedule(std::int64_t batch)> schedule_at_batch(const Scenario& scenario);

struct Options {
  std::function<void(double share)> progress{};  ///< called now and then with what is done, 0 to 1
  /// True to find the largest batch, by building the schedule for other batches.
  bool find_largest_batch = true;
  /// True to find intervals, by simulations at both ends of what may be off, four and more; else
  /// there are none.
  bool intervals = true;
  /// Takes the memory interval where there are no others; it needs no simulation.
  bool memory_interval = false;
  /// Memory report of the machine (memory_of), where it is known already.
  std::optional<MemoryReport> memory{};
};

/// The whole pipeline after reading: solved, machine, run, summarize. Once per process (SimGrid).
Prediction predict(const Scenario& scenario, const Options& options = {});
/// The same of a scenario that is solved, and a machine that was made of it already.
Prediction predict(const Scenario& scenario, Machine machine, const Options& options = {});

}  // namespace rehearse::inline prediction
