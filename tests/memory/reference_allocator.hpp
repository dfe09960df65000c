#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "memory/caching_allocator.hpp"

namespace rehearse {

/// The caching allocator's documented rules once more, as plainly as they can be written: a segment
/// is a range with the intervals that are in use, and everything else is looked for by walking over
/// all of them. Shares nothing with CachingAllocator but the settings; for tests.
class ReferenceAllocator {
 public:
  ReferenceAllocator(const AllocatorSettings& settings, const CachingAllocator::Device& device)
      : settings_(settings), device_(device) {}

  /// A number for the block; nothing when out of memory.
  std::optional<int> malloc(std::int64_t size, std::uint32_t stream);
  void free(int block, bool in_use_elsewhere = false);
  void finish(int block);
  void empty_cache() { release_cached(); }

  std::int64_t allocated() const;
  std::int64_t reserved() const;
  std::int64_t device_allocations() const { return device_allocations_; }

 private:
  struct Used {
    std::int64_t begin = 0, end = 0;
    int block = 0;
    bool freed = false;  ///< but used by another stream
  };
  struct Segment {
    std::int64_t base = 0, size = 0, page = 0;  ///< page 0: not expandable
    std::uint32_t stream = 0;
    bool small = false;
    std::vector<bool> mapped;  ///< pages
    std::vector<Used> used;    ///< by place
    std::int64_t idle_since = 0;
  };
  /// A free, mapped range, as long as it goes.
  struct Gap {
    std::size_t segment = 0;
    std::int64_t begin = 0, end = 0;
  };

  std::int64_t rounded(std::int64_t size) const;
  std::vector<Gap> gaps(std::size_t segment) const;
  std::optional<Gap> find(std::int64_t size, std::uint32_t stream, bool small);
  std::optional<Gap> obtain(std::int64_t size, std::uint32_t stream, bool small);
  std::optional<Gap> expand(std::int64_t size, std::uint32_t stream, bool small);
  std::int64_t can_become(const Gap& gap) const;
  bool is_mapped(const Segment& segment, std::int64_t place) const;
  bool whole_and_free(const Segment& segment) const;
  void collect_garbage();
  bool release_oversize(std::int64_t size, std::uint32_t stream, bool small);
  void release_cached();
  void remove(std::size_t segment);
  std::int64_t device_left() const;
  std::int64_t allowed() const;

  AllocatorSettings settings_;
  CachingAllocator::Device device_;
  std::vector<Segment> segments_;  ///< by address: the device goes upwards only
  std::int64_t top_ = 0;
  std::int64_t large_searches_ = 0;
  std::int64_t device_allocations_ = 0;
  int next_block_ = 0;
};

}  // namespace rehearse
