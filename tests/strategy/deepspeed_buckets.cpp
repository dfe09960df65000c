// DeepSpeed's ZeRO-1 and ZeRO-2: steps by closed forms, bytes and peaks by hand. r: the all_reduce
// of a bucket; g: the all_gather of all parameters; f, b, o as everywhere.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "memory/memory.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(deepspeed_buckets)
namespace {

namespace data = boost::unit_test::data;

constexpr int kRanks = 4;
constexpr std::size_t kUnits = 4;
constexpr std::int64_t kElements = 262144;  // of a unit, 1 MiB in fp32
constexpr double kForward = 2 * kMs, kBackward = 40 * kMs, kOptimizer = 8 * kMs;

DeepspeedBuckets zero(int stage, std::int64_t bucket, bool overlap, int micro_batches = 1) {
  return {.partitions_gradients = stage == 2,
          .reduce_bucket_size = bucket,
          .overlap_comm = overlap,
          .gradient_accumulation = micro_batches,
          .algorithm = CollectiveAlgorithm::ring};
}

Toy units(double backward = kBackward) {
  return equal_units(kUnits, {kMiB, kForward, backward}, kOptimizer);
}

double step_with(const DeepspeedBuckets& options, double backward = kBackward) {
  return step_of(options, units(backward), star_cluster(kRanks));
}

/// The rest of a step beside its backward and its reductions.
double rest() {
  return kUnits * kForward + kOptimizer / kRanks + all_gather_time(kRanks, kUnits * kMiB);
}

BOOST_AUTO_TEST_CASE(without_overlap_computation_waits_for_each_bucket) {
  const double computes = rest() + kUnits * kBackward;
  for (const int stage : {1, 2}) {
    BOOST_CHECK_CLOSE(step_with(zero(stage, kUnits * kElements, false)),
                      computes + all_reduce_time(kRanks, kUnits * kMiB), kPercent);
    BOOST_CHECK_CLOSE(step_with(zero(stage, kElements, false)),
                      computes + kUnits * all_reduce_time(kRanks, kMiB), kPercent);
  }
}

// A bucket goes once the next gradient does not fit, so that the last two go behind backward; and
// while one fills the other is reduced, whose end the next backward waits for.
BOOST_AUTO_TEST_CASE(with_overlap_two_buckets_take_turns) {
  const double r = all_reduce_time(kRanks, kMiB);
  for (const int stage : {1, 2}) {
    BOOST_TEST(r < kBackward);
    BOOST_CHECK_CLOSE(step_with(zero(stage, kElements, true)), rest() + kUnits * kBackward + 2 * r,
                      kPercent);
    const double fast = r / 4;
    BOOST_CHECK_CLOSE(step_with(zero(stage, kElements, true), fast), rest() + 2 * fast + 4 * r,
                      kPercent);
  }
}

BOOST_AUTO_TEST_CASE(stage_2_reduces_in_each_micro_batch_and_stage_1_once) {
  const auto reduced = [](int stage) {
    const Schedule schedule =
        schedule_of(zero(stage, kUnits * kElements, false, 3), units(), star_cluster(kRanks));
    return sizes_of(schedule.programs.front(), CollectiveKind::all_reduce);
  };
  BOOST_TEST(reduced(2) == std::vector<double>(3, kUnits * kMiB), boost::test_tools::per_element());
  BOOST_TEST(reduced(1) == std::vector<double>(1, kUnits * kMiB), boost::test_tools::per_element());
}

/// In bf16 with master weights.
double peak(const DeepspeedBuckets& options) {
  const Toy toy = units();
  const Cluster cluster = star_cluster(kRanks);
  Job job = job_of(toy, cluster);
  job.precision = job.optimizer.of = Precision::bf16_master;
  Schedule schedule = build_schedule(options, job);
  schedule.iterations = 2;
  validate(schedule);
  return forecast_memory(schedule.programs.front(), {.caching = false}).allocated_peak.value();
}

// communication_data_type: fp32 sums copies of twice the bytes, which are there beside the bucket.
BOOST_DATA_TEST_CASE(in_fp32_a_bucket_is_reduced_as_a_copy, data::make({1, 2}), stage) {
  const auto reduced = [&](bool fp32) {
    DeepspeedBuckets options = zero(stage, kElements, false);
    options.communicates_fp32 = fp32;
    const Toy toy = units();
    const Cluster cluster = star_cluster(kRanks);
    Job job = job_of(toy, cluster);
    job.precision = job.optimizer.of = Precision::bf16_master;
    return sizes_of(build_schedule(options, job).programs.front(), CollectiveKind::all_reduce);
  };
  BOOST_TEST(reduced(false) == std::vector<double>(kUnits, 2 * kElements),
             boost::test_tools::per_element());
  BOOST_TEST(reduced(true) == std::vector<double>(kUnits, 4 * kElements),
             boost::test_tools::per_element());
}

constexpr double kUnit = 2 * kElements;  // bytes of its parameters
constexpr double kPart = kUnit * kUnits / kRanks;
/// Parameters, and of a part: master weights and two states.
constexpr double kKept = kUnits * kUnit + 3 * 2 * kPart;

// Beside what is kept: a part of gradients, flat, and in fp32; or the buckets, one of which is put
// together once more where it has gradients of two parts.
BOOST_AUTO_TEST_CASE(peaks_are_of_the_step_or_of_the_buckets) {
  const double step = kPart + kPart + 2 * kPart;
  BOOST_CHECK_EQUAL(peak(zero(2, kElements, false)), kKept + step);
  BOOST_CHECK_EQUAL(peak(zero(2, 2 * kElements, false)), kKept + kPart + 2 * kUnit + 2 * kUnit);
  BOOST_CHECK_EQUAL(peak(zero(2, 2 * kElements, true)), kKept + kPart + 2 * 2 * kUnit + 2 * kUnit);
}

// Stage 1 has all gradients whole until the last backward; buckets are there from the first.
BOOST_AUTO_TEST_CASE(stage_1_keeps_whole_gradients) {
  const double whole = kUnits * kUnit;
  BOOST_CHECK_EQUAL(peak(zero(1, kElements, false)), kKept + whole + kUnit);
  BOOST_TEST(peak(zero(1, kElements, false)) - peak(zero(2, kElements, false)) ==
             whole + kUnit - 4 * kPart);
}

// A second micro-batch's part is added to the first one's.
BOOST_AUTO_TEST_CASE(micro_batches_add_up_parts) {
  const double buckets = 2 * kUnit + 2 * kUnit;
  BOOST_CHECK_EQUAL(peak(zero(2, 2 * kElements, false, 2)), kKept + 2 * kPart + buckets);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
