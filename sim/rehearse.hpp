#pragma once

/// The front door of the library: what the commands of `rehearse` do, for programs of others.
///
///     #include <rehearse/rehearse.hpp>
///     const rehearse::Scenario scenario = rehearse::read_scenario("scenario.yaml", {});
///     const rehearse::Report report = rehearse::report_of(scenario);
///     std::cout << report.step_time.value() << " s\n" << rehearse::to_json(report);
///     const rehearse::Report same = rehearse::report_from_json(text, "report.json");
///
/// report_of() may be called as often as one likes, and from several threads. SimGrid simulates
/// once per process: predict(), which keeps the trace, and explain() may be called once, and so in
/// a child process (in_child_process) where more is asked. Studies and plans do that themselves.
/// Errors are thrown as rehearse::Error; what() is what the program prints, code() its exit code.

#include "base/child_process.hpp"
#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/key_places.hpp"
#include "explain/explain_scenario.hpp"  // explain(scenario) -> ExplainedRun
#include "keys/keys.hpp"
#include "planner/check_file.hpp"  // check_file(file) -> what it is, and what is wrong
#include "planner/layouts/layout_simulator.hpp"  // simulator_for(plan)
#include "planner/plan.hpp"                      // read_plan(file) -> Plan
#include "planner/plan_view.hpp"                 // plan_json(result)
#include "planner/run_plan.hpp"                  // prepare_plan, run_plan -> PlanResult
#include "predict/measured_job.hpp"              // read_question(file) -> Scenario, solved
#include "predict/predict.hpp"                   // predict(scenario) -> Prediction
#include "predict/predicted_collective.hpp"      // predicted_collective(cluster, kind, ...)
#include "predict/report_of.hpp"  // report_of(scenario) -> Report, as often as one likes
#include "predict/run_views.hpp"  // chrome_trace(scenario, prediction)
#include "scenario/scenario.hpp"  // read_scenario(file) -> Scenario
#include "study/simulator.hpp"    // simulator()
#include "study/study.hpp"        // read_study(file) -> Study
#include "study/study_view.hpp"   // what a study's results say
#include "study/sweep.hpp"        // prepare, sweep
#include "view/views.hpp"         // to_json(report), report_from_json(text)

namespace rehearse {
/// So that messages say where a misplaced key belongs, as the program's do.
inline const bool kKeyPlacesNoted = (set_key_places(scenario_places), true);
}  // namespace rehearse

#ifdef REHEARSE_PREFIX
namespace rehearse {
/// Where `cmake --install` put platforms/ and scenarios/.
inline const bool kPrefixNoted = note_prefix(REHEARSE_PREFIX);
}  // namespace rehearse
#endif
