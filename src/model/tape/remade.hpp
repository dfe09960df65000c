#pragma once

#include "model/memory_tape.hpp"

namespace rehearse::inline model {

/// Gives back, at its unit's end, each tensor that forward marked as made again
/// (TapeTensor::remade). In front of the unit's backward a tensor as large takes its place, after
/// those that making it again takes meanwhile. What is kept for that alone (TapeTensor::kept) stays
/// until then.
void make_again(MemoryTape& tape);

}  // namespace rehearse::inline model
