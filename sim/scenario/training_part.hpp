#pragma once

#include "config/document.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline scenario {

/// The training of a scenario with a section `rl:`, which read_scenario() refuses: what stands in
/// that section is left to the caller.
Scenario read_training_part(const Document& document);

}  // namespace rehearse::inline scenario
