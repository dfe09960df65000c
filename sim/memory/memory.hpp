#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory/replay.hpp"

namespace rehearse::inline memory {

/// Tensors of one kind that belong together.
struct MemoryShare {
  std::string owner;  ///< "layer1.0", "bucket 2"
  MemoryKind kind = MemoryKind::workspace;
  Bytes size;
  std::size_t tensors = 0;
};

/// Memory that a program needs of its device.
struct MemoryForecast {
  Bytes allocated_peak{};                ///< the most that tensors hold in a steady iteration
  std::optional<Bytes> reserved_peak{};  ///< the most that the allocator holds; nothing on a CPU
  MemoryUse at_peak{};                   ///< adds up to allocated_peak
  std::size_t peak_op = 0;               ///< index of the first operation that holds so much
  std::string peak_label{};              ///< of that operation; empty if it stands before them all
  std::vector<MemoryShare> shares{};     ///< of allocated_peak, the largest first
  std::optional<OutOfMemory> out_of_memory{};  ///< nothing: it fits, or the capacity is not known
  AllocatorStats stats{};                      ///< at the end

  bool fits() const { return !out_of_memory; }
};

/// Whether a forecast says what holds the peak (at_peak, peak_op, peak_label, shares), which takes
/// an iteration more.
enum class PeakDetail : std::uint8_t { shown, left_out };

/// Replays a program's setup and its iterations, until the allocator asks the device for nothing in
/// one. On a device that is too small the figures are what a larger one would hold.
MemoryForecast forecast_memory(const Program& program, const MemoryDevice& device,
                               PeakDetail detail = PeakDetail::shown);

/// CUDA context and library handles, outside the allocator: a stated constant (memory.cpp has its
/// source).
Bytes cuda_context();
/// Bytes that one NCCL communicator of several ranks takes of a GPU, outside the allocator: a
/// stated figure (memory.cpp has its source).
Bytes communicator_buffers(bool nvlink);

}  // namespace rehearse::inline memory
