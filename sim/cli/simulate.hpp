#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "collective/plan.hpp"
#include "engine/engine.hpp"
#include "report/report.hpp"
#include "scenario/scenario.hpp"
#include "schedule/other_jobs.hpp"
#include "schedule/schedule.hpp"
#include "trace/trace.hpp"

namespace rehearse {

/// What will be simulated: the whole schedule, or the few ranks that stand for it.
struct RunPlan {
  Schedule schedule;
  Cluster cluster;
  Fidelity fidelity = Fidelity::flow;
  std::string fidelity_name;          ///< "hop", "flow", "folded (16 of 4096 ranks simulated)"
  std::optional<OtherJobs> others{};  ///< that share the cluster
  double shift = 0;                   ///< EngineOptions::shift
  double links_slowed = 1;            ///< EngineOptions::links_slowed
};

/// Builds and validates the schedule, and folds it where the scenario's fidelity asks for that.
/// InputError if it asks and the ranks are not alike.
RunPlan plan_simulation(const Scenario& scenario);

/// EngineOptions::enough of the scenario's schedule, which it refers to: empty where all ranks end
/// after run.steps.
std::function<bool(const Trace&)> until_steady(const Scenario& scenario, const Schedule& schedule);

/// With the plan's fidelity, the scenario's costs of collectives and the other jobs; it refers to
/// all of them.
EngineOptions engine_options(const Scenario& scenario, const RunPlan& plan);

struct Prediction {
  RunPlan plan;
  Trace trace;
  std::vector<ErrorSource> error_sources;  ///< what the report's intervals follow from
  Report report;
};

/// The scenario's schedule at another batch per GPU; empty where times are given, which hold for
/// one batch. The scenario is copied.
std::function<Schedule(std::int64_t batch)> schedule_at_batch(const Scenario& scenario);

/// The whole pipeline after reading: plan, run, summarize. Once per process (SimGrid). `progress`
/// may be null. The largest batch that fits is found by building the schedule for others.
Prediction simulate(const Scenario& scenario, void (*progress)(double share),
                    bool find_largest_batch = true);
/// The same of a plan that was made of the scenario already.
Prediction simulate(const Scenario& scenario, RunPlan plan, void (*progress)(double share),
                    bool find_largest_batch = true);

}  // namespace rehearse
