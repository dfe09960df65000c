#include "measure/counting_allocator.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace rehearse::inline calibrate {
namespace {

std::atomic<std::int64_t> live_bytes{0};
std::atomic<std::int64_t> peak_bytes{0};

std::atomic<bool> listened{false};
std::mutex listener_mutex;
std::function<void(const CountedBlock&)> told;

void tell(const CountedBlock& block) {
  if (!listened.load()) return;
  const std::lock_guard lock(listener_mutex);
  if (told) told(block);
}

// LibTorch's own alignment. The size stands in a block of its own before the data.
constexpr std::size_t kAlignment = 64;

void count(std::int64_t bytes) {
  const std::int64_t live = live_bytes.fetch_add(bytes) + bytes;
  std::int64_t peak = peak_bytes.load();
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
}

void give_back(void* data) {
  if (data == nullptr) return;
  char* block = static_cast<char*>(data) - kAlignment;
  std::int64_t size = 0;
  std::memcpy(&size, block, sizeof(size));
  tell({data, size, false});
  count(-size);
  std::free(block);
}

void* take(std::size_t size) {
  if (size == 0) return nullptr;
  void* block = nullptr;
  if (posix_memalign(&block, kAlignment, size + kAlignment) != 0) throw std::bad_alloc();
  const auto counted = static_cast<std::int64_t>(size);
  std::memcpy(block, &counted, sizeof(counted));
  count(counted);
  char* data = static_cast<char*>(block) + kAlignment;
  tell({data, counted, true});
  return data;
}

c10::DataPtr data_of(std::size_t size) {
  void* data = take(size);
  return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
}

/// c10::Allocator's interface changed in 2.x: `allocate` lost its const, `copy_data` came. Deriving
/// from this tells which one there is.
template <class Base>
concept HasCopyData = requires(const Base& base, void* to, const void* from) {
  base.copy_data(to, from, std::size_t{0});
};

template <class Base, bool kCopies = HasCopyData<Base>>
class CountingAllocator : public Base {
 public:
  c10::DataPtr allocate(std::size_t size) const override { return data_of(size); }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
};

template <class Base>
class CountingAllocator<Base, true> : public Base {
 public:
  c10::DataPtr allocate(std::size_t size) override { return data_of(size); }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    std::memcpy(to, from, size);
  }
};

}  // namespace

void install_counting_allocator() {
  static CountingAllocator<c10::Allocator> allocator;
  constexpr std::uint8_t kPriority = 1;  // above LibTorch's own
  c10::SetCPUAllocator(&allocator, kPriority);
}

void listen_to_blocks(std::function<void(const CountedBlock&)> listener) {
  const std::lock_guard lock(listener_mutex);
  told = std::move(listener);
  listened.store(static_cast<bool>(told));
}

Bytes counted_live() { return Bytes(static_cast<double>(live_bytes.load())); }
Bytes counted_peak() { return Bytes(static_cast<double>(peak_bytes.load())); }
void reset_counted_peak() { peak_bytes.store(live_bytes.load()); }

}  // namespace rehearse::inline calibrate
