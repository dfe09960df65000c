#include "predict/run_views.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/measures.hpp"
#include "view/views.hpp"

namespace rehearse::inline prediction {
namespace {

constexpr std::uint32_t kTraceIterations = 3;

std::size_t operations(const Schedule& schedule) {
  std::size_t total = 0;
  for (const RankSpec& rank : schedule.ranks) {
    total += schedule.programs[rank.program.index()].ops.size();
  }
  return total;
}

}  // namespace

std::string outline(const Scenario& scenario, const Machine& machine) {
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
  line("framework", scenario.framework.line);
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

std::string chrome_trace(const Scenario& scenario, const Prediction& prediction) {
  const Schedule& schedule = prediction.machine.schedule;
  const std::uint32_t first = scenario.run.warmup_steps;
  return to_chrome_trace(schedule, prediction.trace, first,
                         first + std::min(scenario.run.steps, kTraceIterations),
                         memory_devices(scenario, schedule), prediction.answers);
}

std::optional<std::string> rank_0_snapshot(const Scenario& scenario, const Prediction& prediction) {
  const Schedule& schedule = prediction.machine.schedule;
  const MemoryDevice device = memory_device(scenario, schedule, RankId(0));
  if (!device.caching) return std::nullopt;
  return memory_snapshot(schedule.program_of(RankId(0)), device);
}

}  // namespace rehearse::inline prediction
