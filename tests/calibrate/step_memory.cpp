// What a step's tensors hold, counted by hand for a network of three linear layers.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

#include "launch/run_ranks.hpp"
#include "measure/allocator_trace.hpp"
#include "server/parameter_server.hpp"
#include "train/step_run.hpp"

using namespace rehearse;
namespace data = boost::unit_test::data;

namespace {

constexpr double kElement = 4;  // bytes of a float32
constexpr std::int64_t kSide = 8, kClasses = 10;
constexpr std::int64_t kBatch = 3;

/// Elements of each unit's weight and bias.
const std::vector<std::vector<std::int64_t>> kUnits = {
    {3 * kSide * kSide * 128, 128}, {128 * 64, 64}, {64 * kClasses, kClasses}};

double elements_of(const std::vector<std::int64_t>& tensors) {
  return static_cast<double>(std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0}));
}

/// Bytes of all parameters, and of one rank's share of them with each unit padded to a multiple of
/// the ranks.
double parameters() {
  double sum = 0;
  for (const auto& unit : kUnits) sum += kElement * elements_of(unit);
  return sum;
}
double shards(int ranks) {
  double sum = 0;
  for (const auto& unit : kUnits) sum += kElement * std::ceil(elements_of(unit) / ranks);
  return sum;
}
/// The batch: images, and a class of 8 bytes each.
double batch() { return kBatch * (3 * kSide * kSide * kElement + 8); }

StepRunOptions steps_of(const std::string& strategy) {
  StepRunOptions options;
  options.strategy = strategy;
  options.model = "small_mlp";
  options.shape.image = kSide;
  options.batch = kBatch;
  options.steps = 1;
  options.warmup = 2;
  options.threads = 1;
  options.cpu = true;
  return options;
}

/// The first rank's last step.
StepMemory memory_of(const StepRunOptions& options, int ranks) {
  const auto texts = collect_from_ranks(
      ranks, [&](const RankEnvironment& self) { return to_json(run_steps(self, options)); });
  return rank_steps_from_json(texts.front()).memory;
}

/// The same of a parameter server's only worker; the server is a process of its own.
StepMemory memory_of_worker(StepRunOptions options) {
  Socket listening = listen_on({"127.0.0.1", 0});
  options.servers = {{"127.0.0.1", port_of(listening)}};
  const auto texts = collect_from_ranks(2, [&](const RankEnvironment& self) -> std::string {
    if (self.rank == 1) {
      ParameterServerOptions server;
      server.rule.workers = 1;
      serve_parameters(std::move(listening), server);
      return {};
    }
    listening = Socket();
    return to_json(run_steps(self, options));
  });
  return rank_steps_from_json(texts.front()).memory;
}

/// But for a few scalars, of this step or of the one before: a thread of autograd's or Gloo's may
/// end late, and hold its loss for as long.
void check_but_for_scalars(Bytes actual, double expected) {
  BOOST_TEST(std::abs(actual.value() - expected) <= 64);
}

const double kFirstWeight = kElement * static_cast<double>(kUnits[0][0]);

}  // namespace

BOOST_DATA_TEST_CASE(ddp_rests_on_weights_gradients_and_buckets, data::make({1, 2, 3}), ranks) {
  check_but_for_scalars(memory_of(steps_of("ddp"), ranks).at_rest, 3 * parameters() + batch());
}

BOOST_AUTO_TEST_CASE(gradients_that_are_views_of_buckets_take_nothing) {
  auto options = steps_of("ddp");
  options.ddp.gradient_as_bucket_view = true;
  check_but_for_scalars(memory_of(options, 2).at_rest, 2 * parameters() + batch());
}

BOOST_AUTO_TEST_CASE(micro_batches_share_their_gradients) {
  auto options = steps_of("ddp");
  options.micro_batches = 3;
  check_but_for_scalars(memory_of(options, 2).at_rest, 3 * parameters() + batch());
}

BOOST_AUTO_TEST_CASE(a_step_of_ddp_peaks_where_the_last_gradient_comes) {
  const StepMemory memory = memory_of(steps_of("ddp"), 2);
  BOOST_TEST(memory.peak_part().phase == "backward");
  BOOST_TEST(memory.peak_part().unit == "fc1");
  // All gradients are there again, and the one of the first layer's output of 128.
  check_but_for_scalars(memory.allocated_peak, memory.at_rest.value() + kBatch * 128 * kElement);
  BOOST_TEST(!memory.reserved_peak.has_value());
}

BOOST_AUTO_TEST_CASE(parts_of_a_step_follow_each_other_and_hold_its_peak) {
  const StepMemory memory = memory_of(steps_of("ddp"), 2);
  const std::vector<std::string> expected = {"forward fc1",  "forward fc2",  "forward fc3",
                                             "backward fc3", "backward fc2", "backward fc1",
                                             "optimizer "};
  std::vector<std::string> names;
  Bytes most;
  for (const MemoryPart& part : memory.parts) {
    names.push_back(part.phase + " " + part.unit);
    most = std::max(most, part.peak);
    BOOST_TEST(part.live.value() <= part.peak.value());
  }
  BOOST_TEST(names == expected, boost::test_tools::per_element());
  BOOST_TEST(most.value() == memory.allocated_peak.value());
}

BOOST_AUTO_TEST_CASE(momentum_rests_on_a_copy_of_the_weights) {
  auto options = steps_of("ddp");
  options.momentum = 0.9;
  check_but_for_scalars(memory_of(options, 2).at_rest, 4 * parameters() + batch());
}

BOOST_DATA_TEST_CASE(adam_rests_on_two_and_works_on_two_of_the_largest_tensor,
                     data::make(std::vector<std::string>{"adam", "adamw"}), optimizer) {
  auto options = steps_of("ddp");
  options.optimizer = optimizer;
  const StepMemory memory = memory_of(options, 2);
  check_but_for_scalars(memory.at_rest, 5 * parameters() + batch());
  BOOST_TEST(memory.peak_part().phase == "optimizer");
  check_but_for_scalars(memory.allocated_peak, memory.at_rest.value() + 2 * kFirstWeight);
}

BOOST_DATA_TEST_CASE(fsdp_rests_on_shards_and_their_gradients, data::make({2, 3}), ranks) {
  check_but_for_scalars(memory_of(steps_of("fsdp"), ranks).at_rest, 2 * shards(ranks) + batch());
}

BOOST_AUTO_TEST_CASE(fsdp_peaks_where_the_first_unit_s_gradients_are_exchanged) {
  const StepMemory memory = memory_of(steps_of("fsdp"), 2);
  BOOST_TEST(memory.peak_part().phase == "backward");
  BOOST_TEST(memory.peak_part().unit == "fc1");
  // The flat gradients, those received, and the weight's, which autograd lets go of last; its
  // shard's gradient is not there yet.
  const double whole = kElement * elements_of(kUnits[0]);
  check_but_for_scalars(memory.allocated_peak,
                        memory.at_rest.value() - whole / 2 + 2 * whole + kFirstWeight);
}

BOOST_AUTO_TEST_CASE(a_server_s_worker_rests_on_weights_gradients_and_what_travels) {
  const StepMemory memory = memory_of_worker(steps_of("ps-sync"));
  check_but_for_scalars(memory.at_rest, 3 * parameters() + batch());
  BOOST_TEST(memory.parts.front().phase == "pull");
  BOOST_TEST(memory.parts.back().phase == "push");
}

BOOST_AUTO_TEST_CASE(a_caching_allocator_s_events_are_a_line_each) {
  const AllocatorTrace trace{
      .allocator = "native expandable_segments:True",
      .events = {{"segment_alloc", 4096, 2097152, 0}, {"alloc", 4096, 1000, 7}}};
  BOOST_TEST(to_json(trace) == R"({
  "schema": "rehearse.allocations/1",
  "allocator": "native expandable_segments:True",
  "columns": ["action","address","size_bytes","stream"],
  "events": [
    ["segment_alloc",4096,2097152,0],
    ["alloc",4096,1000,7]
  ]
}
)");
}
