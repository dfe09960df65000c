// What a rank holds under each strategy. Adam in fp32: two states of 4 B, so 2 P of optimizer state
// for P of parameters.
#include "memory/memory.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "strategy/every_strategy.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
namespace {

namespace data = boost::unit_test::data;

/// "24 MiB at backward u2" of a worker.
std::string peak(const Strategy& strategy, const Toy& toy, const Cluster& cluster) {
  const MemoryPeak found = memory_peak(schedule_of(strategy, toy, cluster).programs[0]);
  const double mib = found.use.total().value() / kMiB;
  return std::to_string(static_cast<int>(mib)) + (mib == static_cast<int>(mib) ? "" : "+") +
         " MiB at " + found.label;
}

/// Bytes of a kind that a worker holds from start to end.
double resident(const Strategy& strategy, const Toy& toy, const Cluster& cluster, MemoryKind kind) {
  const Schedule schedule = schedule_of(strategy, toy, cluster);
  double held = 0;
  for (const MemoryEffect& effect : schedule.programs[0].resident)
    if (effect.kind == kind) held += effect.change.value();
  return held;
}

/// P 4 and 8 MiB, activations 3 and 5.
Toy unlike_units() {
  return toy({{4 * kMiB, kMs, kMs, 3 * kMiB}, {8 * kMiB, kMs, kMs, 5 * kMiB}}, kMs);
}
/// P 4 MiB, activations 3, twice.
Toy like_units() { return equal_units(2, {4 * kMiB, kMs, kMs, 3 * kMiB}, kMs); }

BOOST_AUTO_TEST_CASE(every_strategy_gives_back_what_an_iteration_takes) {
  const Toy model =
      toy({{0, kMs, kMs, 1e6}, {4 * kMiB, kMs, kMs, 3e6}, {4 * 250'001, kMs, kMs, 2e6}}, kMs);
  const Cluster cluster = star_cluster(2, 2);
  for (const auto& [name, strategy] : every_strategy()) {
    const Schedule schedule = schedule_of(strategy, model, cluster);
    BOOST_TEST_CONTEXT(name) {
      for (const Program& program : schedule.programs) BOOST_CHECK_NO_THROW(memory_peak(program));
    }
  }
}

BOOST_AUTO_TEST_CASE(ddp_holds_parameters_states_buckets_activations_and_gradients) {
  // Resident 12 + 24 + 12 = 48. Forward 56. Backward u2 takes 8: 64, leaves 59; backward u1 takes
  // 4: 63.
  BOOST_TEST(peak(Ddp{}, unlike_units(), star_cluster(4)) == "64 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(bucket_views_save_one_copy_of_the_gradients) {
  // Without activations: 48 + 12 against 48, which stand from the start.
  const Toy model = toy({{4 * kMiB, kMs, kMs}, {8 * kMiB, kMs, kMs}}, kMs);
  BOOST_TEST(peak(Ddp{}, model, star_cluster(4)) == "60 MiB at backward u1");
  BOOST_TEST(peak(Ddp{.gradient_as_bucket_view = true}, model, star_cluster(4)) == "48 MiB at ");
  // With them the peak moves to the end of forward: 48 + 8.
  BOOST_TEST(peak(Ddp{.gradient_as_bucket_view = true}, unlike_units(), star_cluster(4)) ==
             "56 MiB at forward u2");
}

BOOST_AUTO_TEST_CASE(accumulated_gradients_stand_through_the_next_forward) {
  // 48 + 12 + 8 at the end of the second forward; its backward takes nothing more.
  BOOST_TEST(peak(Ddp{.gradient_accumulation = 2}, unlike_units(), star_cluster(4)) ==
             "68 MiB at forward u2");
}

BOOST_DATA_TEST_CASE(zero_1_keeps_one_share_of_the_optimizer_state, data::make({1, 2, 4, 8}),
                     ranks) {
  const Cluster cluster = star_cluster(ranks);
  BOOST_TEST(resident(Zero1{}, unlike_units(), cluster, MemoryKind::optimizer_state) ==
             24 * kMiB / ranks);
  BOOST_TEST(resident(Zero1{}, unlike_units(), cluster, MemoryKind::parameters) == 12 * kMiB);
}

BOOST_DATA_TEST_CASE(full_shard_keeps_one_share_of_everything, data::make({1, 2, 4, 8}), ranks) {
  const Cluster cluster = star_cluster(ranks);
  BOOST_TEST(resident(Fsdp{}, unlike_units(), cluster, MemoryKind::optimizer_state) ==
             24 * kMiB / ranks);
  BOOST_TEST(resident(Fsdp{}, unlike_units(), cluster, MemoryKind::parameters) ==
             12 * kMiB / ranks);
  BOOST_TEST(resident(Fsdp{}, unlike_units(), cluster, MemoryKind::buckets) == 0);
}

BOOST_AUTO_TEST_CASE(hybrid_shard_keeps_a_share_of_its_group) {
  const Fsdp hybrid{.sharding = Fsdp::Sharding::hybrid_shard};
  BOOST_TEST(resident(hybrid, unlike_units(), star_cluster(4, 2), MemoryKind::parameters) ==
             6 * kMiB);
  BOOST_TEST(resident(hybrid, unlike_units(), star_cluster(4, 2), MemoryKind::optimizer_state) ==
             12 * kMiB);
}

BOOST_AUTO_TEST_CASE(offloaded_shards_are_not_on_the_gpu) {
  const Schedule schedule = schedule_of(Fsdp{.cpu_offload = true}, unlike_units(), star_cluster(4));
  BOOST_TEST(schedule.programs[0].resident.empty());
}

BOOST_AUTO_TEST_CASE(full_shard_holds_one_gathered_unit_and_prefetch_one_more) {
  // Shards 2 + 4 = 6. Forward: 6 + 3 + (4 + 3) = 16, leaves 12.
  //   pre         u2 and u1 gathered, gradients of u2: 12 + 4 + 4 + 4 = 24
  //   post, none  u2 gathered, its gradients: 12 + 4 + 4 = 20
  const Cluster cluster = star_cluster(4);
  const auto with = [](Fsdp::Prefetch prefetch) { return Fsdp{.backward_prefetch = prefetch}; };
  BOOST_TEST(peak(with(Fsdp::Prefetch::backward_pre), like_units(), cluster) ==
             "24 MiB at backward u2");
  BOOST_TEST(peak(with(Fsdp::Prefetch::backward_post), like_units(), cluster) ==
             "20 MiB at backward u2");
  BOOST_TEST(peak(with(Fsdp::Prefetch::none), like_units(), cluster) == "20 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(shard_grad_op_holds_every_unit_from_forward_to_backward) {
  // Shards 6, both units gathered 8, activations 6: 20, and the gradients of u2: 24.
  const Fsdp options{.sharding = Fsdp::Sharding::shard_grad_op};
  BOOST_TEST(peak(options, like_units(), star_cluster(4)) == "24 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(gathering_in_16_bits_halves_what_is_gathered) {
  // As above, 4 instead of 8 gathered (shards stay 6, activations 6), and 2 of gradients: 18.
  const Fsdp options{.sharding = Fsdp::Sharding::shard_grad_op,
                     .param_dtype = Precision::bf16_pure};
  BOOST_TEST(peak(options, like_units(), star_cluster(4)) == "18 MiB at backward u2");
}

BOOST_AUTO_TEST_CASE(a_worker_of_a_parameter_server_holds_no_optimizer_state) {
  // Parameters 12, activations 8; backward u2 takes 8 (28, leaves 23), backward u1 4 (27), and the
  // push gives them back.
  BOOST_TEST(peak(ParameterServer{}, unlike_units(), server_cluster(4)) == "28 MiB at backward u2");
  // Layer by layer u2's gradients are gone (in the order of issue) when u1's are made; the peak
  // stands before that.
  BOOST_TEST(peak(ParameterServer{.layerwise = true}, unlike_units(), server_cluster(4)) ==
             "28 MiB at backward u2");
}

}  // namespace
}  // namespace rehearse
