#pragma once

#include <optional>
#include <string>

#include "convergence/token_cost.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline scenario {

/// Samples of one step of the optimizer, of all workers.
double samples_per_step(const Scenario& scenario);

/// How a scenario's strategy and formats train a language model, as far as its loss goes by it.
LossMethod loss_method_of(const Scenario& scenario);

/// What public rows do not speak of, whatever the numbers are: no language model, another
/// optimizer than Adam, adapters, averages without an outer optimizer, workers drawn anew.
std::optional<LossRefusal> refused_training(const Scenario& scenario);

/// "synchronous", "DiLoCo, 2 replicas, H 30", with a narrow format behind it.
std::string method_name(const LossMethod& method);

}  // namespace rehearse::inline scenario
