#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rehearse::inline calibrate {

/// One thing that a caching allocator was asked for or did, in PyTorch's words
/// (torch.cuda.memory._snapshot): `alloc`, `free_requested`, `free_completed`, `segment_alloc`,
/// `segment_free`, `segment_map`, `segment_unmap`, `snapshot`, `oom`.
struct AllocatorEvent {
  std::string action;
  std::uint64_t address = 0;
  std::uint64_t size = 0;  ///< bytes; of `alloc` as asked for, before the allocator rounds
  std::uint64_t stream = 0;

  bool operator==(const AllocatorEvent&) const = default;
};

/// All that a caching allocator was asked for, from the first event on: replayed through another
/// allocator it says what that one would have held.
struct AllocatorTrace {
  std::string allocator;  ///< with its settings, as DeviceIdentity's
  std::vector<AllocatorEvent> events;
};

/// `rehearse.allocations/1`: a line for each event, `[action, address, size, stream]`.
std::string to_json(const AllocatorTrace& trace);

}  // namespace rehearse::inline calibrate
