// Repeats of micro-batches that find what earlier ones found are left out, and nothing else
// changes.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <random>

#include "memory/replay.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(steady_replay_test)
namespace {

namespace data = boost::unit_test::data;

using Action = TensorEvent::Action;

constexpr std::size_t kTensors = 12, kMicroBatches = 60;

/// Micro-batches that take tensors of drawn sizes in a drawn order, and give each back a drawn
/// number of micro-batches later, as stages of a pipeline do: each has as many slots.
Program micro_batches(unsigned seed) {
  std::mt19937 draw(seed);
  const auto below = [&](std::size_t bound) { return draw() % bound; };
  Program program{
      .name = "worker", .lanes = {}, .ops = {}, .tensors = {}, .owners = {"a"}, .setup = {}};
  const std::size_t slots = 1 + below(4);
  for (std::size_t i = 0; i < slots * kTensors; ++i) {
    const double size = i < kTensors ? static_cast<double>(1 + below(40'000'000))
                                     : program.tensors[i % kTensors].size.value();
    program.tensors.push_back(
        {MemoryKind::activations, Bytes(size), 0, static_cast<std::uint32_t>(i % kTensors == 3)});
  }
  std::vector<std::size_t> order(kTensors);
  for (std::size_t i = 0; i < kTensors; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), draw);
  const auto event = [&](std::size_t micro_batch, std::size_t tensor, Action action) {
    return TensorEvent{TensorId(micro_batch % slots * kTensors + tensor), action};
  };
  for (std::size_t m = 0; m < kMicroBatches + slots - 1; ++m) {
    Op op;
    op.of = "micro-batch " + std::to_string(m);
    if (m < kMicroBatches)
      for (std::size_t i = 0; i < kTensors; ++i) op.memory.push_back(event(m, i, Action::take));
    if (m + 1 >= slots)
      for (const std::size_t i : order)
        op.memory.push_back(event(m + 1 - slots, i, i == 5 ? Action::give_in_use : Action::give));
    if (m + 1 >= slots) op.memory.push_back(event(m + 1 - slots, 5, Action::finish));
    program.ops.push_back(std::move(op));
  }
  return program;
}

struct Seen {
  std::int64_t allocated_peak = 0, reserved_peak = 0, device_allocations = 0, retries = 0;
  std::string out_of_memory;
  std::size_t events = 0;
  bool operator==(const Seen&) const = default;
};

Seen play(const Program& program, const MemoryDevice& device, bool steadily) {
  MemoryReplay replay(program, device);
  Seen seen;
  const auto count = [&](std::size_t, const TensorEvent&) { ++seen.events; };
  for (int i = 0; i < 3; ++i) steadily ? replay.iterate_steadily(count) : replay.iterate(count);
  const AllocatorStats& stats = replay.allocator().stats();
  seen.allocated_peak = stats.allocated_peak;
  seen.reserved_peak = stats.reserved_peak;
  seen.device_allocations = stats.device_allocations;
  seen.retries = stats.retries;
  if (replay.out_of_memory()) seen.out_of_memory = replay.out_of_memory()->message;
  return seen;
}

}  // namespace

BOOST_DATA_TEST_CASE(peaks_and_what_the_device_is_asked_for_stay, data::xrange(200U), seed) {
  const Program program = micro_batches(seed);
  for (const double gb : {0.0, 0.4, 0.8}) {
    for (const bool expandable : {false, true}) {
      MemoryDevice device{.capacity = Bytes(gb * 1e9)};
      device.allocator.expandable_segments = expandable;
      Seen all = play(program, device, false), few = play(program, device, true);
      few.events = all.events;
      BOOST_TEST((few == all), "of " << gb << " GB, expandable " << expandable);
    }
  }
}

BOOST_AUTO_TEST_CASE(most_of_it_is_left_out) {
  std::size_t all = 0, few = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Program program = micro_batches(seed);
    all += play(program, {}, false).events;
    few += play(program, {}, true).events;
  }
  BOOST_TEST(few < all / 3, few << " of " << all);
}

BOOST_AUTO_TEST_CASE(a_cpu_keeps_nothing_and_leaves_out_the_same) {
  const Program program = micro_batches(1);
  const MemoryDevice device{.caching = false};
  BOOST_TEST(play(program, device, true).events < play(program, device, false).events / 4);
}

// Counters of its searches decide what it collects: no state comes again.
BOOST_AUTO_TEST_CASE(all_is_played_where_garbage_is_collected) {
  const Program program = micro_batches(2);
  MemoryDevice device{.capacity = Bytes(4e9)};
  device.allocator.garbage_collection_threshold = 0.8;
  device.allocator.memory_fraction = 0.9;
  BOOST_TEST((play(program, device, true) == play(program, device, false)));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
