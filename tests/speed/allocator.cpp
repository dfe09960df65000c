// Events per second of the caching allocator's model: random sizes from 1 B to 64 MiB, of which
// 200 to 500 are held at a time. Usage: bench_allocator.
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "base/random.hpp"
#include "memory/caching_allocator.hpp"

namespace rehearse::speed {
namespace {

constexpr int kRounds = 3000, kTaken = 300;
constexpr std::size_t kKept = 200;

/// Takes and gives back; returns how often.
long play(CachingAllocator& allocator, const std::vector<std::int64_t>& sizes,
          RandomStream& stream) {
  const auto below = [&](std::size_t count) {
    return static_cast<std::size_t>(uniform01(stream) * static_cast<double>(count));
  };
  std::vector<CachingAllocator::Handle> held;
  long events = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kTaken; ++i, ++events)
      held.push_back(*allocator.malloc(sizes[below(sizes.size())]));
    for (; held.size() > kKept; ++events) {
      std::swap(held[below(held.size())], held.back());
      allocator.free(held.back());
      held.pop_back();
    }
  }
  return events;
}

void measure(const char* name, const AllocatorSettings& settings) {
  RandomStream stream = random_stream(1, "allocator");
  std::vector<std::int64_t> sizes(1000);
  for (std::int64_t& size : sizes)
    size = static_cast<std::int64_t>(std::exp(uniform01(stream) * std::log(0x1p26))) + 1;
  CachingAllocator allocator(settings, {.memory = std::int64_t{1} << 37, .outside = 0});
  const auto start = std::chrono::steady_clock::now();
  const long events = play(allocator, sizes, stream);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print("{:<20}{:.2f} M events/s, {:.2f} GiB reserved\n", name,
             static_cast<double>(events) / took.count() / 1e6,
             static_cast<double>(allocator.stats().reserved) / 0x1p30);
}

}  // namespace
}  // namespace rehearse::speed

int main() {
  rehearse::AllocatorSettings settings;
  rehearse::speed::measure("defaults", settings);
  settings.expandable_segments = true;
  rehearse::speed::measure("expandable segments", settings);
}
