#pragma once

#include <cstdint>
#include <functional>

#include "base/quantity.hpp"

namespace rehearse::inline calibrate {

/// Puts an allocator that counts in the place of LibTorch's CPU allocator, once per process.
/// Tensors that lived before are not counted.
void install_counting_allocator();

/// Bytes asked for and not given back, and their most since the last reset.
Bytes counted_live();
Bytes counted_peak();
void reset_counted_peak();

/// A block of the counting allocator, as it is taken or given back.
struct CountedBlock {
  const void* address = nullptr;
  std::int64_t size = 0;  ///< bytes asked for
  bool takes = true;
};
/// Told of every block from now on, by the thread that asks for it; an empty function ends that.
void listen_to_blocks(std::function<void(const CountedBlock&)> listener);

}  // namespace rehearse::inline calibrate
