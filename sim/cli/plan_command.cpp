#include <fmt/format.h>

#include <algorithm>

#include "base/printable.hpp"
#include "base/stop_signal.hpp"
#include "cli/commands.hpp"
#include "cli/progress_bar.hpp"
#include "cli/study_output.hpp"
#include "html/html.hpp"
#include "planner/layout_simulator.hpp"
#include "planner/plan_view.hpp"
#include "planner/scenario_bounds.hpp"
#include "profile/whole_file.hpp"
#include "study/collect.hpp"
#include "study/file_lock.hpp"
#include "study/take_up.hpp"

namespace rehearse {
namespace {

std::filesystem::path folder_of(const PlanCommand& command) {
  if (!command.output.empty()) return command.output;
  return command.plan.stem().string() + ".plan";
}

ChildLimits limits_of(const PlanCommand& command) {
  return {.jobs = jobs_or_cores(command.jobs), .stop = [] { return stop_signal() != 0; }};
}

PlanSimulator simulator_of(const Plan& plan) {
  if (!plan.layouts) return plan_simulator();
  return layout_simulator(std::ranges::any_of(plan.constraints, [](const Constraint& one) {
    return one.sense == Constraint::Sense::fits;
  }));
}

PreparedPlan prepared(const PlanCommand& command, Plan plan, const PlanSimulator& with) {
  ProgressBar bar(command.quiet);
  return prepare_plan(std::move(plan), with, limits_of(command),
                      [&](const SweepProgress& progress) { bar.show(progress); });
}

PlanResult searched(const PlanCommand& command, PreparedPlan plan, const PlanSimulator& with,
                    ResultStore& store) {
  ProgressBar bar(command.quiet);
  const SweepOptions options{
      .limits = limits_of(command), .shard = {}, .progress = [&](const SweepProgress& progress) {
        bar.show(progress);
      }};
  return run_plan(std::move(plan), with, store, options);
}

std::string render(const PlanResult& result, const PlanCommand& command) {
  if (command.format == "json") return plan_json(result);
  if (command.format == "csv") return plan_csv(result);
  return plan_table(
      result, {.top = static_cast<std::size_t>(command.top), .color = use_color(command.color)});
}

/// What could not be kept; the answer was printed all the same.
void check_kept(ResultStore& store) {
  if (store.flush().empty()) return;
  throw MissingError(store.trouble() + "\nremedy: make room; the same command goes on from there");
}

}  // namespace

void plan_command(const PlanCommand& command) {
  catch_stop_signals();
  Plan read = read_plan(command.plan, command.overrides);
  const PlanSimulator with = simulator_of(read);
  PreparedPlan plan = prepared(command, std::move(read), with);
  if (command.dry_run) {
    write_stdout(plan_outline(plan));
    return;
  }
  const std::filesystem::path folder = folder_of(command);
  check_outputs({{"--html", command.html}},
                {command.plan, results_file(folder), folder / "plan.json"});
  make_folder(folder);
  const std::filesystem::path file = results_file(folder);
  const FileLock lock(file.string() + ".lock");
  if (command.fresh) ResultStore::remove(file);
  remove_temporaries(folder / "plan.json");
  ResultStore store(file);
  tell_if_changed(take_up(store, plan.study.identity, plan.study.points), command.quiet);
  const PlanResult result = searched(command, std::move(plan), with, store);
  const std::string json = plan_json(result);
  write_whole_file(folder / "plan.json", json);
  if (!command.html.empty()) write_file(command.html, to_html(json));
  write_stdout(render(result, command));
  check_kept(store);
  if (result.choice) {
    if (!command.quiet) tell(fmt::format("results in {}\n", folder.string()));
    return;
  }
  throw Error(ExitCode::refuted, fmt::format("rehearse: none of {} candidates is feasible",
                                             result.prepared.candidates.size()));
}

}  // namespace rehearse
