#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "collective/collective_cost.hpp"
#include "engine/machine.hpp"
#include "explain/explanation.hpp"
#include "explain/questions.hpp"
#include "scenario/scenario.hpp"
#include "trace/trace.hpp"

namespace rehearse::inline explanation {

struct ExplainOptions {
  Questions questions{};
  std::size_t jobs = 0;  ///< simulations side by side; 0: one per core
  /// Told how many simulations of how many are done; may be empty.
  std::function<void(std::size_t done, std::size_t all)> progress{};
};

/// A run, and what bounds it.
struct ExplainedRun {
  Machine machine;
  Trace trace;
  std::vector<CollectiveAnswer> answers;
  Explanation explanation;
};

/// Simulates the scenario, and once more for each question in a child process. Once per process
/// (SimGrid). InputError beside other jobs, and where there are too many operations to follow.
ExplainedRun explain(const Scenario& scenario, const ExplainOptions& options = {});

/// A Chrome trace (to_chrome_trace) of the step that the critical path is of, with the path.
std::string chrome_trace(const Scenario& scenario, const ExplainedRun& run);

}  // namespace rehearse::inline explanation
