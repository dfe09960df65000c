// Expandable segments ("Note [Expandable Segments]" in c10/cuda/CUDACachingAllocator.cpp): one
// address range for each stream and pool, which pages are mapped into as they are needed: of 2 MiB
// in the small pool, of 20 MiB in the large one.
#include <algorithm>

#include "base/error.hpp"
#include "memory/caching_allocator.hpp"

namespace rehearse::inline memory {

using Action = AllocatorEvent::Action;

namespace {

constexpr std::int64_t kMiB = 1024 * 1024;
/// Address space of a segment on a device without a stated memory, at least.
constexpr std::int64_t kBoundless = std::int64_t{1} << 42;

std::int64_t page_size(bool small) { return (small ? 2 : 20) * kMiB; }

std::int64_t pages_up(std::int64_t size, std::int64_t page) {
  return (size + page - 1) / page * page;
}

}  // namespace

CachingAllocator::BlockId CachingAllocator::expand(const Request& request) {
  BlockId candidate = expandable_block(request);
  // unmapped -> nothing, unmapped -> free -> ..., or free -> unmapped -> ...
  if (!blocks_[candidate].mapped &&
      !map(candidate, std::min(blocks_[candidate].size, request.size))) {
    return kNone;
  }
  while (blocks_[candidate].size < request.size) {
    const BlockId next = blocks_[candidate].next;
    const std::int64_t missing = request.size - blocks_[candidate].size;
    if (!map(next, std::min(missing, blocks_[next].size))) return kNone;
    candidate = next;  // which the block before it was merged into
  }
  unlist(candidate);
  return candidate;
}

/// The lowest place of the stream's segments where the request has room in free and unmapped blocks
/// side by side; a new segment's where there is none.
CachingAllocator::BlockId CachingAllocator::expandable_block(const Request& request) {
  Pool& pool = this->pool(request.small);
  for (auto it = pool.unmapped.lower_bound({request.stream, 0, 0});
       it != pool.unmapped.end() && it->stream == request.stream; ++it) {
    BlockId id = it->id;
    const BlockId before = blocks_[id].prev;
    if (before != kNone && !blocks_[before].allocated && !blocks_[before].in_use_elsewhere)
      id = before;
    if (has_room(id, request.size)) return id;
  }
  // 1 1/8 of the device's memory, so that pages can be unmapped early and mapped again at the end.
  const bool bounded = device_.memory != Device{}.memory;
  const std::int64_t memory = bounded ? device_.memory : std::max(kBoundless, request.size);
  const std::int64_t size = pages_up(memory + memory / 8, page_size(request.small));
  const BlockId id = make_block({.address = next_address_,
                                 .size = size,
                                 .stream = request.stream,
                                 .small = request.small,
                                 .expandable = true,
                                 .mapped = false});
  next_address_ += size;
  pool.unmapped.insert({request.stream, blocks_[id].address, id});
  return id;
}

bool CachingAllocator::has_room(BlockId id, std::int64_t size) const {
  std::int64_t room = 0;
  for (; room < size && id != kNone; id = blocks_[id].next) {
    if (blocks_[id].allocated || blocks_[id].in_use_elsewhere) return false;
    room += blocks_[id].size;
  }
  return room >= size;
}

/// Maps pages for the first `size` bytes of an unmapped block, which then is a free one, merged
/// with its neighbours. False if the device has none left.
bool CachingAllocator::map(BlockId id, std::int64_t size) {
  const std::int64_t mapped = pages_up(size, page_size(blocks_[id].small));
  if (mapped > device_free()) return false;
  pool_of(id).unmapped.erase({blocks_[id].stream, blocks_[id].address, id});
  if (mapped < blocks_[id].size) {
    Block rest = blocks_[id];
    rest.address += mapped;
    rest.size -= mapped;
    rest.prev = id;
    const BlockId rest_id = make_block(rest);
    if (rest.next != kNone) blocks_[rest.next].prev = rest_id;
    blocks_[id].next = rest_id;
    blocks_[id].size = mapped;
    pool_of(id).unmapped.insert({rest.stream, rest.address, rest_id});
  }
  Block& block = blocks_[id];
  block.mapped = true;
  note(Action::segment_map, block.address, mapped, block.stream);
  merge(id, block.prev);
  merge(id, block.next);
  list_free(id);
  stats_.reserved += mapped;
  stats_.reserved_peak = std::max(stats_.reserved_peak, stats_.reserved);
  ++stats_.device_allocations;
  return true;
}

/// Gives the whole pages of a free block back to the device. What is left at its ends stays free.
void CachingAllocator::unmap(BlockId id) {
  const Block whole = blocks_[id];
  const std::int64_t page = page_size(whole.small);
  // Segments begin at an address that counts as page 0: offsets are from there.
  BlockId head = id;
  while (blocks_[head].prev != kNone) head = blocks_[head].prev;
  const std::int64_t base = blocks_[head].address;
  const std::int64_t begin = base + pages_up(whole.address - base, page);
  const std::int64_t end = base + (whole.address + whole.size - base) / page * page;
  if (begin >= end) return;
  unlist(id);
  const auto keep = [&](std::int64_t from, std::int64_t to, BlockId prev, BlockId next) {
    Block part = whole;
    part.address = from;
    part.size = to - from;
    part.prev = prev;
    part.next = next;
    const BlockId kept = make_block(part);
    if (prev != kNone) blocks_[prev].next = kept;
    if (next != kNone) blocks_[next].prev = kept;
    list_free(kept);
  };
  if (begin > whole.address) keep(whole.address, begin, blocks_[id].prev, id);
  if (end < whole.address + whole.size) keep(end, whole.address + whole.size, id, blocks_[id].next);
  Block& block = blocks_[id];
  block.address = begin;
  block.size = end - begin;
  block.mapped = false;
  ++stats_.device_frees;
  stats_.reserved -= block.size;
  note(Action::segment_unmap, block.address, block.size, block.stream);
  merge(id, block.prev);
  merge(id, block.next);
  if (blocks_[id].prev == kNone && blocks_[id].next == kNone) {
    spare_.push_back(id);  // the whole address range is unused: it goes, too
  } else {
    pool_of(id).unmapped.insert({block.stream, block.address, id});
  }
}

}  // namespace rehearse::inline memory
