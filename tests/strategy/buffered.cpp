// Replicas of a layout against closed forms: equal units on one-GPU nodes, rings.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "memory/replay.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(buffered_test)
namespace {

namespace data = boost::unit_test::data;

constexpr int kRanks = 4;
constexpr double kForward = 2 * kMs, kOptimizer = 3 * kMs;

Strategy replicas(int micro_batches, bool overlaps) {
  MegatronDdp ddp{.overlap_grad_reduce = overlaps, .algorithm = CollectiveAlgorithm::ring};
  if (overlaps) ddp.bucket_cap_mb = 1;
  return {ddp, Layout{.micro_batches = micro_batches}};
}

Strategy sharded(bool overlaps) {
  const MegatronDdp zero{.bucket_cap_mb = 1,
                         .overlap_grad_reduce = overlaps,
                         .overlap_param_gather = overlaps,
                         .algorithm = CollectiveAlgorithm::ring,
                         .use_distributed_optimizer = true};
  return {zero, Layout{}};
}

double reduce_scatter_time(double size) { return all_gather_time(kRanks, size); }

BOOST_DATA_TEST_CASE(without_overlap_one_bucket_comes_behind_the_last_backward, data::make({1, 3}),
                     micro) {
  const double backward = 5 * kMs;
  const double step =
      step_of(replicas(micro, false), equal_units(3, {kMiB, kForward, backward}, kOptimizer),
              star_cluster(kRanks));
  BOOST_CHECK_CLOSE(
      step, micro * 3 * (kForward + backward) + all_reduce_time(kRanks, 3 * kMiB) + kOptimizer,
      kPercent);
}

// Whichever takes longer, a bucket or a backward, the other hides behind it.
BOOST_DATA_TEST_CASE(with_overlap_buckets_go_as_they_fill,
                     data::make({1, 3}) * data::make({0.1 * kMs, 50 * kMs}), micro, backward) {
  const double bucket = all_reduce_time(kRanks, kMiB);
  const double last = backward + 2 * std::max(backward, bucket) + bucket;
  const double step =
      step_of(replicas(micro, true), equal_units(3, {kMiB, kForward, backward}, kOptimizer),
              star_cluster(kRanks));
  BOOST_CHECK_CLOSE(step, micro * 3 * kForward + (micro - 1) * 3 * backward + last + kOptimizer,
                    kPercent);
}

/// Of the second of two steps.
double second_step(const Strategy& strategy, const Toy& toy) {
  const Cluster cluster = star_cluster(kRanks);
  const auto end_of = [&](std::uint32_t steps) {
    const Schedule schedule = schedule_of(strategy, toy, cluster, steps);
    const Trace trace = play(schedule, cluster);
    return span_of(schedule, trace, 0, "optimizer", steps - 1).end.value();
  };
  return end_of(2) - end_of(1);
}

BOOST_DATA_TEST_CASE(a_unit_waits_for_its_own_parameters, data::make({0.1 * kMs, 50 * kMs}),
                     forward) {
  const double backward = 60 * kMs, part = all_gather_time(kRanks, kMiB);
  const Toy toy = equal_units(3, {kMiB, forward, backward}, kOptimizer);
  const double together = 3 * part + 3 * forward + 3 * backward + 3 * reduce_scatter_time(kMiB);
  const double apart =
      part + 2 * std::max(part, forward) + forward + 3 * backward + reduce_scatter_time(kMiB);
  BOOST_CHECK_CLOSE(second_step(sharded(false), toy), together + kOptimizer / kRanks, kPercent);
  BOOST_CHECK_CLOSE(second_step(sharded(true), toy), apart + kOptimizer / kRanks, kPercent);
}

// Megatron-LM's choice: the first stage has buckets of 40 M gradients, others have one.
BOOST_AUTO_TEST_CASE(only_the_first_stage_has_buckets) {
  Strategy strategy = replicas(4, true);
  std::get<MegatronDdp>(strategy.sync).bucket_cap_mb.reset();
  strategy.layout->mesh.pipeline = 2;
  const double large = 4 * 30e6;
  const Schedule schedule = schedule_of(
      strategy, equal_units(8, {large, kForward, kForward}, kOptimizer), star_cluster(kRanks));
  const auto first = sizes_of(schedule.programs[0], CollectiveKind::all_reduce);
  const auto second = sizes_of(schedule.programs[1], CollectiveKind::all_reduce);
  BOOST_TEST(first == (std::vector<double>{2 * large, 2 * large}));
  BOOST_TEST(second == (std::vector<double>{4 * large}));
}

// Parameters in 2 bytes, gradients in 4, and 12 of the optimizer's share.
BOOST_AUTO_TEST_CASE(gradients_of_bf16_add_up_in_fp32) {
  const Toy toy = equal_units(4, {4 * kMiB, kForward, kForward}, kOptimizer);
  const Cluster cluster = star_cluster(kRanks);
  Job job = job_of(toy, cluster);
  job.precision = job.optimizer.of = Precision::bf16_master;
  job.optimizer.wide_gradients = true;
  const Schedule schedule = build_schedule(sharded(false), job);
  MemoryReplay replay(schedule.programs[0], {.caching = false});
  Bytes most;
  for (int i = 0; i < 2; ++i)
    replay.iterate([&](std::size_t, const TensorEvent&) {
      Bytes all;
      for (const Bytes one : replay.use().by_kind) all += one;
      most = std::max(most, all);
    });
  const double parameters = 4 * kMiB;
  // An inline model's gradients are made before they are added: one of a unit's.
  BOOST_TEST(most.value() == parameters * (2 + 4 + 12.0 / kRanks) + 2 * kMiB);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
