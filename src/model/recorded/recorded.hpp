#pragma once

#include "model/model.hpp"

// Models of which a run's record has the operators, unit by unit (Unit::recorded).
namespace rehearse::recorded {

/// Whether the model is what a profile measured, so that units say what they hand on.
bool is_profiled(const Model& model);
/// True of one whose profile says what some unit is handed: elsewhere it cannot be cut.
bool tells_cuts(const Model& model);

/// What one of so many tensor ranks runs of a recorded model. Products from one sum of the unit to
/// the next are a group: the last one has a part of the rows of its weight, those before of their
/// columns, and ranks add up what it gives (and backward the gradient of what the group reads). A
/// product alone at the unit's end, as that of logits, has a part of its columns, and ranks gather
/// them. All else runs whole on each rank. Throws std::invalid_argument with a message for the user
/// where that cannot be told.
Model rank_of(const Model& whole, int ranks);

}  // namespace rehearse::recorded
