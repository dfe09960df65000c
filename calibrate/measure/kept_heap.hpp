#pragma once

namespace rehearse::inline calibrate {

/// From now on what is freed stays with the process. Given back, as glibc does with large blocks
/// and with what lies at the heap's end, the pages of the activations are made anew in every step,
/// or not, as chance orders the heap: 2,000 to 3,000 page faults and 5 ms of a step of 100 were
/// measured, and none while `compute` measured the same network. PyTorch's tuning guide has
/// allocators that keep memory for the same reason. False where glibc declines.
bool keep_freed_memory();

}  // namespace rehearse::inline calibrate
