#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rehearse::inline memory {

/// Settings of PYTORCH_CUDA_ALLOC_CONF, by its names.
struct AllocatorSettings {
  /// Bytes: blocks of this size or more are never split (`max_split_size_mb`).
  std::int64_t max_split_size = std::numeric_limits<std::int64_t>::max();
  bool expandable_segments = false;
  /// Share of the memory that the process may use, above which unused blocks are given back before
  /// more is asked for; 0: never. PyTorch heeds it only with a memory_fraction.
  double garbage_collection_threshold = 0;
  /// A power of two: sizes are rounded up to that many steps between powers of two; 0 or 1: to
  /// 512 B.
  std::int64_t roundup_power2_divisions = 0;
  /// torch.cuda.set_per_process_memory_fraction; nothing: never called.
  std::optional<double> memory_fraction;

  bool operator==(const AllocatorSettings&) const = default;
};

/// Statistics as torch.cuda.memory_stats() counts them, over both pools. They are bytes, but for
/// the counts.
struct AllocatorStats {
  std::int64_t allocated = 0;       ///< blocks that tensors hold, rounded (`allocated_bytes`)
  std::int64_t requested = 0;       ///< what was asked for, until its block can be used again
  std::int64_t active = 0;          ///< allocated, or given back while another stream uses it
  std::int64_t reserved = 0;        ///< taken from the device
  std::int64_t inactive_split = 0;  ///< unused parts of segments that cannot be released
  std::int64_t allocated_peak = 0, reserved_peak = 0;
  std::int64_t device_allocations = 0;  ///< cudaMallocs, or mappings of expandable segments
  std::int64_t device_frees = 0;
  std::int64_t retries = 0;  ///< asked again after all cached blocks were released
  std::int64_t out_of_memory = 0;
};

/// One entry of PyTorch's allocator history.
struct AllocatorEvent {
  enum class Action : std::uint8_t {
    alloc,
    free_requested,
    free_completed,
    segment_alloc,
    segment_free,
    segment_map,
    segment_unmap,
    oom
  };
  Action action = Action::alloc;
  std::int64_t address = 0;  ///< oom: what is free on the device
  std::int64_t size = 0;
  std::uint32_t stream = 0;
};

/// A range of the device's memory that the allocator holds, cut into blocks.
struct SegmentView {
  struct Block {
    std::int64_t address = 0, size = 0, requested = 0;
    bool allocated = false;
    bool active = false;
  };
  std::int64_t address = 0, size = 0;
  std::uint32_t stream = 0;
  bool large = false, expandable = false;
  std::vector<Block> blocks;
};

/// PyTorch's CUDA caching allocator, as a model: c10/cuda/CUDACachingAllocator.cpp
/// (DeviceCachingAllocator) without CUDA graphs' private pools. It hands out addresses of one
/// device and keeps its books; no memory is touched.
///
/// A request is rounded up to 512 B and served by the smallest free block of its stream and pool
/// (up to 1 MiB: small) that is large enough, the lowest of equals, whose rest is split off; else
/// by a new segment of 2 MiB, of 20 MiB (requests below 10 MiB) or of its size rounded up to 2 MiB.
/// The device places segments one after the other and never at a place that it had before.
class CachingAllocator {
 public:
  /// A block that is held.
  struct Handle {
    std::uint32_t index = 0, generation = 0;
  };

  /// The memory of a device, of which `outside` is taken by what the allocator does not manage (the
  /// context, NCCL).
  struct Device {
    std::int64_t memory = std::numeric_limits<std::int64_t>::max();
    std::int64_t outside = 0;
  };
  explicit CachingAllocator(const AllocatorSettings& settings = {})
      : CachingAllocator(settings, Device{}) {}
  CachingAllocator(const AllocatorSettings& settings, const Device& device);

  /// Memory for `size` > 0 bytes on a stream; nothing if there is none, even after what is cached
  /// was given back to the device (out_of_memory_message then tells).
  std::optional<Handle> malloc(std::int64_t size, std::uint32_t stream = 0);
  void free(Handle handle);
  /// Gives back a block that another stream still uses (Tensor.record_stream): it is not reused
  /// before finish().
  void free_in_use(Handle handle);
  /// The other stream is done with a block that was freed in use; does nothing if the allocator had
  /// to wait for that itself meanwhile.
  void finish(Handle handle);
  /// torch.cuda.empty_cache().
  void empty_cache() { release_cached_blocks(); }

  const AllocatorStats& stats() const { return stats_; }
  /// Address of the block, and its size after rounding and splitting.
  std::int64_t address(Handle handle) const { return blocks_[handle.index].address; }
  std::int64_t size(Handle handle) const { return blocks_[handle.index].size; }
  /// The message of torch.cuda.OutOfMemoryError for a request of `size` bytes that was refused.
  std::string out_of_memory_message(std::int64_t size) const;
  /// All segments, by address.
  std::vector<SegmentView> segments() const;
  /// A hash of all that decides which blocks are handed out from here on.
  std::uint64_t state() const;
  /// From now on appends what happens to `history` (null: nothing).
  void record(std::vector<AllocatorEvent>* history) { history_ = history; }

 private:
  using BlockId = std::uint32_t;
  static constexpr BlockId kNone = std::numeric_limits<BlockId>::max();

  struct Block {
    std::int64_t address = 0, size = 0, requested = 0;
    BlockId prev = kNone, next = kNone;  ///< neighbours in the same segment
    std::uint32_t stream = 0;
    std::uint32_t generation = 0;
    std::int64_t listed_at = 0;  ///< the pool's searches when it became free
    bool small = false, allocated = false, in_use_elsewhere = false;
    bool expandable = false, mapped = true;
  };
  /// Order of best fit.
  struct BySize {
    std::uint32_t stream;
    std::int64_t size, address;
    BlockId id;
    auto operator<=>(const BySize&) const = default;
  };
  struct ByAddress {
    std::uint32_t stream;
    std::int64_t address;
    BlockId id;
    auto operator<=>(const ByAddress&) const = default;
  };
  struct Pool {
    /// BySize. Some thousand short numbers are faster moved than as many nodes allocated.
    std::vector<BlockId> free;
    /// Address ranges of expandable segments without memory.
    std::set<ByAddress> unmapped;
    std::int64_t searches = 0;
  };
  struct Request {
    std::int64_t size, segment;  ///< rounded, and what would be asked of the device
    std::uint32_t stream;
    bool small;
  };

  std::vector<bool> spares() const;
  std::int64_t rounded(std::int64_t size) const;
  bool collects_garbage() const;
  std::int64_t device_free() const { return device_.memory - device_.outside - stats_.reserved; }
  Pool& pool(bool small) { return small ? small_ : large_; }
  Pool& pool_of(BlockId id) { return pool(blocks_[id].small); }

  BySize by_size(BlockId id) const {
    const Block& block = blocks_[id];
    return {block.stream, block.size, block.address, id};
  }
  /// The first free block that is not before `key`.
  std::vector<BlockId>::iterator lower_bound(Pool& pool, const BySize& key) const;
  BlockId find_free(const Request& request);
  BlockId best_fit(Pool& pool, const Request& request) const;
  BlockId new_segment(const Request& request);
  bool should_split(BlockId id, std::int64_t size) const;
  Handle hand_out(BlockId id, std::int64_t size, std::int64_t requested);
  BlockId split(BlockId id, std::int64_t size);
  void make_free(BlockId id);
  std::int64_t merge(BlockId into, BlockId other);
  void take_back(BlockId id);

  void collect_garbage();
  bool release_oversize_blocks(const Request& request);
  bool release_cached_blocks();
  void release_segment(BlockId id);

  BlockId expand(const Request& request);
  BlockId expandable_block(const Request& request);
  bool has_room(BlockId id, std::int64_t size) const;
  bool map(BlockId id, std::int64_t size);
  void unmap(BlockId id);

  BlockId make_block(const Block& block);
  void list_free(BlockId id);
  void unlist(BlockId id);
  void note(AllocatorEvent::Action action, std::int64_t address, std::int64_t size,
            std::uint32_t stream) {
    if (history_ != nullptr) history_->push_back({action, address, size, stream});
  }

  AllocatorSettings settings_;
  Device device_;
  std::int64_t allowed_;  ///< that the process may reserve
  std::int64_t next_address_;
  Pool small_, large_;
  std::vector<Block> blocks_;
  std::vector<BlockId> spare_;      ///< indices that can be used again
  std::vector<Handle> used_later_;  ///< freed in use, not finished
  AllocatorStats stats_;
  std::vector<AllocatorEvent>* history_ = nullptr;
};

}  // namespace rehearse::inline memory
