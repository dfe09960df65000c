#pragma once

#include "model/memory_tape.hpp"

namespace rehearse::inline model {

/// What forward marked as made again (TapeTensor::remade) is given back at its unit's end, and in
/// front of the unit's backward a tensor as large takes its place, after those that making it again
/// takes meanwhile. What is kept for that alone (TapeTensor::kept) stays until then.
void make_again(MemoryTape& tape);

}  // namespace rehearse::inline model
