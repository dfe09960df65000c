#pragma once

#include "base/quantity.hpp"

namespace rehearse {

/// Puts an allocator that counts in the place of LibTorch's CPU allocator, once per process.
/// Tensors that lived before are not counted.
void install_counting_allocator();

/// Bytes asked for and not given back, and their most since the last reset.
Bytes counted_live();
Bytes counted_peak();
void reset_counted_peak();

}  // namespace rehearse
