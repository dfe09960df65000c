#pragma once

#include <functional>

#include "base/child_process.hpp"
#include "predict/predict.hpp"
#include "report/report.hpp"
#include "scenario/scenario.hpp"
#include "schedule/schedule.hpp"
#include "trace/trace.hpp"

namespace rehearse::inline prediction {

/// The short result of a run of the schedule.
Headline headline_of(const Scenario& scenario, const Schedule& schedule, const Trace& trace);

/// Simulates in this process. SimGrid plays once per process: no simulation can follow in it.
Headline simulated_headline(const Scenario& scenario, const Machine& machine);

/// A simulation of which only the headline is asked, in a process of its own beside this one.
class HeadlineRun {
 public:
  /// Starts it. MissingError as ChildProcess.
  explicit HeadlineRun(const std::function<Headline()>& work);
  /// Waits for it; once.
  Headline result();

 private:
  ChildProcess child_;
};

}  // namespace rehearse::inline prediction
