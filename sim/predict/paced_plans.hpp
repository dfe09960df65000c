#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "convergence/strategy_forecast.hpp"

namespace rehearse::inline prediction {

/// How fast and how stale a scenario's updates come is simulated.
struct PaceQuestion {
  std::filesystem::path scenario;
  std::vector<std::string> overrides;  ///< as of `--set`
  bool best_bound = false;             ///< with each of several bounds of staleness
  bool whole_run = false;              ///< all updates of the training
  std::size_t jobs = 1;
};

/// A plan for each bound, else one; rates and momentum of `asked`. Simulated in child processes.
/// InputError where bounds are asked of a strategy that has none.
std::vector<TrainingPlan> simulated_plans(const PaceQuestion& question,
                                          const TrainingSetting& asked);

}  // namespace rehearse::inline prediction
