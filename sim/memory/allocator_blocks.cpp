// The caching allocator's books: blocks are split off, given back and joined again.
#include <algorithm>

#include "base/error.hpp"
#include "memory/caching_allocator.hpp"

namespace rehearse::inline memory {

using Action = AllocatorEvent::Action;

/// Cuts the first `size` bytes off a block that is in no list; the rest is listed as free.
CachingAllocator::BlockId CachingAllocator::split(BlockId rest, std::int64_t size) {
  Block front = blocks_[rest];
  front.size = size;
  front.next = rest;
  const BlockId id = make_block(front);
  if (front.prev != kNone) blocks_[front.prev].next = id;
  Block& back = blocks_[rest];
  back.prev = id;
  back.address += size;
  back.size -= size;
  if (!back.expandable) stats_.inactive_split += back.size;
  list_free(rest);
  return id;
}

void CachingAllocator::take_back(BlockId id) {
  Block& block = blocks_[id];
  check(block.allocated, "memory that is given back twice");
  block.allocated = false;
  stats_.allocated -= block.size;
  note(Action::free_requested, block.address, block.requested, block.stream);
}

void CachingAllocator::free(Handle handle) {
  take_back(handle.index);
  make_free(handle.index);
}

void CachingAllocator::free_in_use(Handle handle) {
  take_back(handle.index);
  blocks_[handle.index].in_use_elsewhere = true;
  used_later_.push_back(handle);
}

void CachingAllocator::finish(Handle handle) {
  const auto found = std::find_if(used_later_.begin(), used_later_.end(), [&](Handle one) {
    return one.index == handle.index && one.generation == handle.generation;
  });
  if (found == used_later_.end()) return;
  used_later_.erase(found);
  blocks_[handle.index].in_use_elsewhere = false;
  make_free(handle.index);
}

void CachingAllocator::make_free(BlockId id) {
  Block& block = blocks_[id];
  note(Action::free_completed, block.address, block.requested, block.stream);
  stats_.active -= block.size;
  stats_.requested -= block.requested;
  block.requested = 0;
  const std::int64_t merged = merge(id, block.prev) + merge(id, block.next);
  list_free(id);
  if (block.expandable) return;
  stats_.inactive_split -= merged;
  if (block.prev != kNone || block.next != kNone) stats_.inactive_split += block.size;
}

/// Joins a block, which is in no list, with a neighbour that is free (both mapped or both not);
/// returns how much it gained.
std::int64_t CachingAllocator::merge(BlockId into, BlockId other) {
  if (other == kNone) return 0;
  Block& block = blocks_[into];
  Block& gone = blocks_[other];
  if (gone.allocated || gone.in_use_elsewhere || gone.mapped != block.mapped) return 0;
  if (gone.mapped) {
    unlist(other);
  } else {
    pool_of(other).unmapped.erase({gone.stream, gone.address, other});
  }
  if (block.prev == other) {
    block.address = gone.address;
    block.prev = gone.prev;
    if (block.prev != kNone) blocks_[block.prev].next = into;
  } else {
    block.next = gone.next;
    if (block.next != kNone) blocks_[block.next].prev = into;
  }
  block.size += gone.size;
  spare_.push_back(other);
  return gone.size;
}

CachingAllocator::BlockId CachingAllocator::make_block(const Block& block) {
  if (spare_.empty()) {
    blocks_.push_back(block);
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  const BlockId id = spare_.back();
  spare_.pop_back();
  const std::uint32_t generation = blocks_[id].generation;
  blocks_[id] = block;
  blocks_[id].generation = generation;
  return id;
}

std::vector<CachingAllocator::BlockId>::iterator CachingAllocator::lower_bound(
    Pool& pool, const BySize& key) const {
  return std::ranges::lower_bound(pool.free, key, {}, [&](BlockId id) { return by_size(id); });
}

void CachingAllocator::list_free(BlockId id) {
  Block& block = blocks_[id];
  Pool& pool = pool_of(id);
  block.listed_at = pool.searches;
  pool.free.insert(lower_bound(pool, by_size(id)), id);
}

void CachingAllocator::unlist(BlockId id) {
  Pool& pool = pool_of(id);
  const auto found = lower_bound(pool, by_size(id));
  check(found != pool.free.end() && *found == id, "a free block that is not listed");
  pool.free.erase(found);
}

}  // namespace rehearse::inline memory
