#include "html/run_page.hpp"

#include "html/html.hpp"
#include "html/timeline.hpp"
#include "report/measures.hpp"
#include "view/json_view.hpp"

namespace rehearse::inline html {

std::string run_page(const Scenario& scenario, const Prediction& prediction) {
  const Schedule& schedule = prediction.machine.schedule;
  const Report& report = prediction.report;
  const std::vector<MemoryDevice> devices = memory_devices(scenario, schedule);
  return to_html(json_view(report),
                 run_extras({.schedule = schedule,
                             .trace = prediction.trace,
                             .first = scenario.run.warmup_steps,
                             .last = scenario.run.warmup_steps + scenario.run.steps,
                             .step_time = report.worker_step_time.value_or(report.step_time),
                             .devices = devices}));
}

}  // namespace rehearse::inline html
