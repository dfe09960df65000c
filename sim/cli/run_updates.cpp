#include "cli/run_updates.hpp"

#include "cli/measured_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/child_pool.hpp"
#include "base/error.hpp"
#include "report/server_updates.hpp"

namespace rehearse {
namespace {

/// Of trace k, in this process.
std::string simulated_updates(const RunCommand& command, std::uint64_t seed) {
  std::vector<std::string> overrides = command.overrides;
  overrides.push_back(fmt::format("run.seed={}", seed));
  Scenario scenario = read_question(command.scenario, overrides);
  scenario.run.until = RunUntil::steps;
  return to_csv(updates_of(scenario, simulate(scenario, nullptr)));
}

}  // namespace

void check_has_updates(const Scenario& scenario) {
  if (std::holds_alternative<ParameterServer>(scenario.strategy) ||
      std::holds_alternative<LocalSgd>(scenario.strategy))
    return;
  throw InputError(
      fmt::format("{}: error: --updates: {} has no parameter server, whose updates they are\n"
                  "remedy: a scenario with strategy: {{ps: ...}} or {{local_sgd: ...}}",
                  scenario.file, strategy_name(scenario.strategy)));
}

RunUpdates updates_of(const Scenario& scenario, const Prediction& prediction) {
  const std::uint32_t warmup = scenario.run.warmup_steps;
  if (const auto* local = std::get_if<LocalSgd>(&scenario.strategy)) {
    return averaging_updates(prediction.trace, *local,
                             static_cast<std::uint32_t>(prediction.report.ranks), warmup);
  }
  return server_updates(prediction.plan.schedule, prediction.trace,
                        std::get<ParameterServer>(scenario.strategy), warmup);
}

std::filesystem::path trace_file(const std::filesystem::path& first, std::size_t trace) {
  if (trace == 0) return first;
  return first.parent_path() /
         fmt::format("{}_{}{}", first.stem().string(), trace, first.extension().string());
}

void write_further_traces(const RunCommand& command, const Scenario& scenario,
                          const std::function<void(std::size_t done)>& progress) {
  const auto further = static_cast<std::size_t>(command.traces) - 1;
  const std::size_t jobs = std::max(1U, std::thread::hardware_concurrency());
  const std::vector<ChildEnd> ends = in_child_processes(
      further, jobs,
      [&](std::size_t i) { return simulated_updates(command, scenario.run.seed + i + 1); },
      progress);
  for (std::size_t i = 0; i < further; ++i) {
    if (ends[i].code != ExitCode::success) throw Error(ends[i].code, ends[i].text);
    write_file(trace_file(command.updates, i + 1), ends[i].text);
  }
}

}  // namespace rehearse
