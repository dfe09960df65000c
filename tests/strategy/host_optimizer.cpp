// Optimizers on the host beside other work: closed forms. c: a unit's gradients to the host, or its
// parameters back; s: its step there; f, b as everywhere.
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "memory/memory.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(host_optimizer_test)
namespace {

constexpr double kF = 2 * kMs, kB = 4 * kMs, kO = 1 * kMs;
constexpr std::size_t kUnits = 2;
constexpr double kHost = 1e11, kPcie = 2e10, kPcieLatency = 2e-6;

/// One GPU whose memory is twice as fast as its host's.
Cluster one_gpu() {
  Cluster cluster = star_cluster(1);
  cluster.groups[0].node.gpu.memory_bandwidth = BytesPerSecond(2 * kHost);
  return cluster;
}

Toy units() { return equal_units(kUnits, {kMiB, kF, kB}, kO); }

Schedule schedule_with(const Strategy& strategy, const Optimizer& optimizer,
                       const Cluster& cluster) {
  const Toy made = units();
  Job job = job_of(made, cluster);
  job.optimizer = optimizer;
  Schedule schedule = build_schedule(strategy, job);
  schedule.iterations = 3;
  validate(schedule);
  return schedule;
}

/// Between the ends of the second and the third step.
double period(const Strategy& strategy, const Optimizer& optimizer,
              const Cluster& cluster = one_gpu()) {
  const Trace trace = play(schedule_with(strategy, optimizer, cluster), cluster);
  return (trace.iteration_end[0][2] - trace.iteration_end[0][1]).value();
}

Optimizer on_host(OffloadOverlap overlap, double clip = 0) {
  return {.kind = OptimizerKind::adam,
          .fused = true,
          .offload = Offload::cpu,
          .offload_overlap = overlap,
          .clip_grad = clip};
}

constexpr double kCopy = kPcieLatency + kMiB / kPcie;
constexpr double kStep = 2 * kO / kUnits;  // a unit's, on the host

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_beside_backward_leaves_the_last_unit_s) {
  BOOST_CHECK_CLOSE(period(TorchFsdp2{}, on_host(OffloadOverlap::backward)),
                    kUnits * (kF + kB) + kCopy + kStep + kCopy, kPercent);
}

BOOST_AUTO_TEST_CASE(clipped_gradients_wait_for_the_norm_of_all) {
  BOOST_CHECK_CLOSE(period(TorchFsdp2{}, on_host(OffloadOverlap::backward, 1)),
                    kUnits * (kF + kB) + kCopy + kUnits * kStep + kCopy, kPercent);
}

BOOST_AUTO_TEST_CASE(groups_of_stage_3_step_once_they_are_whole) {
  const Cluster cluster = star_cluster(2);
  const auto steps = [&](std::int64_t group) {
    const Schedule schedule = schedule_with(DeepspeedZero3{.sub_group_size = group},
                                            on_host(OffloadOverlap::backward), cluster);
    return count_of(schedule.programs[0], "optimizer");
  };
  constexpr auto kElements = static_cast<std::int64_t>(kMiB / 4);
  BOOST_TEST(steps(1) == kUnits);
  BOOST_TEST(steps(kElements) == 1U);
  BOOST_TEST(steps(1'000'000'000) == 1U);
}

BOOST_AUTO_TEST_CASE(gradients_beside_backward_leave_the_gpu) {
  const Cluster cluster = one_gpu();
  const auto peak = [&](const Strategy& strategy, OffloadOverlap overlap) {
    constexpr MemoryDevice kPlain{.caching = false};
    const Schedule schedule = schedule_with(strategy, on_host(overlap), cluster);
    return forecast_memory(schedule.programs[0], kPlain).allocated_peak.value();
  };
  // The last unit's gradients are there until the first unit's step, or not.
  BOOST_TEST(peak(TorchFsdp2{}, OffloadOverlap::none) -
                 peak(TorchFsdp2{}, OffloadOverlap::backward) ==
             kMiB);
  // Stage 3 has a micro-batch's on the host before the next one's come, whenever it steps.
  DeepspeedZero3 stage3;
  stage3.gradient_accumulation = 2;
  BOOST_TEST(peak(stage3, OffloadOverlap::none) == peak(stage3, OffloadOverlap::backward));
}

BOOST_AUTO_TEST_CASE(copies_beside_a_step_take_the_longer_of_the_two) {
  const double all = kUnits * kMiB / kPcie;
  BOOST_CHECK_CLOSE(period(TorchDdp{}, on_host(OffloadOverlap::none)),
                    kUnits * (kF + kB) + 2 * kO + 2 * all, kPercent);
  BOOST_CHECK_CLOSE(period(TorchDdp{}, on_host(OffloadOverlap::copies)),
                    kUnits * (kF + kB) + std::max(2 * kO, all), kPercent);
}

BOOST_AUTO_TEST_CASE(drives_read_and_write_states_and_gradients) {
  // Two states and a gradient, four bytes each, there and back; parameters are fp32 themselves.
  Cluster cluster = one_gpu();
  cluster.groups[0].node.nvme = BytesPerSecond(1e9);
  Optimizer optimizer = on_host(OffloadOverlap::none);
  const double on_cpu = period(DeepspeedZero3{}, optimizer, cluster);
  optimizer.offload = Offload::nvme;
  BOOST_CHECK_CLOSE(period(DeepspeedZero3{}, optimizer, cluster) - on_cpu,
                    2 * kUnits * kMiB / 4 * 12 / 1e9, kPercent);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
