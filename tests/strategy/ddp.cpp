// DDP and ZeRO-1 against closed forms: n one-GPU nodes on a star, three units with a bucket each.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "schedule/jitter.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(ddp_test)
namespace {

namespace data = boost::unit_test::data;

constexpr int kRanks = 4;
constexpr double kForward = 2 * kMs, kOptimizer = 3 * kMs;

Toy three_units(double backward) { return equal_units(3, {kMiB, kForward, backward}, kOptimizer); }

/// Every unit of 1 MiB closes a bucket.
TorchDdp ring_ddp() { return {.bucket_cap_mb = 1, .algorithm = CollectiveAlgorithm::ring}; }
Horovod ring_horovod() {
  return {.bucket_cap_mb = 1, .first_bucket_mb = 1, .algorithm = CollectiveAlgorithm::ring};
}

/// t: of one bucket, 6 steps of 2^18 B and 5 us: 1.6 ms.
const double kBucket = all_reduce_time(kRanks, kMiB);

BOOST_DATA_TEST_CASE(all_buckets_but_the_last_hide_behind_a_long_backward,
                     data::make({Fidelity::hop, Fidelity::flow}), fidelity) {
  // b > t: the tail is the last bucket's all_reduce alone.
  const double b = 5 * kMs, expected = 3 * kForward + 3 * b + kBucket + kOptimizer;
  BOOST_REQUIRE_LT(kBucket, b);
  const Cluster cluster = star_cluster(kRanks);
  const Schedule schedule = schedule_of(ring_ddp(), three_units(b), cluster);
  BOOST_CHECK_CLOSE(play(schedule, cluster, fidelity).end.value(), expected, kPercent);
}

BOOST_DATA_TEST_CASE(all_reduces_queue_up_behind_a_short_backward,
                     data::make({Fidelity::hop, Fidelity::flow}), fidelity) {
  // b < t: from the first bucket on, which is ready after one unit's backward, the NCCL stream is
  // never idle.
  const double b = 0.1 * kMs, expected = 3 * kForward + b + 3 * kBucket + kOptimizer;
  const Cluster cluster = star_cluster(kRanks);
  const Schedule schedule = schedule_of(ring_ddp(), three_units(b), cluster);
  BOOST_CHECK_CLOSE(play(schedule, cluster, fidelity).end.value(), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(one_bucket_overlaps_nothing) {
  const double b = 5 * kMs,
               expected = 3 * kForward + 3 * b + all_reduce_time(kRanks, 3 * kMiB) + kOptimizer;
  const TorchDdp ddp{
      .bucket_cap_mb = 25, .first_bucket_mb = 25, .algorithm = CollectiveAlgorithm::ring};
  BOOST_CHECK_CLOSE(step_of(ddp, three_units(b), star_cluster(kRanks)), expected, kPercent);
}

BOOST_DATA_TEST_CASE(every_iteration_takes_as_long_as_the_first, data::make({0.1, 1.6, 5.0}),
                     b_ms) {
  const Toy model = three_units(b_ms * kMs);
  const Cluster cluster = star_cluster(kRanks);
  const double step = step_of(ring_ddp(), model, cluster);
  const Trace trace = trace_of(ring_ddp(), model, cluster, 5);
  for (const auto& ends : trace.iteration_end)
    for (std::size_t k = 0; k < 5; ++k)
      BOOST_CHECK_CLOSE(ends[k].value(), static_cast<double>(k + 1) * step, kPercent);
}

// TensorFlow's: no bucket goes before backward is over.
BOOST_AUTO_TEST_CASE(behind_backward_nothing_is_hidden) {
  const double b = 5 * kMs, expected = 3 * kForward + 3 * b + 3 * kBucket + kOptimizer;
  Horovod ddp = ring_horovod();
  ddp.overlap_grad_reduce = false;
  BOOST_CHECK_CLOSE(step_of(ddp, three_units(b), star_cluster(kRanks)), expected, kPercent);
}

// Before PyTorch 2.0: each collective holds its stream a while longer.
BOOST_AUTO_TEST_CASE(many_collectives_cost_what_each_of_them_does) {
  const double b = 0.1 * kMs, each = 0.2 * kMs;
  const double expected = 3 * kForward + b + 3 * (each + kBucket) + kOptimizer;
  TorchDdp ddp = ring_ddp();
  ddp.per_collective = Seconds(each);
  BOOST_CHECK_CLOSE(step_of(ddp, three_units(b), star_cluster(kRanks)), expected, kPercent);
}

// Horovod's thread finds all gradients ready in one cycle, half of one later; or each in its own.
BOOST_AUTO_TEST_CASE(a_cycle_reduces_what_is_ready_at_once) {
  const double b = 5 * kMs, before = 3 * kForward + 3 * b;
  Horovod ddp{.bucket_cap_mb = 64, .first_bucket_mb = 64, .algorithm = CollectiveAlgorithm::ring};
  ddp.cycle_time = Seconds(100 * kMs);
  BOOST_CHECK_CLOSE(step_of(ddp, three_units(b), star_cluster(kRanks)),
                    before + 50 * kMs + all_reduce_time(kRanks, 3 * kMiB) + kOptimizer, kPercent);
  ddp.cycle_time = Seconds(1 * kMs);
  BOOST_CHECK_CLOSE(step_of(ddp, three_units(b), star_cluster(kRanks)),
                    before + 0.5 * kMs + kBucket + kOptimizer, kPercent);
  // A buffer of two gradients: the third one goes behind them.
  ddp.cycle_time = Seconds(100 * kMs);
  ddp.bucket_cap_mb = 2;
  BOOST_CHECK_CLOSE(
      step_of(ddp, three_units(b), star_cluster(kRanks)),
      before - b + 50 * kMs + all_reduce_time(kRanks, 2 * kMiB) + kBucket + kOptimizer, kPercent);
}

BOOST_AUTO_TEST_CASE(a_large_gradient_goes_in_slices) {
  const double b = 5 * kMs;
  Horovod ddp{.bucket_cap_mb = 25, .first_bucket_mb = 25, .algorithm = CollectiveAlgorithm::ring};
  ddp.partition = Bytes(1.5 * kMiB);
  BOOST_CHECK_CLOSE(step_of(ddp, three_units(b), star_cluster(kRanks)),
                    3 * kForward + 3 * b + 2 * all_reduce_time(kRanks, 1.5 * kMiB) + kOptimizer,
                    kPercent);
}

// ByteScheduler: of three buckets the last layer's is ready first and goes. Behind it the first
// layer's overtakes the second's, and the next forward begins beside that.
BOOST_DATA_TEST_CASE(by_priority_the_next_forward_hides_what_is_left,
                     data::make({Fidelity::hop, Fidelity::flow}), fidelity) {
  const double f = 0.5 * kMs, b = 0.1 * kMs;
  const double expected = b + 3 * kBucket + kOptimizer / 3 + 2 * f;
  BOOST_REQUIRE_LT(f, kBucket);
  Horovod ddp = ring_horovod();
  ddp.by_priority = true;
  const Cluster cluster = star_cluster(kRanks);
  const Schedule schedule = schedule_of(ddp, equal_units(3, {kMiB, f, b}, kOptimizer), cluster, 5);
  const Trace trace = play(schedule, cluster, fidelity);
  for (const auto& ends : trace.iteration_end)
    for (std::size_t k = 2; k < 5; ++k)
      BOOST_CHECK_CLOSE((ends[k] - ends[k - 1]).value(), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(by_priority_a_long_step_waits_for_nothing) {
  const double f = 3 * kMs, b = 5 * kMs;
  Horovod ddp = ring_horovod();
  ddp.by_priority = true;
  const Cluster cluster = star_cluster(kRanks);
  // The first layer's gradients come last, and its forward is next.
  const double expected = 3 * (f + b) + kBucket + kOptimizer / 3;
  const Trace trace = trace_of(ddp, equal_units(3, {kMiB, f, b}, kOptimizer), cluster, 4);
  BOOST_CHECK_CLOSE((trace.iteration_end[0][3] - trace.iteration_end[0][2]).value(), expected,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(gradient_accumulation_reduces_once) {
  // A micro-batches of forward and backward, the last with the reduction; nothing would hide an
  // earlier one.
  const int micro = 3;
  const double f = 0.1 * kMs, b = 0.1 * kMs;
  const double expected = (micro - 1) * 3 * (f + b) + 3 * f + b + 3 * kBucket + kOptimizer;
  TorchDdp ddp = ring_ddp();
  ddp.gradient_accumulation = micro;
  const Schedule schedule =
      schedule_of(ddp, equal_units(3, {kMiB, f, b}, kOptimizer), star_cluster(kRanks));
  BOOST_TEST(count_of(schedule.programs[0], "all_reduce") == 3U);
  BOOST_CHECK_CLOSE(play(schedule, star_cluster(kRanks)).end.value(), expected, kPercent);
}

BOOST_DATA_TEST_CASE(compression_halves_the_bytes,
                     data::make({TorchDdp::Compression::fp16, TorchDdp::Compression::bf16})) {
  const double b = 0.1 * kMs;
  const double expected = 3 * kForward + b + 3 * all_reduce_time(kRanks, kMiB / 2) + kOptimizer;
  TorchDdp ddp = ring_ddp();
  ddp.compression = sample;
  BOOST_CHECK_CLOSE(step_of(ddp, three_units(b), star_cluster(kRanks)), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(compression_of_16_bit_gradients_changes_nothing) {
  const Toy model = three_units(kMs);
  const Cluster cluster = star_cluster(kRanks);
  Job job = job_of(model, cluster);
  job.precision = Precision::bf16_pure;
  TorchDdp ddp = ring_ddp();
  ddp.compression = TorchDdp::Compression::bf16;
  // 2 B each: two units of 0.5 MiB close the first bucket, the third is left over.
  const auto sizes = sizes_of(build_schedule(ddp, job).programs[0], CollectiveKind::all_reduce);
  BOOST_TEST(sizes == (std::vector<double>{kMiB, kMiB / 2}), boost::test_tools::per_element());
}

// c: of reading a bucket once and writing it once. The last bucket is emptied when it has come, the
// others beside it. (How often each byte is read or written as a bucket fills, and as it empties.)
struct Copies {
  const char* name;
  bool views;
  TorchDdp::Compression compression;
  double filling, emptying;
};
const Copies kCopies[] = {{"plain", false, TorchDdp::Compression::none, 2, 2},
                          {"views", true, TorchDdp::Compression::none, 2, 0},
                          {"fp16", false, TorchDdp::Compression::fp16, 4.5, 3.5},
                          {"views in fp16", true, TorchDdp::Compression::fp16, 2.5, 1.5}};
std::ostream& operator<<(std::ostream& out, const Copies& copies) { return out << copies.name; }

BOOST_DATA_TEST_CASE(gradients_are_copied_to_buckets_and_back,
                     data::make(kCopies) * data::make({1, 2}), copies, micro) {
  const double b = 5 * kMs, c = 0.1 * kMs;
  const bool compressed = copies.compression != TorchDdp::Compression::none;
  const double last = all_reduce_time(kRanks, compressed ? kMiB / 2 : kMiB);
  TorchDdp ddp = ring_ddp();
  ddp.gradient_as_bucket_view = copies.views;
  ddp.compression = copies.compression;
  ddp.gradient_accumulation = micro;
  Toy model = three_units(b);
  model.costs.copy_rate = BytesPerSecond(2 * kMiB / c);
  BOOST_REQUIRE_LT(2 * copies.emptying / 2 * c, last);
  BOOST_CHECK_CLOSE(step_of(ddp, model, star_cluster(kRanks)),
                    micro * 3 * (kForward + b) + 3 * copies.filling / 2 * c + last +
                        copies.emptying / 2 * c + kOptimizer,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(a_hook_converts_no_gradients_that_have_its_type) {
  // 16 bits either way: the hook divides, which without it the Reducer does as it copies.
  const double b = 5 * kMs, c = 0.1 * kMs;
  Toy model = three_units(b);
  model.costs.copy_rate = BytesPerSecond(2 * kMiB / c);
  const Cluster cluster = star_cluster(kRanks);
  Job job = job_of(model, cluster);
  job.precision = Precision::bf16_pure;
  TorchDdp ddp = ring_ddp();
  const double plain = play(build_schedule(ddp, job), cluster).end.value();
  ddp.compression = TorchDdp::Compression::bf16;
  // All buckets but the last fill beside nothing that waits for them.
  BOOST_CHECK_CLOSE(play(build_schedule(ddp, job), cluster).end.value(), plain + 3 * c / 2,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(a_world_of_one_does_not_communicate) {
  const double b = 5 * kMs, expected = 3 * kForward + 3 * b + kOptimizer;
  Toy model = three_units(b);
  model.costs.copy_rate = BytesPerSecond(1e9);
  const Trace trace = trace_of(ring_ddp(), model, star_cluster(1), 2);
  BOOST_CHECK_CLOSE(trace.end.value(), 2 * expected, kPercent);
  BOOST_TEST(trace.traffic.flows == 0U);
}

BOOST_AUTO_TEST_CASE(a_model_without_parameters_does_not_communicate) {
  const double expected = 3 * kForward + 3 * kMs + kOptimizer;
  const Trace trace =
      trace_of(ring_ddp(), equal_units(3, {0, kForward, kMs}, kOptimizer), star_cluster(kRanks));
  BOOST_CHECK_CLOSE(trace.end.value(), expected, kPercent);
  BOOST_TEST(trace.traffic.flows == 0U);
}

BOOST_AUTO_TEST_CASE(a_straggler_holds_up_every_bucket) {
  // Rank 2 computes three times as long; its optimizer too, and rank 0 has no work after its own.
  const double b = 5 * kMs, slow = 3;
  Schedule schedule = schedule_of(ring_ddp(), three_units(b), star_cluster(kRanks), 2);
  schedule.ranks[2].slowdown *= slow;
  const Trace trace = play(schedule, star_cluster(kRanks));
  const double reduced = slow * 3 * (kForward + b) + kBucket;
  BOOST_CHECK_CLOSE(trace.iteration_end[0][0].value(), reduced + kOptimizer, kPercent);
  BOOST_CHECK_CLOSE(trace.iteration_end[2][0].value(), reduced + slow * kOptimizer, kPercent);
  BOOST_CHECK_CLOSE(trace.end.value(), 2 * (reduced + slow * kOptimizer), kPercent);
}

BOOST_AUTO_TEST_CASE(a_node_of_half_the_speed_computes_twice_as_long) {
  Cluster cluster = star_cluster(2);
  cluster.groups.push_back(cluster.groups.front());
  cluster.groups.back().node.speed = 0.5;
  const double b = 5 * kMs, expected = 2 * (3 * kForward + 3 * b + kOptimizer) + kBucket;
  BOOST_CHECK_CLOSE(step_of(ring_ddp(), three_units(b), cluster), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(jitter_stretches_a_rank_s_compute_by_its_factor) {
  // With one rank nothing hides it: the sum over iterations of factor times compute.
  Schedule schedule = schedule_of(ring_ddp(), three_units(kMs), star_cluster(1), 4);
  schedule.jitter = {.distribution = Jitter::Distribution::lognormal, .cv = 0.2};
  double expected = 0;
  for (std::uint32_t k = 0; k < 4; ++k)
    expected += compute_factor(schedule, RankId(0), k) * (3 * kForward + 3 * kMs + kOptimizer);
  BOOST_CHECK_CLOSE(play(schedule, star_cluster(1)).end.value(), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(communication_slows_the_compute_beside_it) {
  // Buckets 1 and 2 (t each) run beside backward: for t of a unit's backward it proceeds at 1/s, so
  // that the unit takes b + t (1 - 1/s); the last bucket has nothing beside it.
  const double b = 5 * kMs, s = 1.25;
  Schedule schedule = schedule_of(ring_ddp(), three_units(b), star_cluster(kRanks));
  schedule.overlap_slowdown = s;
  const double expected = 3 * kForward + 3 * b + 2 * kBucket * (1 - 1 / s) + kBucket + kOptimizer;
  BOOST_CHECK_CLOSE(play(schedule, star_cluster(kRanks)).end.value(), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(launches_on_the_host_bound_a_gpu_that_waits_for_them) {
  // Launch h before each of the six; the GPU follows the last launch of forward and backward: 6 h +
  // f or b of the last.
  Toy model = three_units(0.5 * kMs);
  const double h = 4 * kMs;
  for (UnitCost& unit : model.costs.units) unit.forward_launch = unit.backward_launch = Seconds(h);
  const double expected = 6 * h + 0.5 * kMs + kOptimizer;
  BOOST_CHECK_CLOSE(step_of(ring_ddp(), model, star_cluster(1)), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(zero_1_updates_its_share_and_gathers_the_rest) {
  // As DDP, but the optimizer takes 1/n and an all_gather of all parameters follows, which the next
  // forward waits for.
  const double b = 5 * kMs;
  const double step =
      3 * kForward + 3 * b + kBucket + kOptimizer / kRanks + all_gather_time(kRanks, 3 * kMiB);
  const Trace trace = trace_of(zero_1(ring_ddp()), three_units(b), star_cluster(kRanks), 3);
  for (std::size_t k = 0; k < 3; ++k)
    BOOST_CHECK_CLOSE(trace.iteration_end[0][k].value(), static_cast<double>(k + 1) * step,
                      kPercent);
}

// Each tensor 0.85 of an operator forward and 0.37 backward, each bucket two; one GPU has no DDP.
BOOST_AUTO_TEST_CASE(tensors_and_buckets_take_the_host) {
  Toy model = equal_units(3, {kMiB, 20 * kMs, 40 * kMs}, kOptimizer);
  for (UnitCost& unit : model.costs.units)
    unit.forward_launch = unit.backward_launch = Seconds(0.1 * kMs);
  const auto launch = [&](const std::string& pass, int ranks, double operator_s) {
    model.costs.host_operator = Seconds(operator_s);
    const Schedule schedule = schedule_of(ring_ddp(), model, star_cluster(ranks));
    const Span span =
        span_of(schedule, play(schedule, star_cluster(ranks)), 0, "launch " + pass + " u2");
    return (span.end - span.start).value();
  };
  const auto near = boost::test_tools::tolerance(1e-9);
  BOOST_TEST(launch("forward", kRanks, 1e-6) == 0.1 * kMs + 0.85e-6, near);
  BOOST_TEST(launch("backward", kRanks, 1e-6) == 0.1 * kMs + 2.37e-6, near);
  BOOST_TEST(launch("backward", kRanks, 0) == 0.1 * kMs, near);
  BOOST_TEST(launch("backward", 1, 1e-6) == 0.1 * kMs, near);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
