#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline prediction {

/// The scenario, ready to be simulated: where `model.measured` is the figure of several GPUs, the
/// rate of one alone is solved for, with which the job as measured (so many GPUs of this cluster,
/// this strategy) reaches the figure. Each trial is a simulation in a process of its own.
///
/// InputError where so many GPUs are no whole nodes of the cluster, and where the job takes longer
/// than was measured even if nothing had to be computed.
Scenario solved(Scenario scenario);

/// read_scenario, solved.
Scenario read_question(const Document& document);
Scenario read_question(const std::filesystem::path& file,
                       const std::vector<std::string>& overrides);

}  // namespace rehearse::inline prediction
