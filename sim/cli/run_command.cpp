#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/progress_line.hpp"
#include "cli/commands.hpp"
#include "html/html.hpp"
#include "html/timeline.hpp"
#include "predict/measured_job.hpp"
#include "predict/memory_advice.hpp"
#include "predict/predict.hpp"
#include "predict/simulated_updates.hpp"
#include "report/json_view.hpp"
#include "report/measures.hpp"
#include "report/memory_verdict.hpp"
#include "report/views.hpp"

namespace rehearse {
namespace {

/// Iterations that a trace file shows: enough to see what repeats.
constexpr std::uint32_t kTraceIterations = 3;

/// Where trace k is written: `updates_2.csv` beside `updates.csv`, which is trace 0.
std::filesystem::path trace_file(const std::filesystem::path& first, std::size_t trace) {
  return first.parent_path() /
         fmt::format("{}_{}{}", first.stem().string(), trace, first.extension().string());
}

void simulate_further_traces(const Scenario& scenario, const RunCommand& command) {
  ProgressLine line(command.quiet);
  const auto further = static_cast<std::size_t>(command.traces) - 1;
  const auto show = [&](std::size_t done) {
    line.show(fmt::format("simulating traces: {} of {}", done, further));
  };
  const std::vector<std::string> updates = further_updates(
      command.scenario, command.overrides, scenario.run.seed, further, show);
  for (std::size_t i = 0; i < further; ++i)
    write_file(trace_file(command.updates, i + 1), updates[i]);
}

/// With the changes that would make it fit, where it does not or where they are asked for.
Prediction simulate_with_progress(const Scenario& scenario, const RunCommand& command) {
  ProgressLine line(command.quiet);
  Machine machine = machine_of(scenario);
  std::optional<MemoryReport> memory = memory_of(scenario, machine);
  std::optional<std::vector<FittingChange>> changes;
  if (command.advice || (memory && !memory->fits)) {
    changes = fitting_changes(command.scenario, command.overrides,
                              [&](std::size_t done, std::size_t all) {
                                line.show(fmt::format("trying changes: {} of {}", done, all));
                              });
  }
  Prediction prediction = predict(
      scenario, std::move(machine),
      {.progress =
           [&](double share) { line.show(fmt::format("simulating: {:3.0f} %", 100 * share)); },
       .memory = std::move(memory)});
  if (changes && prediction.report.memory) add_advice(std::move(*changes), prediction.report);
  return prediction;
}

std::string render(const Report& report, const RunCommand& command) {
  if (command.format == "json") return to_json(report);
  if (command.format == "csv") return to_csv({report});
  if (command.output.empty())
    return to_terminal(report, terminal_width(), use_color(command.color));
  return to_terminal(report, 100, command.color == ColorChoice::always);
}

std::size_t operations(const Schedule& schedule) {
  std::size_t total = 0;
  for (const RankSpec& rank : schedule.ranks) {
    total += schedule.programs[rank.program.index()].ops.size();
  }
  return total;
}

/// What `--dry-run` prints: the scenario as it was understood, and how much there is to simulate.
std::string describe(const Scenario& scenario, const Machine& machine) {
  const Schedule& schedule = machine.schedule;
  std::string text;
  const auto line = [&text](const char* key, const std::string& value) {
    text += fmt::format("{:<12}{}\n", key, value);
  };
  line("scenario", scenario.file);
  if (!scenario.description.empty()) line("", scenario.description);
  line("model", fmt::format("{}: {} units, {:.1f} M parameters", scenario.model.name,
                            scenario.model.units.size(),
                            static_cast<double>(scenario.model.parameters()) / 1e6));
  line("batch",
       fmt::format("{} per GPU, {}", scenario.batch_per_gpu, to_string(scenario.precision)));
  line("cluster", fmt::format("{}: {} nodes, {} GPUs",
                              scenario.cluster.name.empty() ? "inline" : scenario.cluster.name,
                              scenario.cluster.node_count(), scenario.cluster.gpu_count()));
  line("strategy", strategy_name(scenario.strategy));
  line("optimizer", to_string(scenario.optimizer));
  const Replications& runs = scenario.run.replications;
  const std::uint32_t others = runs.at_most - 1;
  line("steps", fmt::format("{} after {} of warm-up, seed {}{}", scenario.run.steps,
                            scenario.run.warmup_steps, scenario.run.seed,
                            others > 0 ? fmt::format(" and the next {}{}",
                                                     runs.precision > 0 ? "up to " : "", others)
                                       : ""));
  line("fidelity", machine.fidelity_name);
  line("schedule", fmt::format("{} ranks, {} groups, {} operations per step, {} in all",
                               schedule.ranks.size(), schedule.groups.size(), operations(schedule),
                               operations(schedule) * schedule.iterations));
  if (!scenario.assumptions.empty()) line("defaults", "");
  for (const std::string& assumption : scenario.assumptions) line("", assumption);
  return text;
}

void check_fits(const RunCommand& command, const Report& report) {
  const MemoryFit fit = memory_fit(report).value_or(MemoryFit{});
  if (command.fail_unless.empty() || meets(fit.verdict, command.fail_unless)) return;
  throw Error(ExitCode::refuted,
              fmt::format("rehearse: --fail-unless {}: {}: {}", command.fail_unless,
                          to_string(fit.verdict), details(fit)));
}

std::string page_of(const Scenario& scenario, const Prediction& prediction) {
  const Schedule& schedule = prediction.machine.schedule;
  const std::vector<MemoryDevice> devices = memory_devices(scenario, schedule);
  return to_html(json_view(prediction.report),
                 run_extras({.schedule = schedule,
                             .trace = prediction.trace,
                             .first = scenario.run.warmup_steps,
                             .last = scenario.run.warmup_steps + scenario.run.steps,
                             .step_time = prediction.report.worker_step_time.value_or(
                                 prediction.report.step_time),
                             .devices = devices}));
}

}  // namespace

void run_command(const RunCommand& command) {
  if (command.replay) {
    throw InputError(
        "rehearse: error: --replay trains with the calibrator, which this program is not\n"
        "remedy: run ./rehearse run SCENARIO --replay ... from the sources, or give the file of "
        "--updates to rehearse-calibrate replay");
  }
  Scenario scenario = read_question(command.scenario, command.overrides);
  if (!command.updates.empty()) {
    check_has_updates(scenario);
    scenario.run.until = RunUntil::steps;
  }
  check_outputs({{"--output", command.output},
                 {"--html", command.html},
                 {"--trace", command.trace},
                 {"--updates", command.updates},
                 {"--memory-snapshot", command.memory_snapshot}});
  if (command.traces > 1 && scenario.run.replications.several()) {
    throw InputError(
        fmt::format("{}: error: --traces: all of its runs count, and run.replications chooses one\n"
                    "remedy: leave one of the two out",
                    scenario.file));
  }
  if (command.dry_run) {
    write_result(command.output, describe(scenario, machine_of(scenario)));
    return;
  }
  if (command.traces > 1) simulate_further_traces(scenario, command);
  const Prediction prediction = simulate_with_progress(scenario, command);
  if (!command.trace.empty()) {
    const std::uint32_t first = scenario.run.warmup_steps;
    const std::uint32_t shown = std::min(scenario.run.steps, kTraceIterations);
    write_file(command.trace,
               to_chrome_trace(prediction.machine.schedule, prediction.trace, first, first + shown,
                               memory_devices(scenario, prediction.machine.schedule),
                               prediction.answers));
  }
  if (!command.memory_snapshot.empty()) {
    const Schedule& schedule = prediction.machine.schedule;
    const RankId rank(0);
    const MemoryDevice device = memory_device(scenario, schedule, rank);
    if (!device.caching) {
      throw InputError(
          "rehearse: error: --memory-snapshot: CPUs have no caching allocator to look "
          "into\nremedy: "
          "leave it out, or run on GPUs");
    }
    write_file(command.memory_snapshot, memory_snapshot(schedule.program_of(rank), device));
  }
  if (!command.updates.empty()) {
    write_file(command.updates, to_csv(updates_of(scenario, prediction)));
  }
  if (!command.html.empty()) write_file(command.html, page_of(scenario, prediction));
  write_result(command.output, render(prediction.report, command));
  check_fits(command, prediction.report);
}

}  // namespace rehearse
