#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convergence/forecast.hpp"
#include "convergence/observation.hpp"
#include "convergence/pace.hpp"
#include "report/basis.hpp"

namespace rehearse::inline report {

/// A run's updates as convergence sees them: how fast they come, of how many samples, how stale.
struct PacedUpdates {
  /// A whole run with the time of each update.
  Pace pace;
  std::vector<std::uint32_t> staleness = {0};  ///< in order of application; {0}: all are fresh
  /// Local steps that an update carries: it is as long as so many. Where all workers average after
  /// theirs, each step counts as an update of all of them instead, and this is 1.
  std::uint32_t steps = 1;
  bool whole_run = false;       ///< these are all of the training's, from its first to its last
  std::vector<Doubt> left_out;  ///< what the strategy does that a setting cannot say
};

/// Updates of the measured iterations of a simulated run while all workers train; of all, for a
/// whole run.
PacedUpdates paced_updates(const Basis& basis, const Report& report, bool whole_run = false);

/// The setting that they make with these options. Local steps are taken for what they would be if
/// nobody drifted off meanwhile: synchronous ones where they are averaged (exact for a period of 1;
/// what drift costs vanishes with the rate: Stich, "Local SGD converges fast and communicates
/// little", ICLR 2019), one long step where they are applied one by one.
TrainingSetting setting_of(const PacedUpdates& updates, double learning_rate, double momentum);

/// How accurate the scenario's training becomes, where it says how its model learns: after its
/// epochs, else after as many samples as the longest curve.
std::optional<StrategyForecast> accuracy_of(const Basis& basis, const Report& report);

}  // namespace rehearse::inline report
