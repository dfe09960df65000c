// What the caching allocator does when the device has no more: it gives back what it cached. And
// its view of itself.
#include <algorithm>

#include "base/hash.hpp"
#include "memory/caching_allocator.hpp"

namespace rehearse::inline memory {

using Action = AllocatorEvent::Action;

void CachingAllocator::collect_garbage() {
  const auto threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                   static_cast<double>(allowed_));
  const std::int64_t target = stats_.reserved - threshold;
  if (target <= 0) return;
  const auto whole = [&](BlockId id) {
    return blocks_[id].prev == kNone && blocks_[id].next == kNone && !blocks_[id].expandable;
  };
  const auto age = [&](BlockId id) { return large_.searches - blocks_[id].listed_at; };
  std::vector<BlockId> unused;
  std::int64_t ages = 0;
  for (const BlockId id : large_.free) {
    if (!whole(id)) continue;
    unused.push_back(id);
    ages += age(id);
  }
  std::int64_t reclaimed = 0;
  // Those of average age and older go, until enough is reclaimed. Blocks leave while the ages of
  // the rest are looked at, but the average is that from before.
  for (bool any = true; any && reclaimed < target && !unused.empty();) {
    const double average = static_cast<double>(ages) / static_cast<double>(unused.size());
    any = false;
    std::erase_if(unused, [&](BlockId id) {
      if (static_cast<double>(age(id)) < average) return false;
      any = true;
      reclaimed += blocks_[id].size;
      ages -= age(id);
      unlist(id);
      release_segment(id);
      return true;
    });
  }
}

/// With max_split_size: gives back one block that is large enough, else the largest ones of the
/// stream until together they are.
bool CachingAllocator::release_oversize_blocks(const Request& request) {
  const std::int64_t never_split = settings_.max_split_size;
  if (never_split == AllocatorSettings{}.max_split_size || settings_.expandable_segments)
    return false;
  Pool& pool = this->pool(request.small);
  const std::int64_t wanted = std::max(request.size, never_split);
  const auto release = [&](BlockId id) {
    unlist(id);
    release_segment(id);
  };
  auto found = lower_bound(pool, {request.stream, wanted, 0, 0});
  if (found != pool.free.end() && blocks_[*found].stream == request.stream) {
    release(*found);
    return true;
  }
  std::int64_t released = 0;
  while (released < wanted && found != pool.free.begin()) {
    const BySize largest = by_size(*std::prev(found));
    if (largest.stream != request.stream || largest.size < never_split) break;
    release(largest.id);
    released += largest.size;
    found = lower_bound(pool, {request.stream, wanted, 0, 0});
  }
  return released >= wanted;
}

/// Waits for other streams, then gives back all segments (all whole pages of expandable ones) that
/// hold nothing.
bool CachingAllocator::release_cached_blocks() {
  const std::vector<Handle> waited_for = used_later_;
  for (const Handle handle : waited_for) finish(handle);
  for (const bool small : {false, true}) {
    std::vector<BlockId> whole, mapped;
    for (const BlockId id : pool(small).free) {
      const Block& block = blocks_[id];
      if (block.expandable) {
        mapped.push_back(id);
      } else if (block.prev == kNone && block.next == kNone) {
        whole.push_back(id);
      }
    }
    for (const BlockId id : whole) {
      unlist(id);
      release_segment(id);
    }
    for (const BlockId id : mapped) unmap(id);
  }
  return true;
}

void CachingAllocator::release_segment(BlockId id) {
  const Block& block = blocks_[id];
  ++stats_.device_frees;
  stats_.reserved -= block.size;
  note(Action::segment_free, block.address, block.size, block.stream);
  spare_.push_back(id);
}

/// By index: whether no block has it.
std::vector<bool> CachingAllocator::spares() const {
  std::vector<bool> is_spare(blocks_.size(), false);
  for (const BlockId id : spare_) is_spare[id] = true;
  return is_spare;
}

/// Blocks are in any order: their hashes are added up. Where garbage is collected, searches count.
std::uint64_t CachingAllocator::state() const {
  const std::vector<bool> is_spare = spares();
  std::uint64_t blocks = 0;
  for (BlockId id = 0; id < blocks_.size(); ++id) {
    if (is_spare[id]) continue;
    const Block& block = blocks_[id];
    Hash hash;
    for (const std::int64_t number : {block.address, block.size, block.requested})
      hash.add(static_cast<std::uint64_t>(number));
    hash.add(std::uint64_t{block.stream});
    for (const bool is : {block.small, block.allocated, block.in_use_elsewhere, block.expandable,
                          block.mapped, block.prev == kNone, block.next == kNone})
      hash.add(std::uint64_t{is});
    blocks += hash.value();
  }
  Hash all;
  all.add(blocks);
  for (const std::int64_t number :
       {next_address_, stats_.reserved, small_.searches, large_.searches})
    all.add(static_cast<std::uint64_t>(number));
  for (const Handle& later : used_later_)
    all.add(static_cast<std::uint64_t>(blocks_[later.index].address));
  return all.value();
}

std::vector<SegmentView> CachingAllocator::segments() const {
  const std::vector<bool> is_spare = spares();
  std::vector<SegmentView> all;
  for (BlockId id = 0; id < blocks_.size(); ++id) {
    const Block& head = blocks_[id];
    const bool begins = head.prev == kNone || !blocks_[head.prev].mapped;
    if (is_spare[id] || !head.mapped || !begins) continue;
    SegmentView segment{.address = head.address,
                        .stream = head.stream,
                        .large = !head.small,
                        .expandable = head.expandable,
                        .blocks = {}};
    for (BlockId at = id; at != kNone && blocks_[at].mapped; at = blocks_[at].next) {
      const Block& block = blocks_[at];
      segment.size += block.size;
      segment.blocks.push_back({block.address, block.size, block.requested, block.allocated,
                                block.allocated || block.in_use_elsewhere});
    }
    all.push_back(std::move(segment));
  }
  std::ranges::sort(all, {}, &SegmentView::address);
  return all;
}

}  // namespace rehearse::inline memory
