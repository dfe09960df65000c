#pragma once

#include "config/document.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline scenario {

/// `captured: NAME.model.json`: the model that Python's `rehearse_sim.capture` wrote, with its
/// precision and its batch.
void read_captured_model(const Value& file, Map& map, Scenario& scenario);

}  // namespace rehearse::inline scenario
