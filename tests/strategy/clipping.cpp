// Gradients are unscaled and clipped between their reduction and the optimizer's step: closed
// forms.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(clipping_test)
namespace {

namespace data = boost::unit_test::data;

constexpr int kRanks = 4;
constexpr std::size_t kUnits = 3;
constexpr double kOptimizer = 3 * kMs, kRate = 1e9;
constexpr double kAll = kUnits * kMiB;  // bytes of parameters in fp32
constexpr double kNorm = 4;             // and of a norm

Toy copying() {
  Toy toy = equal_units(kUnits, {kMiB, 2 * kMs, 5 * kMs}, kOptimizer);
  toy.costs.copy_rate = BytesPerSecond(kRate);
  return toy;
}

Schedule clipped(const Strategy& strategy, std::optional<double> norm, Toy made = copying(),
                 Precision precision = Precision::fp32) {
  const Cluster cluster = star_cluster(kRanks);
  Job job = job_of(made, cluster);
  job.optimizer.clip_grad = norm;
  job.precision = job.optimizer.of = precision;
  job.optimizer.wide_gradients = precision == Precision::bf16_master;
  Schedule schedule = build_schedule(strategy, job);
  validate(schedule);
  return schedule;
}

double step_of(const Schedule& schedule) {
  return play(schedule, star_cluster(kRanks)).end.value();
}

double added(const Strategy& strategy, Precision precision = Precision::fp32) {
  return step_of(clipped(strategy, 1, copying(), precision)) -
         step_of(clipped(strategy, 0, copying(), precision));
}

/// Read for their norm, then read and written.
double passes(double bytes) { return 3 * bytes / kRate; }

double norm_of_all() { return all_reduce_time(kRanks, kNorm); }

// Each replica has all gradients.
BOOST_AUTO_TEST_CASE(replicas_clip_all_gradients_and_ask_nobody) {
  BOOST_CHECK_CLOSE(added(TorchDdp{}), passes(kAll), kPercent);
  const Schedule schedule = clipped(TorchDdp{}, 1);
  BOOST_TEST(count_of(schedule.programs[0], "all_reduce norm") == 0U);
}

// Each rank has a quarter, and the norm's square is a sum over ranks.
BOOST_DATA_TEST_CASE(shards_add_up_their_norms, data::make({1, 2}), version) {
  const Strategy fsdp = version == 2 ? Strategy(TorchFsdp2{.algorithm = CollectiveAlgorithm::ring})
                                     : Strategy(TorchFsdp1{.algorithm = CollectiveAlgorithm::ring});
  BOOST_CHECK_CLOSE(added(fsdp), passes(kAll / kRanks) + norm_of_all(), kPercent);
}

Strategy in_layout(bool sharded) {
  if (sharded) return {zero_1(kRingMegatron), Layout{}};
  return {kRingMegatron, Layout{}};
}

// bf16 parameters have gradients in fp32, twice as wide.
BOOST_AUTO_TEST_CASE(gradients_have_a_width_of_their_own) {
  BOOST_CHECK_CLOSE(added(in_layout(false)), passes(kAll), kPercent);
  BOOST_CHECK_CLOSE(added(in_layout(true)), passes(kAll / kRanks) + norm_of_all(), kPercent);
  BOOST_CHECK_CLOSE(added(in_layout(true), Precision::bf16_master),
                    passes(kAll / kRanks) + norm_of_all(), kPercent);
}

BOOST_AUTO_TEST_CASE(what_is_clipped_is_reduced_before_and_used_behind) {
  const Schedule schedule = clipped(TorchFsdp1{}, 1);
  const Trace trace = play(schedule, star_cluster(kRanks));
  const Span norm = span_of(schedule, trace, 0, "clip gradients, norm");
  const Span last = span_of(schedule, trace, 0, "reduce_scatter", 0, kUnits - 1);
  const Span both = span_of(schedule, trace, 0, "clip gradients", 0, 1);
  BOOST_TEST(norm.start.value() >= last.end.value());
  BOOST_TEST(both.start.value() > norm.end.value());
  BOOST_TEST(span_of(schedule, trace, 0, "optimizer").start.value() >= both.end.value());
}

// Of a training step without others, as local SGD has them, too.
BOOST_AUTO_TEST_CASE(a_step_of_its_own_clips) {
  LocalSgd local;
  local.period = 4;
  BOOST_CHECK_CLOSE(added(local), 4 * passes(kAll), kPercent);
}

/// With a scaler, and clipping where `norm` says so.
Schedule scaled(const Strategy& strategy, Toy made = copying(), double norm = 0,
                bool fused = true) {
  const Cluster cluster = star_cluster(kRanks);
  Job job = job_of(made, cluster);
  job.optimizer.clip_grad = norm;
  job.optimizer.grad_scaler = true;
  job.optimizer.fused = fused;
  Schedule schedule = build_schedule(strategy, job);
  validate(schedule);
  return schedule;
}

/// Read and written by one kernel.
double unscaling(double bytes) { return 2 * bytes / kRate; }

BOOST_AUTO_TEST_CASE(gradients_of_a_scaled_loss_are_read_and_written_once) {
  const double plain = step_of(clipped(TorchDdp{}, 0));
  BOOST_CHECK_CLOSE(step_of(scaled(TorchDdp{})) - plain, unscaling(kAll), kPercent);
  BOOST_CHECK_CLOSE(step_of(scaled(TorchDdp{}, copying(), 1)) - plain,
                    unscaling(kAll) + passes(kAll), kPercent);
  BOOST_TEST(count_of(scaled(TorchDdp{}).programs[0], "all_reduce infinities") == 0U);
}

BOOST_AUTO_TEST_CASE(shards_tell_each_other_of_infinities) {
  const TorchFsdp1 fsdp{.algorithm = CollectiveAlgorithm::ring};
  const double plain = step_of(clipped(fsdp, 0));
  BOOST_CHECK_CLOSE(step_of(scaled(fsdp)) - plain, unscaling(kAll / kRanks) + norm_of_all(),
                    kPercent);
  BOOST_CHECK_CLOSE(step_of(scaled(fsdp, copying(), 1)) - plain,
                    unscaling(kAll / kRanks) + passes(kAll / kRanks) + 2 * norm_of_all(), kPercent);
}

BOOST_AUTO_TEST_CASE(infinities_are_looked_for_before_the_norm_is_taken) {
  const Schedule schedule = scaled(TorchDdp{}, copying(), 1);
  const Trace trace = play(schedule, star_cluster(kRanks));
  const Span unscaled = span_of(schedule, trace, 0, "unscale gradients");
  BOOST_TEST(span_of(schedule, trace, 0, "clip gradients, norm").start.value() >=
             unscaled.end.value());
}

/// The host launches faster than the GPU computes, and reads what was found unless the step does.
BOOST_DATA_TEST_CASE(the_host_waits_for_what_was_found_unless_the_step_is_fused,
                     data::make({false, true}), fused) {
  Toy made = copying();
  for (UnitCost& unit : made.costs.units)
    unit.forward_launch = unit.backward_launch = Seconds(0.1 * kMs);
  Schedule schedule = scaled(TorchDdp{}, made, 0, fused);
  schedule.iterations = 2;
  const Trace trace = play(schedule, star_cluster(kRanks));
  const double found = span_of(schedule, trace, 0, "unscale gradients").end.value();
  const double next = span_of(schedule, trace, 0, "launch", 1).start.value();
  BOOST_TEST((next >= found) == !fused);
}

// Of replicas and of FSDP2 it is all tensors one by one; FSDP's flat parameters are few.
BOOST_AUTO_TEST_CASE(the_host_takes_its_time_for_an_optimizer_over_all_tensors) {
  Toy made = copying();
  for (UnitCost& unit : made.costs.units)
    unit.forward_launch = unit.backward_launch = Seconds(10 * kMs);  // the GPU waits
  const auto added = [&](const Strategy& strategy) {
    made.costs.optimizer_launch = Seconds(0);
    const double before = step_of(clipped(strategy, 0, made));
    made.costs.optimizer_launch = Seconds(100 * kMs);
    return step_of(clipped(strategy, 0, made)) - before;
  };
  // It begins while the last unit's backward computes, and ends the last step with that behind it.
  LocalSgd local;
  local.period = 4;
  BOOST_CHECK_CLOSE(added(local), (3 * 100 + 100 - 5) * kMs, kPercent);
  BOOST_TEST(added(TorchFsdp1{}) == 0);
  BOOST_TEST(added(TorchFsdp2{}) > 0);
  BOOST_TEST(added(TorchDdp{}) > 0);
}

// Its profile's time of the optimizer has the scaler's pass.
BOOST_AUTO_TEST_CASE(what_was_measured_with_a_scaler_is_not_unscaled_twice) {
  Toy made = copying();
  made.costs.optimizer_unscales = true;
  BOOST_TEST(count_of(scaled(TorchDdp{}, made).programs[0], "unscale") == 0U);
}

// Nobody asked; and where all times are given, they have it.
BOOST_AUTO_TEST_CASE(nothing_is_clipped_unless_it_is_said) {
  const auto clips = [](const Schedule& schedule) {
    return count_of(schedule.programs[0], "clip");
  };
  BOOST_TEST(clips(clipped(TorchDdp{}, std::nullopt)) == 0U);
  BOOST_TEST(clips(clipped(TorchDdp{}, 1)) == 2U);
  Toy given = copying();
  given.costs.copy_rate = BytesPerSecond(0);
  BOOST_TEST(clips(clipped(TorchDdp{}, 1, given)) == 0U);
}

// Megatron-LM reads each bucket, then divides it by the number of replicas in place.
BOOST_DATA_TEST_CASE(buckets_are_looked_at_for_nans, data::make({false, true}), checks) {
  Strategy strategy = in_layout(true);
  std::get<MegatronDdp>(strategy.sync).check_for_nan_in_grad = checks;
  const Program program = clipped(strategy, 0).programs[0];
  BOOST_TEST(count_of(program, "copy bucket 0, checked") == (checks ? 1U : 0U));
  BOOST_TEST(count_of(program, "copy bucket 0, divided") == 1U);
  strategy.sync = MegatronDdp{.bucket_cap_mb = 25, .check_for_nan_in_grad = checks};
  BOOST_TEST(count_of(clipped(strategy, 0).programs[0], "copy bucket 0, checked") ==
             (checks ? 1U : 0U));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
