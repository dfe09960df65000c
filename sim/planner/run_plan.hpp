#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/search.hpp"
#include "study/sweep.hpp"

namespace rehearse::inline planner {

/// A machine that is another than the scenario's.
struct WhatIf {
  double network = 1;  ///< times the bandwidth between nodes, that of measured collectives included
  double compute = 1;  ///< times the GPUs' speed
};

/// Functions of the simulator that a plan needs.
struct PlanSimulator {
  Simulator simulator;
  /// Bounds a scenario; runs in a child process, of many scenarios each.
  std::function<Bound(const Document&)> bound;
  /// As Simulator::predict, on another machine; empty: that is not asked.
  std::function<std::string(const Document&, const WhatIf&)> predict_if = nullptr;
  /// As Simulator::predict, which then has no intervals of times, with these and what they follow
  /// from; empty: it has them.
  std::function<std::string(const Document&)> predict_with_errors = nullptr;
};

/// A plan whose candidates have been read and bounded.
struct PreparedPlan {
  Plan plan;
  PreparedStudy study;  ///< without points whose content another one has; as the candidates
  std::vector<Candidate> candidates;
  std::size_t duplicates = 0;  ///< points that were left out for that
};

/// Something that would change the answer.
struct Change {
  std::string what;  ///< "deadline", "price of 1 p4d"
  double from = 0, to = 0;
  std::string unit;
  std::string words;
  std::optional<std::size_t> choice;  ///< the candidate that would be chosen then
};

/// The result of a plan.
struct PlanResult {
  PreparedPlan prepared;
  std::vector<std::size_t> ranking;  ///< candidates, best first
  std::optional<std::size_t> choice;
  std::vector<Change> would_change;
  std::vector<std::string> steady;  ///< changes that leave it as it is, in words
  /// From the choice's report: why its numbers may be off by more, and what nobody said.
  std::vector<std::string> outside_calibration{}, assumptions{};
  std::size_t simulated = 0;  ///< candidates, probes included
};

/// Finds each candidate's key and bound, `limits.jobs` children at a time. Where all are wrong, the
/// plan is: the first's error; InputError at the objective where no candidate can tell it. Stopped
/// (`limits.stop`), it leaves what it has in the file of results `kept` and throws as
/// fail_as_stopped does; an empty path keeps nothing.
PreparedPlan prepare_plan(Plan plan, const PlanSimulator& simulator,
                          const std::filesystem::path& kept, const ChildLimits& limits,
                          const std::function<void(const SweepProgress&)>& progress);

/// Searches, with outcomes taken from and kept in `store`, and asks what would change the answer.
/// Stopped (`limits.stop`), it throws as fail_as_stopped does.
PlanResult run_plan(PreparedPlan prepared, const PlanSimulator& simulator, ResultStore& store,
                    const SweepOptions& options);

/// How candidates differ from each other in words: what their settings do not share.
std::string settings_text(const PreparedPlan& prepared, std::size_t candidate);

/// Why a candidate stands where it does: its own figures beside the choice's, and, of the choice,
/// what came of the candidates that differ from it in one setting.
std::vector<std::string> reasons(const PlanResult& result, std::size_t candidate);

/// Changes of the question that change the answer (or, where nothing is feasible, admit one).
std::vector<Change> changes(const PlanResult& result);

/// Candidates that were dismissed by a bound and are worth a simulation all the same, to say how
/// far off they are: where there is a choice, the most promising that miss one constraint alone;
/// else those that miss theirs by least.
std::vector<std::size_t> probes(const PlanResult& result);

}  // namespace rehearse::inline planner
