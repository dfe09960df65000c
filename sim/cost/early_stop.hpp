#pragma once

#include "base/quantity.hpp"
#include "model/model.hpp"

namespace rehearse::inline cost {

class Roofline;

/// What a unit's forward does behind the last operator that a checkpoint which stops early runs
/// again (rerun_operators()).
Seconds unneeded_time(const Unit& unit, const Roofline& roofline, double batch);

}  // namespace rehearse::inline cost
