// CachingAllocator beside the straightforward ReferenceAllocator: the same allocated and reserved
// after each of many thousand random and adversarial events, under all settings.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <ostream>

#include "base/random.hpp"
#include "memory/reference_allocator.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(allocator_oracle_test)
namespace {

namespace data = boost::unit_test::data;

constexpr std::int64_t kMiB = 1024 * 1024;
constexpr int kEvents = 6000;

struct Case {
  const char* name;
  AllocatorSettings settings;
  std::int64_t memory;  ///< of the device
};
std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }

AllocatorSettings with(std::int64_t max_split_mb, bool expandable, double garbage,
                       std::int64_t divisions, std::optional<double> fraction = std::nullopt) {
  AllocatorSettings settings;
  if (max_split_mb > 0) settings.max_split_size = max_split_mb * kMiB;
  settings.expandable_segments = expandable;
  settings.garbage_collection_threshold = garbage;
  settings.roundup_power2_divisions = divisions;
  settings.memory_fraction = fraction;
  return settings;
}

const std::vector<Case> kCases = {
    {"defaults", with(0, false, 0, 0), 64 * 1024 * kMiB},
    {"defaults, out of memory now and then", with(0, false, 0, 0), 700 * kMiB},
    {"max_split_size_mb", with(21, false, 0, 0), 900 * kMiB},
    {"a large max_split_size_mb", with(64, false, 0, 0), 700 * kMiB},
    {"expandable_segments", with(0, true, 0, 0), 64 * 1024 * kMiB},
    {"expandable_segments, out of memory now and then", with(0, true, 0, 0), 600 * kMiB},
    {"garbage_collection_threshold", with(0, false, 0.5, 0, 0.8), 1200 * kMiB},
    {"garbage collection of blocks that are never split", with(32, false, 0.4, 0, 0.9),
     1000 * kMiB},
    {"roundup_power2_divisions", with(0, false, 0, 4), 900 * kMiB},
    {"roundup_power2_divisions, finely", with(0, false, 0, 16), 64 * 1024 * kMiB},
    {"a fraction of the memory", with(0, false, 0, 0, 0.5), 1400 * kMiB},
    {"everything but expandable segments", with(32, false, 0.6, 8, 0.7), 1400 * kMiB},
    {"everything", with(40, true, 0.6, 8, 0.7), 1200 * kMiB}};

/// Sizes where a rule changes, and next to them.
const std::vector<std::int64_t> kEdges = {
    1,         511,       512,       513,       1024,      2048,      kMiB - 512,     kMiB - 1,
    kMiB,      kMiB + 1,  2 * kMiB,  4 * kMiB,  10 * kMiB, 12 * kMiB, 19 * kMiB,      20 * kMiB,
    21 * kMiB, 22 * kMiB, 32 * kMiB, 40 * kMiB, 64 * kMiB, 70 * kMiB, 10 * kMiB - 512};

/// Both allocators, doing the same.
class Pair {
 public:
  Pair(const Case& one)
      : tested_(one.settings, {.memory = one.memory, .outside = 0}),
        reference_(one.settings, {.memory = one.memory, .outside = 0}) {}

  void take(std::int64_t size, std::uint32_t stream) {
    const auto block = tested_.malloc(size, stream);
    const auto expected = reference_.malloc(size, stream);
    BOOST_REQUIRE_EQUAL(block.has_value(), expected.has_value());
    if (block) live_.push_back({*block, *expected});
    compare();
  }
  void give(std::size_t which, bool in_use) {
    const Block block = live_[which];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
    if (in_use) {
      tested_.free_in_use(block.tested);
      used_later_.push_back(block);
    } else {
      tested_.free(block.tested);
    }
    reference_.free(block.reference, in_use);
    compare();
  }
  void finish() {
    if (used_later_.empty()) return;
    tested_.finish(used_later_.front().tested);
    reference_.finish(used_later_.front().reference);
    used_later_.erase(used_later_.begin());
    compare();
  }
  void empty_cache() {
    tested_.empty_cache();
    reference_.empty_cache();
    compare();
  }
  std::size_t live() const { return live_.size(); }
  const CachingAllocator& tested() const { return tested_; }

 private:
  struct Block {
    CachingAllocator::Handle tested;
    int reference;
  };

  void compare() {
    BOOST_REQUIRE_EQUAL(tested_.stats().allocated, reference_.allocated());
    BOOST_REQUIRE_EQUAL(tested_.stats().reserved, reference_.reserved());
    BOOST_REQUIRE_EQUAL(tested_.stats().device_allocations, reference_.device_allocations());
    std::int64_t reserved = 0, active = 0;
    for (const SegmentView& segment : tested_.segments()) {
      reserved += segment.size;
      for (const SegmentView::Block& block : segment.blocks)
        active += block.active ? block.size : 0;
    }
    BOOST_REQUIRE_EQUAL(reserved, tested_.stats().reserved);
    BOOST_REQUIRE_EQUAL(active, tested_.stats().active);
  }

  CachingAllocator tested_;
  ReferenceAllocator reference_;
  std::vector<Block> live_, used_later_;
};

std::int64_t random_size(RandomStream& stream) {
  const double kind = uniform01(stream);
  const auto pick =
      static_cast<std::size_t>(uniform01(stream) * static_cast<double>(kEdges.size()));
  if (kind < 0.3) return kEdges[pick];
  // From 1 B to 64 MiB, alike on every scale.
  const double log = uniform01(stream) * std::log(64.0 * kMiB);
  return static_cast<std::int64_t>(std::ceil(std::exp(log)));
}

BOOST_DATA_TEST_CASE(random_sequences_hold_and_reserve_what_the_reference_does, data::make(kCases),
                     one) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Pair pair(one);
    RandomStream stream = random_stream(seed, "allocator");
    for (int event = 0; event < kEvents / 3; ++event) {
      const double what = uniform01(stream);
      // The number of live blocks swings, so that the cache is used, split and drained.
      const double take = 0.5 + 0.2 * std::sin(event / 60.0);
      if (what < take || pair.live() == 0) {
        pair.take(random_size(stream), uniform01(stream) < 0.2 ? 1 : 0);
      } else if (what < 0.96) {
        const auto which =
            static_cast<std::size_t>(uniform01(stream) * static_cast<double>(pair.live()));
        pair.give(which, uniform01(stream) < 0.1);
      } else if (what < 0.99) {
        pair.finish();
      } else {
        pair.empty_cache();
      }
    }
  }
}

BOOST_DATA_TEST_CASE(combs_of_holes_are_filled_as_in_the_reference, data::make(kCases), one) {
  // Take many, free every second, then ask for sizes just below, at and above the holes.
  for (const std::int64_t hole : {std::int64_t{512}, 300 * 1024 + std::int64_t{0}, 2 * kMiB,
                                  6 * kMiB, 11 * kMiB, 21 * kMiB}) {
    Pair pair(one);
    for (int i = 0; i < 24; ++i) pair.take(hole, 0);
    for (std::size_t i = 0; i < pair.live(); ++i) pair.give(i, i % 5 == 4);
    for (const std::int64_t off : {-513, -1, 0, 1, 513})
      for (int i = 0; i < 3; ++i) pair.take(std::max<std::int64_t>(1, hole + off), 0);
    while (pair.live() > 0) pair.give(pair.live() / 2, false);
    pair.take(2 * hole, 0);
    pair.take(5 * hole, 1);
    pair.empty_cache();
  }
}

BOOST_AUTO_TEST_CASE(the_cases_run_out_of_memory_and_give_back) {
  // Otherwise the comparison above says little.
  for (const Case& one : kCases) {
    if (one.memory > 2000 * kMiB) continue;
    Pair pair(one);
    RandomStream stream = random_stream(1, "allocator");
    for (int event = 0; event < 600; ++event) pair.take(random_size(stream), 0);
    BOOST_TEST_CONTEXT(one.name) {
      BOOST_TEST(pair.tested().stats().out_of_memory > 0);
      BOOST_TEST(pair.tested().stats().retries > 0);
    }
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
