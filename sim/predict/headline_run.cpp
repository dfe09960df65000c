#include "predict/headline_run.hpp"

#include "engine/engine.hpp"
#include "predict/wire.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline prediction {
Headline headline_of(const Scenario& scenario, const Schedule& schedule, const Trace& trace) {
  return headline({.scenario = scenario,
                   .schedule = schedule,
                   .trace = trace,
                   .fidelity = "",
                   .provenance = "",
                   .assumptions = {},
                   .outside_calibration = {}});
}

Headline simulated_headline(const Scenario& scenario, const Machine& machine) {
  EngineOptions options;
  options.span_limit = 0;
  options.enough = until_steady(scenario, machine.schedule);
  return headline_of(scenario, machine.schedule, run(machine, options));
}

HeadlineRun::HeadlineRun(const std::function<Headline()>& work)
    : child_([&work] { return sent(work()); }) {}

Headline HeadlineRun::result() { return received<Headline>(child_.result()); }

}  // namespace rehearse::inline prediction
