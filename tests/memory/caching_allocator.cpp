// Cases of PyTorch's caching allocator that can be worked out by hand: the rules in the notes at
// the head of c10/cuda/CUDACachingAllocator.cpp and in PyTorch's "CUDA semantics", memory
// management.
#include "memory/caching_allocator.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/error.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(caching_allocator_test)
namespace {

namespace data = boost::unit_test::data;
using Handle = CachingAllocator::Handle;

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

struct Rounding {
  std::int64_t size, allocated, reserved;
};
std::ostream& operator<<(std::ostream& out, const Rounding& one) { return out << one.size; }

BOOST_DATA_TEST_CASE(the_first_request_is_rounded_and_gets_a_segment,
                     data::make(std::vector<Rounding>{
                         {1, 512, 2 * kMiB},
                         {512, 512, 2 * kMiB},
                         {513, 1024, 2 * kMiB},
                         {kMiB, kMiB, 2 * kMiB},
                         {kMiB + 1, kMiB + 512, 20 * kMiB},
                         {10 * kMiB - 1, 10 * kMiB, 10 * kMiB},  // rounded first: no 20 MiB buffer
                         {10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB},
                         {10 * kMiB + 1, 10 * kMiB + 512, 12 * kMiB},  // a rest of 2 MiB - 512 B is
                         {19 * kMiB, 20 * kMiB, 20 * kMiB},  // a rest of 1 MiB is not split off
                         {100 * kMiB, 100 * kMiB, 100 * kMiB}}),
                     one) {
  CachingAllocator allocator;
  BOOST_REQUIRE(allocator.malloc(one.size));
  BOOST_TEST(allocator.stats().allocated == one.allocated);
  BOOST_TEST(allocator.stats().requested == one.size);
  BOOST_TEST(allocator.stats().reserved == one.reserved);
  BOOST_TEST(allocator.stats().device_allocations == 1);
}

BOOST_AUTO_TEST_CASE(small_requests_share_segments_of_2_mib) {
  CachingAllocator allocator;
  for (int i = 0; i < 4; ++i) allocator.malloc(kMiB);
  BOOST_TEST(allocator.stats().reserved == 4 * kMiB);
  BOOST_TEST(allocator.stats().inactive_split == 0);
  allocator.malloc(512);
  BOOST_TEST(allocator.stats().reserved == 6 * kMiB);
  BOOST_TEST(allocator.stats().inactive_split == 2 * kMiB - 512);
}

BOOST_AUTO_TEST_CASE(the_smallest_block_that_is_large_enough_is_taken_and_split) {
  CachingAllocator allocator;
  const Handle a = *allocator.malloc(40 * kMiB);
  const Handle b = *allocator.malloc(30 * kMiB);
  const std::int64_t place = allocator.address(b);
  allocator.free(a);
  allocator.free(b);
  const Handle c = *allocator.malloc(24 * kMiB);
  BOOST_TEST(allocator.address(c) == place);
  BOOST_TEST(allocator.stats().reserved == 70 * kMiB);
  BOOST_TEST(allocator.stats().inactive_split == 6 * kMiB);
  // 6 MiB are left of it: a request for 5 MiB fits there, one for 7 MiB goes to the other block.
  BOOST_TEST(allocator.address(*allocator.malloc(5 * kMiB)) == place + 24 * kMiB);
  BOOST_TEST(allocator.address(*allocator.malloc(7 * kMiB)) == allocator.address(a));
  BOOST_TEST(allocator.stats().device_allocations == 2);
}

BOOST_AUTO_TEST_CASE(an_expandable_segment_of_a_boundless_device_takes_any_request) {
  AllocatorSettings settings;
  settings.expandable_segments = true;
  CachingAllocator allocator(settings);
  constexpr std::int64_t kTiB = 1024 * kGiB;
  for (const std::int64_t size : {8 * kTiB, kMiB, 64 * kTiB}) {
    const auto block = allocator.malloc(size);
    BOOST_REQUIRE(block);
    BOOST_TEST(allocator.size(*block) == size);
  }
  BOOST_TEST(allocator.stats().allocated == 72 * kTiB + kMiB);
}

BOOST_AUTO_TEST_CASE(neighbours_that_are_free_become_one_block) {
  CachingAllocator allocator;
  std::vector<Handle> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(*allocator.malloc(5 * kMiB));
  BOOST_TEST(allocator.stats().reserved == 20 * kMiB);
  allocator.free(parts[0]);
  allocator.free(parts[2]);
  allocator.free(parts[1]);
  const Handle joined = *allocator.malloc(15 * kMiB);
  BOOST_TEST(allocator.address(joined) == allocator.address(parts[0]));
  BOOST_TEST(allocator.stats().reserved == 20 * kMiB);
}

BOOST_AUTO_TEST_CASE(a_stream_does_not_get_another_ones_blocks) {
  CachingAllocator allocator;
  allocator.free(*allocator.malloc(30 * kMiB, 0));
  allocator.malloc(30 * kMiB, 1);
  BOOST_TEST(allocator.stats().reserved == 60 * kMiB);
}

BOOST_AUTO_TEST_CASE(a_block_in_use_elsewhere_is_free_only_when_that_is_over) {
  CachingAllocator allocator;
  const Handle used = *allocator.malloc(30 * kMiB);
  allocator.free_in_use(used);
  BOOST_TEST(allocator.stats().allocated == 0);
  BOOST_TEST(allocator.stats().active == 30 * kMiB);
  const Handle other = *allocator.malloc(30 * kMiB);
  BOOST_TEST(allocator.stats().reserved == 60 * kMiB);
  allocator.finish(used);
  allocator.finish(used);  // nothing more to do
  allocator.malloc(30 * kMiB);
  BOOST_TEST(allocator.stats().reserved == 60 * kMiB);
  BOOST_TEST(allocator.stats().active == 60 * kMiB);
  allocator.free(other);
}

BOOST_AUTO_TEST_CASE(a_full_device_gets_its_cached_segments_back_and_is_asked_again) {
  CachingAllocator allocator({}, {.memory = 100 * kMiB, .outside = 10 * kMiB});
  const Handle cached = *allocator.malloc(50 * kMiB);
  const Handle split = *allocator.malloc(30 * kMiB);
  allocator.free(cached);
  allocator.free(split);
  const Handle part = *allocator.malloc(8 * kMiB);  // of the 30 MiB
  // 60 MiB: neither 50 nor 22 are enough, and the device has 10 left. The 50 go back.
  BOOST_REQUIRE(allocator.malloc(60 * kMiB));
  BOOST_TEST(allocator.stats().reserved == 90 * kMiB);
  BOOST_TEST(allocator.stats().retries == 1);
  BOOST_TEST(allocator.stats().device_frees == 1);
  BOOST_REQUIRE(!allocator.malloc(23 * kMiB));
  BOOST_TEST(allocator.stats().out_of_memory == 1);
  BOOST_TEST(
      allocator.out_of_memory_message(23 * kMiB) ==
      "CUDA out of memory. Tried to allocate 24.00 MiB. GPU 0 has a total capacity of 100.00 "
      "MiB of which 0 bytes is free. Of the allocated memory 68.00 MiB is allocated by "
      "PyTorch, and 22.00 MiB is reserved by PyTorch but unallocated.");
  allocator.free(part);
}

BOOST_AUTO_TEST_CASE(blocks_of_max_split_size_are_not_split_and_serve_what_is_near_their_size) {
  AllocatorSettings settings;
  settings.max_split_size = 100 * kMiB;
  CachingAllocator allocator(settings);
  allocator.free(*allocator.malloc(200 * kMiB));
  allocator.malloc(50 * kMiB);  // smaller requests do not get it
  BOOST_TEST(allocator.stats().reserved == 250 * kMiB);
  allocator.malloc(150 * kMiB);  // it is more than 20 MiB larger
  BOOST_TEST(allocator.stats().reserved == 400 * kMiB);
  allocator.malloc(190 * kMiB);  // whole
  BOOST_TEST(allocator.stats().reserved == 400 * kMiB);
  BOOST_TEST(allocator.stats().allocated == 400 * kMiB);
}

BOOST_AUTO_TEST_CASE(oversize_blocks_are_released_before_everything_else_is) {
  AllocatorSettings settings;
  settings.max_split_size = 100 * kMiB;
  CachingAllocator allocator(settings, {.memory = 300 * kMiB, .outside = 0});
  allocator.free(*allocator.malloc(160 * kMiB));
  allocator.malloc(40 * kMiB);
  allocator.free(*allocator.malloc(60 * kMiB));
  // 130 MiB, of 40 left: the 160 are too large to serve it, and enough to be given back alone.
  BOOST_REQUIRE(allocator.malloc(130 * kMiB));
  BOOST_TEST(allocator.stats().retries == 0);
  BOOST_TEST(allocator.stats().device_frees == 1);
  BOOST_TEST(allocator.stats().reserved == 230 * kMiB);
}

BOOST_AUTO_TEST_CASE(roundup_power2_divisions_rounds_1200_bytes_to_1280) {
  // PyTorch's own example, in KiB so that 512 B are no matter: 1024, 1280, 1536, 1792.
  AllocatorSettings settings;
  settings.roundup_power2_divisions = 4;
  CachingAllocator allocator(settings);
  const Handle block = *allocator.malloc(1200 * kKiB);
  BOOST_TEST(allocator.size(block) == 1280 * kKiB);
  BOOST_TEST(allocator.size(*allocator.malloc(1536 * kKiB)) == 1536 * kKiB);
  BOOST_TEST(allocator.size(*allocator.malloc(2000)) == 2048);  // up to 4 times 512 B: as ever
}

BOOST_AUTO_TEST_CASE(expandable_segments_grow_by_pages_and_leave_no_slivers) {
  // Batches that grow: 100, 101, ... MiB need a new segment each without expandable segments.
  AllocatorSettings settings;
  settings.expandable_segments = true;
  CachingAllocator growing(settings, {.memory = 10 * kGiB, .outside = 0});
  CachingAllocator fixed({}, {.memory = 10 * kGiB, .outside = 0});
  for (std::int64_t size = 100 * kMiB; size <= 110 * kMiB; size += 2 * kMiB) {
    growing.free(*growing.malloc(size));
    fixed.free(*fixed.malloc(size));
  }
  BOOST_TEST(growing.stats().reserved == 120 * kMiB);
  BOOST_TEST(fixed.stats().reserved == (100 + 102 + 104 + 106 + 108 + 110) * kMiB);
  growing.empty_cache();
  fixed.empty_cache();
  BOOST_TEST(growing.stats().reserved == 0);
  BOOST_TEST(fixed.stats().reserved == 0);
  BOOST_TEST(growing.segments().empty());
}

BOOST_AUTO_TEST_CASE(garbage_is_collected_above_the_threshold_the_older_first) {
  // 1 GiB may be used, half of it before blocks that were idle for longer than the mean go.
  AllocatorSettings settings;
  settings.memory_fraction = 1;
  settings.garbage_collection_threshold = 0.5;
  CachingAllocator allocator(settings, {.memory = kGiB, .outside = 0});
  const Handle old_one = *allocator.malloc(300 * kMiB);
  const Handle young = *allocator.malloc(250 * kMiB);
  allocator.free(old_one);
  for (int i = 0; i < 10; ++i) allocator.malloc(2 * kMiB);  // split off the 300 MiB
  allocator.free(young);
  BOOST_TEST(allocator.stats().reserved == 550 * kMiB);
  allocator.malloc(400 * kMiB);
  BOOST_TEST(allocator.stats().reserved == 700 * kMiB);  // the 250 MiB went
  BOOST_TEST(allocator.stats().retries == 0);
}

BOOST_AUTO_TEST_CASE(the_history_and_the_segments_say_what_happened) {
  CachingAllocator allocator;
  std::vector<AllocatorEvent> history;
  allocator.record(&history);
  const Handle block = *allocator.malloc(3 * kMiB, 7);
  allocator.free(block);
  using Action = AllocatorEvent::Action;
  BOOST_REQUIRE_EQUAL(history.size(), 4U);
  BOOST_TEST((history[0].action == Action::segment_alloc && history[0].size == 20 * kMiB));
  BOOST_TEST((history[1].action == Action::alloc && history[1].size == 3 * kMiB));
  BOOST_TEST((history[2].action == Action::free_requested));
  BOOST_TEST((history[3].action == Action::free_completed && history[3].stream == 7U));
  allocator.malloc(3 * kMiB, 7);
  const std::vector<SegmentView> segments = allocator.segments();
  BOOST_REQUIRE_EQUAL(segments.size(), 1U);
  BOOST_REQUIRE_EQUAL(segments[0].blocks.size(), 2U);
  BOOST_TEST(segments[0].blocks[0].allocated);
  BOOST_TEST(segments[0].blocks[1].size == 17 * kMiB);
}

BOOST_AUTO_TEST_CASE(giving_back_twice_is_our_bug) {
  CachingAllocator allocator;
  const Handle block = *allocator.malloc(1);
  allocator.free(block);
  BOOST_CHECK_THROW(allocator.free(block), InternalError);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
