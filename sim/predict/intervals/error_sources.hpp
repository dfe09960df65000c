#pragma once

#include <optional>
#include <string>
#include <vector>

#include "predict/headline_run.hpp"
#include "predict/predict.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline prediction {

/// Simulations of what mechanisms_of() does not tell: the machine with compute, then with
/// communication, then with experts' tokens as routers leave them, then with what is taken for
/// granted of how GPUs differ, then with what parameter servers' hosts allow, at both ends of their
/// intervals, each in a process of its own beside this one. To be started before this process
/// simulates.
///
/// Where steps are alike (steps_alike) and there is no parameter server, two are enough.
/// Sources without an error (given times, one GPU, a given apply rate) are left out. Beside
/// mechanisms only two are simulated: routing, and the transport that nobody states.
class ShiftedRuns {
 public:
  ShiftedRuns(const Scenario& scenario, const Machine& machine, const std::vector<StepCosts>& costs,
              bool beside_mechanisms);

  /// Waits for them, and sets them beside what the machine itself said of the same iterations.
  std::vector<ErrorSource> error_sources(const Trace& trace);

 private:
  struct Pair {
    std::string name;
    std::optional<HeadlineRun> low;  ///< nothing: the machine as it is
    HeadlineRun high;
  };

  const Scenario& scenario_;
  const Machine& machine_;
  std::vector<Pair> pairs_;
};

/// Model error of runs over a measured transport; elsewhere nothing is known of it. On the testbed
/// (tests/validation/testbed) its 90 % intervals hold 35 of 38 step times and 16 of 16 mean
/// stalenesses that the model had seen.
ModelError model_error(const Scenario& scenario, const Schedule& schedule);

/// True if ranks send each other anything.
bool communicates(const Schedule& schedule);

}  // namespace rehearse::inline prediction
