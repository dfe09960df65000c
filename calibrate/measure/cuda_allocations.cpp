#include "measure/cuda_allocations.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

#include <limits>
#include <vector>

namespace rehearse::inline calibrate {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
using TraceEntry = caching::TraceEntry;

/// As torch/csrc/cuda/Module.cpp calls them.
const char* name_of(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return "alloc";
    case TraceEntry::FREE_REQUESTED:
      return "free_requested";
    case TraceEntry::FREE_COMPLETED:
      return "free_completed";
    case TraceEntry::SEGMENT_ALLOC:
      return "segment_alloc";
    case TraceEntry::SEGMENT_FREE:
      return "segment_free";
    case TraceEntry::SEGMENT_MAP:
      return "segment_map";
    case TraceEntry::SEGMENT_UNMAP:
      return "segment_unmap";
    case TraceEntry::SNAPSHOT:
      return "snapshot";
    case TraceEntry::OOM:
      return "oom";
  }
  return "unknown";
}

/// Recent versions also take actions to leave out. A template, because only there is what does not
/// compile left out.
template <class Allocator>
void record_all(Allocator& allocator) {
  constexpr auto kMost = std::numeric_limits<std::size_t>::max();
  constexpr auto kNoStacks = caching::RecordContext::NEVER;
  const std::vector<std::string> none;
  if constexpr (requires {
                  allocator.recordHistory(true, nullptr, kMost, kNoStacks, true, none);
                }) {
    allocator.recordHistory(true, nullptr, kMost, kNoStacks, true, none);
  } else {
    allocator.recordHistory(true, nullptr, kMost, kNoStacks, true);
  }
}

}  // namespace

std::string cuda_allocator() {
  const std::string settings = caching::snapshot().config_metadata.last_allocator_settings;
  return caching::name() + (settings.empty() ? "" : " " + settings);
}

void record_cuda_allocations() { record_all(*caching::get()); }

AllocatorTrace cuda_allocations(c10::DeviceIndex device) {
  AllocatorTrace trace{.allocator = cuda_allocator(), .events = {}};
  const auto snapshot = caching::snapshot();
  for (const TraceEntry& entry : snapshot.device_traces.at(static_cast<std::size_t>(device))) {
    trace.events.push_back({.action = name_of(entry.action_),
                            .address = entry.addr_,
                            .size = entry.size_,
                            .stream = reinterpret_cast<std::uintptr_t>(entry.stream_)});
  }
  return trace;
}

}  // namespace rehearse::inline calibrate
