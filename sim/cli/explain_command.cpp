#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/child_pool.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/measured_job.hpp"
#include "cli/progress_bar.hpp"
#include "cli/simulate.hpp"
#include "engine/engine.hpp"
#include "explain/explanation.hpp"
#include "explain/questions.hpp"
#include "html/html.hpp"
#include "report/measures.hpp"
#include "report/views.hpp"

namespace rehearse {
namespace {

using Json = nlohmann::json;

/// What a path is followed through: all operations of all ranks, at some 40 bytes each.
constexpr std::size_t kMostSpans = 8'000'000;

Machine machine_of(const RunPlan& plan, const Scenario& scenario) {
  Machine machine{plan.schedule, plan.cluster, std::nullopt, plan.fidelity};
  if (scenario.comm) machine.comm = *scenario.comm;
  return machine;
}

RunFacts facts_of(const Scenario& scenario, const Schedule& schedule, const Trace& trace,
                  const std::string& fidelity) {
  return {.scenario = scenario,
          .schedule = schedule,
          .trace = trace,
          .fidelity = fidelity,
          .provenance = "",
          .assumptions = {},
          .outside_calibration = {}};
}

/// Once per process.
Trace play(const Scenario& scenario, const Machine& machine, std::size_t span_limit) {
  EngineOptions options;
  options.fidelity = machine.fidelity;
  options.comm = machine.comm ? &*machine.comm : nullptr;
  options.span_limit = span_limit;
  options.enough = until_steady(scenario, machine.schedule);
  return run(machine.schedule, machine.cluster, options);
}

void check_size(const Scenario& scenario, const Machine& machine) {
  std::size_t spans = 0;
  for (std::size_t r = 0; r < machine.schedule.ranks.size(); ++r)
    spans += machine.schedule.program_of(RankId(r)).ops.size() * machine.schedule.iterations;
  if (spans <= kMostSpans) return;
  throw InputError(
      fmt::format("{}: error: {} operations are too many to follow (at most {})\nremedy: fewer "
                  "run.steps, fewer "
                  "ranks, or fidelity: folded where they are alike",
                  scenario.file, spans, kMostSpans));
}

/// The step time and rate of a machine, played in this process.
std::string measured(const Scenario& scenario, const Machine& whole) {
  Scenario for_short = scenario;
  const Machine machine = shortened(whole, for_short.run.warmup_steps);
  const Trace trace = play(for_short, machine, 0);
  const Headline figures = headline(facts_of(for_short, machine.schedule, trace, ""));
  return Json{{"step", figures.step_time.value()}, {"rate", figures.samples_per_s}}.dump();
}

Headline read_measured(const ChildEnd& end) {
  if (end.code != ExitCode::success) throw Error(end.code, end.text);
  const Json json = Json::parse(end.text);
  return {Seconds(json.at("step").get<double>()), json.at("rate").get<double>(), {}};
}

std::vector<Alternative> answers_of(const Scenario& scenario, const Machine& machine,
                                    const ExplainCommand& command) {
  const std::function<Machine(const Scenario&)> other = [](const Scenario& changed) {
    return machine_of(plan_simulation(changed), changed);
  };
  const std::vector<Experiment> all =
      experiments(scenario, machine, other,
                  {.more = command.more, .workers = static_cast<std::size_t>(command.workers)});
  const std::size_t jobs = command.jobs > 0 ? static_cast<std::size_t>(command.jobs)
                                            : std::max(1U, std::thread::hardware_concurrency());
  ProgressBar bar(!command.quiet && isatty(STDERR_FILENO) == 1);
  const auto work = [&](std::size_t i) { return measured(scenario, all[i].machine()); };
  const std::vector<ChildEnd> ends =
      in_child_processes(all.size(), jobs, work, [&](std::size_t done) {
        bar.show({done, all.size(), 0, done, all.size()});
      });
  std::vector<Headline> results;
  results.reserve(ends.size());
  for (const ChildEnd& end : ends) results.push_back(read_measured(end));
  return answered(all, results);
}

/// Of the run itself, but of the iterations that alternatives are played for.
Headline base_of(const Scenario& scenario, const Machine& whole, const Trace& trace) {
  Scenario for_short = scenario;
  const Machine machine = shortened(whole, for_short.run.warmup_steps);
  return headline(facts_of(for_short, machine.schedule, trace, ""));
}

std::string render(const Explanation& explanation, const ExplainCommand& command) {
  if (command.format == "json") return to_json(explanation);
  if (command.format == "csv") return to_csv(explanation);
  if (command.output.empty())
    return to_terminal(explanation, terminal_width(), use_color(command.color));
  return to_terminal(explanation, 100, command.color == ColorChoice::always);
}

}  // namespace

void explain_command(const ExplainCommand& command) {
  const Scenario scenario = read_question(command.scenario, command.overrides);
  if (scenario.shared)
    throw InputError(
        fmt::format("{}: error: jobs: what bounds a step beside other jobs is not "
                    "explained\nremedy: without jobs, on the nodes of this one",
                    scenario.file));
  check_outputs(
      {{"--output", command.output}, {"--html", command.html}, {"--trace", command.trace}});
  const RunPlan plan = plan_simulation(scenario);
  const Machine machine = machine_of(plan, scenario);
  check_size(scenario, machine);
  std::vector<Alternative> answers = answers_of(scenario, machine, command);
  const Trace trace = play(scenario, machine, kMostSpans);
  const Explanation explanation =
      explain(facts_of(scenario, machine.schedule, trace, plan.fidelity_name), machine,
              base_of(scenario, machine, trace), std::move(answers));
  if (!command.trace.empty()) {
    const std::uint32_t shown = explanation.path.shown_step;
    write_file(command.trace,
               with_critical_path(to_chrome_trace(machine.schedule, trace, shown, shown + 1,
                                                  memory_devices(scenario, machine.schedule)),
                                  explanation));
  }
  if (!command.html.empty()) write_file(command.html, to_html(to_json(explanation)));
  write_result(command.output, render(explanation, command));
}

}  // namespace rehearse
