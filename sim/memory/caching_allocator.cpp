#include "memory/caching_allocator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.hpp"

namespace rehearse::inline memory {
namespace {

using Action = AllocatorEvent::Action;

constexpr std::int64_t kMiB = 1024 * 1024;
constexpr std::int64_t kMinBlockSize = 512;
constexpr std::int64_t kSmallSize = kMiB;         ///< the largest request of the small pool
constexpr std::int64_t kSmallBuffer = 2 * kMiB;   ///< the small pool's segments
constexpr std::int64_t kLargeBuffer = 20 * kMiB;  ///< segments of requests below kMinLargeAlloc
constexpr std::int64_t kMinLargeAlloc = 10 * kMiB;
constexpr std::int64_t kRoundLarge = 2 * kMiB;  ///< larger segments are multiples of this
/// Where the device places the first segment: an address that looks like one.
constexpr std::int64_t kFirstAddress = 0x7f0000000000;

std::int64_t round_up(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit * unit;
}

/// The next of `divisions` steps between the powers of two around `size`.
std::int64_t round_to_division(std::int64_t size, std::int64_t divisions) {
  const auto bits = static_cast<std::uint64_t>(size);
  if (std::has_single_bit(bits)) return size;
  const auto floor = static_cast<std::int64_t>(std::bit_floor(bits));
  return round_up(size, floor / divisions);
}

std::int64_t segment_size(std::int64_t size) {
  if (size <= kSmallSize) return kSmallBuffer;
  return size < kMinLargeAlloc ? kLargeBuffer : round_up(size, kRoundLarge);
}

std::int64_t allowed_of(const AllocatorSettings& settings, const CachingAllocator::Device& device) {
  const bool bounded = device.memory != CachingAllocator::Device{}.memory;
  if (!settings.memory_fraction || !bounded) return device.memory;
  return static_cast<std::int64_t>(*settings.memory_fraction * static_cast<double>(device.memory));
}

/// As c10's format_size.
std::string size_text(std::int64_t size) {
  const auto bytes = static_cast<double>(size);
  if (size <= 1024) return fmt::format("{} bytes", size);
  if (size <= kMiB) return fmt::format("{:.2f} KiB", bytes / 1024);
  if (size <= 1024 * kMiB) return fmt::format("{:.2f} MiB", bytes / 0x1p20);
  return fmt::format("{:.2f} GiB", bytes / 0x1p30);
}

}  // namespace

CachingAllocator::CachingAllocator(const AllocatorSettings& settings, const Device& device)
    : settings_(settings),
      device_(device),
      allowed_(allowed_of(settings, device)),
      next_address_(kFirstAddress) {}

std::optional<CachingAllocator::Handle> CachingAllocator::malloc(std::int64_t size,
                                                                 std::uint32_t stream) {
  check(size > 0, "an allocation of no bytes");
  const std::int64_t whole = rounded(size);
  const Request request{whole, segment_size(whole), stream, whole <= kSmallSize};
  BlockId found = find_free(request);
  if (found == kNone) {
    if (collects_garbage()) collect_garbage();
    found = new_segment(request);
  }
  if (found == kNone && release_oversize_blocks(request)) found = new_segment(request);
  if (found == kNone) {
    release_cached_blocks();
    ++stats_.retries;
    found = new_segment(request);
  }
  if (found == kNone) {
    ++stats_.out_of_memory;
    note(Action::oom, device_free(), request.size, stream);
    return std::nullopt;
  }
  return hand_out(found, request.size, size);
}

std::int64_t CachingAllocator::rounded(std::int64_t size) const {
  if (size < kMinBlockSize) return kMinBlockSize;
  const std::int64_t divisions = settings_.roundup_power2_divisions;
  if (divisions > 1 && size > kMinBlockSize * divisions) return round_to_division(size, divisions);
  return round_up(size, kMinBlockSize);
}

bool CachingAllocator::collects_garbage() const {
  return settings_.memory_fraction && settings_.garbage_collection_threshold > 0;
}

CachingAllocator::BlockId CachingAllocator::find_free(const Request& request) {
  Pool& pool = this->pool(request.small);
  if (collects_garbage()) ++pool.searches;
  const BlockId found = best_fit(pool, request);
  if (found == kNone) return kNone;
  const std::int64_t size = blocks_[found].size;
  // A block that is never split is not for a small request, and for a large one only if little is
  // lost.
  if (request.size < settings_.max_split_size && size >= settings_.max_split_size) return kNone;
  if (request.size >= settings_.max_split_size && size >= request.size + kLargeBuffer) return kNone;
  unlist(found);
  return found;
}

CachingAllocator::BlockId CachingAllocator::best_fit(Pool& pool, const Request& request) const {
  auto found = lower_bound(pool, {request.stream, request.size, 0, 0});
  const auto fits = [&](auto it) {
    return it != pool.free.end() && blocks_[*it].stream == request.stream;
  };
  if (!fits(found)) return kNone;
  // A block at the growing end of its segment counts as large as it can become.
  const auto grown = [&](BlockId id) {
    const BlockId next = blocks_[id].next;
    const bool grows = next != kNone && !blocks_[next].mapped;
    return blocks_[id].size + (grows ? blocks_[next].size : 0);
  };
  if (settings_.expandable_segments) {
    for (auto next = std::next(found); fits(next) && grown(*next) < grown(*found); ++next) {
      found = next;
    }
  }
  return *found;
}

CachingAllocator::BlockId CachingAllocator::new_segment(const Request& request) {
  if (settings_.memory_fraction && stats_.reserved > allowed_ - request.segment) return kNone;
  if (settings_.expandable_segments) return expand(request);
  if (request.segment > device_free()) return kNone;
  const BlockId id = make_block({.address = next_address_,
                                 .size = request.segment,
                                 .stream = request.stream,
                                 .small = request.small});
  next_address_ += round_up(request.segment, kRoundLarge);
  ++stats_.device_allocations;
  stats_.reserved += request.segment;
  stats_.reserved_peak = std::max(stats_.reserved_peak, stats_.reserved);
  note(Action::segment_alloc, blocks_[id].address, request.segment, request.stream);
  return id;
}

bool CachingAllocator::should_split(BlockId id, std::int64_t size) const {
  const std::int64_t rest = blocks_[id].size - size;
  if (blocks_[id].small || settings_.expandable_segments) return rest >= kMinBlockSize;
  return size < settings_.max_split_size && rest > kSmallSize;
}

CachingAllocator::Handle CachingAllocator::hand_out(BlockId id, std::int64_t size,
                                                    std::int64_t requested) {
  const bool was_split = blocks_[id].prev != kNone || blocks_[id].next != kNone;
  if (was_split && !blocks_[id].expandable) stats_.inactive_split -= blocks_[id].size;
  if (should_split(id, size)) id = split(id, size);
  Block& block = blocks_[id];
  block.allocated = true;
  block.requested = requested;
  ++block.generation;
  stats_.allocated += block.size;
  stats_.active += block.size;
  stats_.requested += requested;
  stats_.allocated_peak = std::max(stats_.allocated_peak, stats_.allocated);
  note(Action::alloc, block.address, requested, block.stream);
  return {id, block.generation};
}

std::string CachingAllocator::out_of_memory_message(std::int64_t size) const {
  return fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is "
      "free. {}Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch "
      "but unallocated.",
      size_text(segment_size(rounded(size))), size_text(device_.memory), size_text(device_free()),
      settings_.memory_fraction ? size_text(allowed_) + " allowed; " : "",
      size_text(stats_.allocated), size_text(stats_.reserved - stats_.allocated));
}

}  // namespace rehearse::inline memory
