#pragma once

#include "base/quantity.hpp"
#include "model/model.hpp"

namespace rehearse::inline cost {

class Roofline;

/// A unit's forward takes so long behind the last operator that a checkpoint with an early stop
/// runs again (rerun_operators()).
Seconds unneeded_time(const Unit& unit, const Roofline& roofline, double batch);

}  // namespace rehearse::inline cost
