#include "predict/simulated_updates.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "predict/measured_job.hpp"
#include "predict/server_updates.hpp"
#include "predict/wire.hpp"

namespace rehearse::inline prediction {
namespace {

/// Of one run, in this process.
std::string simulated_updates(const std::filesystem::path& file, std::vector<std::string> overrides,
                              std::uint64_t seed) {
  overrides.push_back(fmt::format("run.seed={}", seed));
  Scenario scenario = read_question(file, overrides);
  scenario.run.until = RunUntil::steps;
  return to_csv(updates_of(scenario, predict(scenario)));
}

}  // namespace

void check_has_updates(const Scenario& scenario) {
  if (const auto& local = scenario.strategy.local_sgd) {
    if (local->fragments == 1 && local->overlap_steps == 0) return;
    throw InputError(
        fmt::format("{}: error: --updates: fragments are exchanged behind different steps, and an "
                    "update is of all parameters\nremedy: --set strategy.local_sgd.fragments=1 "
                    "--set strategy.local_sgd.overlap_steps=0",
                    scenario.file));
  }
  if (server_in(scenario.strategy) != nullptr) return;
  throw InputError(
      fmt::format("{}: error: --updates: {} has no parameter server, whose updates they are\n"
                  "remedy: a scenario with strategy: {{ps: ...}} or {{local_sgd: ...}}",
                  scenario.file, strategy_name(scenario.strategy)));
}

RunUpdates updates_of(const Scenario& scenario, const Prediction& prediction) {
  const std::uint32_t warmup = scenario.run.warmup_steps;
  if (const auto& local = scenario.strategy.local_sgd) {
    return averaging_updates(
        prediction.trace, *local,
        static_cast<std::uint32_t>(replica_count(scenario.strategy, scenario.cluster)), warmup);
  }
  return server_updates(prediction.machine.schedule, prediction.trace,
                        *server_in(scenario.strategy), warmup);
}

std::vector<std::string> further_updates(const std::filesystem::path& file,
                                         const std::vector<std::string>& overrides,
                                         std::uint64_t seed, std::size_t count,
                                         const std::function<void(std::size_t done)>& progress) {
  return results_of_children(
      count, jobs_or_cores(),
      [&](std::size_t i) { return simulated_updates(file, overrides, seed + i + 1); }, progress);
}

}  // namespace rehearse::inline prediction
