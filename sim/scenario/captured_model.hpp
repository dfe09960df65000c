#pragma once

#include <string>

#include "config/document.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline scenario {

/// `captured: NAME.model.json`: the model that Python's `rehearse_sim.capture` wrote, with its
/// precision and its batch.
void read_captured_model(const Value& file, Map& map, Scenario& scenario);

/// A captured model by itself, at `shape`'s tokens. InputError where there is no such file, or
/// images of another size are asked for.
Model read_captured_network(const std::string& file, const ModelShape& shape);

/// InputError where units compute in another precision than that of the capture: by
/// `model.precision`, or by the strategy's `param_dtype`.
void check_captured_precision(const Value& model, const Value& strategy, const Scenario& scenario);

}  // namespace rehearse::inline scenario
