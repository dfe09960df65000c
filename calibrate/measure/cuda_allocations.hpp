#pragma once

#include <c10/core/Device.h>

#include <string>

#include "measure/allocator_trace.hpp"

namespace rehearse::inline calibrate {

/// CUDA's caching allocator, and the settings that PYTORCH_CUDA_ALLOC_CONF gave it.
std::string cuda_allocator();
/// It keeps every event from now on, without stacks.
void record_cuda_allocations();
/// Events that it kept of one device.
AllocatorTrace cuda_allocations(c10::DeviceIndex device);

}  // namespace rehearse::inline calibrate
