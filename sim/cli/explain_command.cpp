#include <algorithm>

#include "cli/commands.hpp"
#include "cli/progress_bar.hpp"
#include "explain/explain_scenario.hpp"
#include "html/html.hpp"
#include "predict/measured_job.hpp"
#include "report/measures.hpp"
#include "report/views.hpp"

namespace rehearse {
namespace {

std::string render(const Explanation& explanation, const ExplainCommand& command) {
  if (command.format == "json") return to_json(explanation);
  if (command.format == "csv") return to_csv(explanation);
  if (command.output.empty())
    return to_terminal(explanation, terminal_width(), use_color(command.color));
  return to_terminal(explanation, 100, command.color == ColorChoice::always);
}

ExplainedRun explained(const Scenario& scenario, const ExplainCommand& command) {
  ProgressBar bar(command.quiet);
  return explain(scenario, {.questions = {.more = command.more,
                                          .workers = static_cast<std::size_t>(command.workers)},
                            .jobs = static_cast<std::size_t>(std::max(0, command.jobs)),
                            .progress = [&](std::size_t done, std::size_t all) {
                              bar.show({done, all, 0, done, all});
                            }});
}

}  // namespace

void explain_command(const ExplainCommand& command) {
  const Scenario scenario = read_question(command.scenario, command.overrides);
  check_outputs(
      {{"--output", command.output}, {"--html", command.html}, {"--trace", command.trace}});
  const ExplainedRun run = explained(scenario, command);
  const Explanation& explanation = run.explanation;
  if (!command.trace.empty()) {
    const Schedule& schedule = run.machine.schedule;
    const std::uint32_t shown = explanation.path.shown_step;
    write_file(command.trace,
               with_critical_path(to_chrome_trace(schedule, run.trace, shown, shown + 1,
                                                  memory_devices(scenario, schedule), run.answers),
                                  explanation));
  }
  if (!command.html.empty()) write_file(command.html, to_html(to_json(explanation)));
  write_result(command.output, render(explanation, command));
}

}  // namespace rehearse
