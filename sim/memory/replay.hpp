#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/stretch.hpp"
#include "memory/caching_allocator.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline memory {

/// Bytes that a rank holds at one moment, by kind.
struct MemoryUse {
  std::array<Bytes, kMemoryKinds> by_kind{};
  Bytes total() const;
};

/// Where a program's tensors come from.
struct MemoryDevice {
  /// A GPU's caching allocator; else a CPU's, which rounds and keeps nothing.
  bool caching = true;
  AllocatorSettings allocator{};
  Bytes capacity{};  ///< of the GPU; 0: not known
  Bytes outside{};   ///< of it, what the allocator does not manage (context, communicators)
  Bytes context{};   ///< of that, the CUDA context
};

/// A request that found no memory.
struct OutOfMemory {
  std::string at;       ///< label of the operation; empty: before the first iteration
  std::string message;  ///< PyTorch's own
};

/// Plays a program's allocations in the order in which the host asks for them, iteration by
/// iteration. Sizes are those of the allocator's blocks.
class MemoryReplay {
 public:
  /// Operation index of the setup's events.
  static constexpr std::size_t kSetup = static_cast<std::size_t>(-1);
  /// Called after each event with the index of its operation.
  using Observer = std::function<void(std::size_t op, const TensorEvent& event)>;

  /// Plays the setup. The program must outlive the replay. `history`, if there is one, gets what
  /// the allocator does. InputError if the tensors are more than 2 EiB together.
  MemoryReplay(const Program& program, const MemoryDevice& device, const Observer& observe = {},
               std::vector<AllocatorEvent>* history = nullptr);

  /// One more iteration. It ends early where memory runs out. InternalError if a tensor is taken
  /// that is held, or given back that is not (in the first iteration: what only one before it would
  /// have left), or if an iteration after the first does not end with what it began with.
  void iterate(const Observer& observe = {});
  /// The same with fewer events: once repeats of micro-batches find what earlier ones found, those
  /// that would bring nothing else are left out, and `observe` is not told of them.
  void iterate_steadily(const Observer& observe = {});

  MemoryUse use() const;
  std::int64_t allocated() const { return allocated_; }
  std::int64_t reserved() const { return allocator_.stats().reserved; }
  const std::optional<OutOfMemory>& out_of_memory() const { return out_of_memory_; }
  const CachingAllocator& allocator() const { return allocator_; }
  /// The tensors that are held, with the bytes of their blocks.
  std::vector<std::pair<TensorId, std::int64_t>> held() const;
  /// Bytes of a tensor's block, the last time that it was taken.
  std::int64_t size_of(TensorId id) const { return places_[id.index()].size; }
  /// Where a held tensor's block begins.
  std::int64_t address_of(TensorId id) const {
    return allocator_.address(places_[id.index()].block);
  }

 private:
  enum class State : std::uint8_t { absent, held, in_use };
  struct Place {
    State state = State::absent;
    std::int64_t size = 0;
    CachingAllocator::Handle block;
  };

  void iterate(const Observer& observe, bool steadily);
  std::uint64_t state() const;
  std::string label_of(std::size_t op) const;
  bool play(const TensorEvent& event, std::size_t op);
  bool take(TensorId id, std::size_t op);
  void give(TensorId id, bool in_use, std::size_t op);
  void finish(TensorId id);
  void check_returns(const std::vector<bool>& before) const;
  std::vector<bool> which_held() const;

  const Program& program_;
  MemoryDevice device_;
  CachingAllocator allocator_;
  Stretch repeated_;           ///< operations whose events come again; of no times: none
  std::vector<Place> places_;  ///< as Program::tensors
  std::array<std::int64_t, kMemoryKinds> by_kind_{};
  std::int64_t allocated_ = 0;
  std::size_t iterations_ = 0;
  std::optional<OutOfMemory> out_of_memory_;
};

}  // namespace rehearse::inline memory
