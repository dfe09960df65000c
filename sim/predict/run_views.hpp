#pragma once

#include <string>

#include "predict/predict.hpp"

namespace rehearse::inline prediction {

/// The text that `--dry-run` prints: the scenario as it was understood, and how much there is to
/// simulate.
std::string outline(const Scenario& scenario, const Machine& machine);

/// Trace of the first measured iterations, three at most: enough to see what repeats
/// (to_chrome_trace).
std::string chrome_trace(const Scenario& scenario, const Prediction& prediction);

/// Memory snapshot of rank 0 (memory_snapshot); nothing where it has no caching allocator, as CPUs
/// have none.
std::optional<std::string> rank_0_snapshot(const Scenario& scenario, const Prediction& prediction);

}  // namespace rehearse::inline prediction
