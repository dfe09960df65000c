// DeepSpeed's ZeRO-3: what its coordinator gathers, by hand; bytes, buckets and steps by closed
// forms. g: a unit's all_gather; r: the reduce_scatter of all gradients; f, b, o as everywhere.
#include <boost/test/unit_test.hpp>

#include <numeric>

#include "memory/replay.hpp"
#include "strategy/jobs.hpp"
#include "strategy/sync/stage3_fetches.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(stage3_test)
namespace {

constexpr int kRanks = 4;
constexpr std::size_t kUnits = 4;
constexpr std::int64_t kElements = 262144;  // of a unit, 1 MiB
constexpr double kForward = 2 * kMs, kBackward = 4 * kMs, kOptimizer = 8 * kMs;

Toy units() { return equal_units(kUnits, {kMiB, kForward, kBackward}, kOptimizer); }

Program program_of(const DeepspeedZero3& stage3) {
  return schedule_of(stage3, units(), star_cluster(kRanks)).programs.front();
}

double sum(const std::vector<double>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 0.0);
}

/// Uses as text: "+" fetches, the modules prefetched, "-" released.
std::string told(const std::vector<Stage3Use>& uses) {
  std::string text;
  for (const Stage3Use& use : uses) {
    text += use.fetches ? "+" : ".";
    for (const std::size_t module : use.prefetched) text += std::to_string(module);
    text += use.released ? "- " : " ";
  }
  return text;
}

const std::vector<std::int64_t> kTens(4, 10);
const std::vector<std::size_t> kUses = {0, 1, 2, 3, 3, 2, 1, 0};

BOOST_AUTO_TEST_CASE(prefetch_follows_the_order_of_use) {
  // The last module's second use is next, so that it is only kept where reuse says so.
  BOOST_TEST(
      told(stage3_uses(kTens, kUses, {.prefetch_bucket_size = 10, .max_reuse_distance = 0})) ==
      "+1- .2- .3- .2- +1- .0- .- .- ");
  BOOST_TEST(
      told(stage3_uses(kTens, kUses, {.prefetch_bucket_size = 10, .max_reuse_distance = 10})) ==
      "+1- .2- .3- .2 .1- .0- .- .- ");
  BOOST_TEST(
      told(stage3_uses(kTens, kUses, {.prefetch_bucket_size = 0, .max_reuse_distance = 0})) ==
      "+- +- +- +- +- +- +- +- ");
}

BOOST_AUTO_TEST_CASE(what_is_used_again_soon_stays) {
  BOOST_TEST(
      told(stage3_uses(kTens, kUses, {.prefetch_bucket_size = 0, .max_reuse_distance = 30})) ==
      "+- +- + + .- .- +- +- ");
}

BOOST_AUTO_TEST_CASE(nothing_is_prefetched_beyond_what_may_be_there) {
  BOOST_TEST(told(stage3_uses(kTens, kUses,
                              {.prefetch_bucket_size = 10,
                               .max_live_parameters = 10,
                               .max_reuse_distance = 0})) == "+- +- +- +- +- +- +- +- ");
}

BOOST_AUTO_TEST_CASE(parameters_above_the_threshold_are_gathered_twice) {
  const Program far = program_of({.prefetch_bucket_size = kElements, .max_reuse_distance = 0});
  BOOST_TEST(sum(sizes_of(far, CollectiveKind::all_gather)) == 2 * kUnits * kMiB);
  const Program soon = program_of({});
  BOOST_TEST(sum(sizes_of(soon, CollectiveKind::all_gather)) == kUnits * kMiB);
  const Program whole = program_of({.param_persistence_threshold = kElements});
  BOOST_TEST(sizes_of(whole, CollectiveKind::all_gather) == std::vector<double>{kUnits * kMiB},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(gradients_are_reduced_in_buckets) {
  BOOST_TEST(sizes_of(program_of({.reduce_bucket_size = 3 * kElements}),
                      CollectiveKind::reduce_scatter) == (std::vector<double>{3 * kMiB, kMiB}),
             boost::test_tools::per_element());
  BOOST_TEST(sizes_of(program_of({.reduce_bucket_size = 1}), CollectiveKind::reduce_scatter) ==
                 std::vector<double>(kUnits, kMiB),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(steps_are_closed_forms) {
  const double g = all_gather_time(kRanks, kMiB), r = all_gather_time(kRanks, kUnits * kMiB);
  const double computes = kUnits * (kForward + kBackward), o = kOptimizer / kRanks;
  DeepspeedZero3 none{.prefetch_bucket_size = 0, .max_reuse_distance = 0};
  BOOST_CHECK_CLOSE(step_of(none, units(), star_cluster(kRanks)), g + computes + r + o, kPercent);
  none.overlap_comm = false;
  BOOST_CHECK_CLOSE(step_of(none, units(), star_cluster(kRanks)), 2 * kUnits * g + computes + r + o,
                    kPercent);
}

/// A block of two products: each module computes for its share, once its own weights are there.
BOOST_AUTO_TEST_CASE(a_unit_computes_module_by_module) {
  Toy toy = equal_units(1, {kMiB, kForward, kBackward}, kOptimizer);
  Unit& unit = toy.model.units.front();
  unit.tensors = {kElements / 4, 3 * kElements / 4};
  for (const std::int64_t elements : unit.tensors)
    unit.operators.push_back({.kind = OperatorKind::matmul,
                              .forward_flops = static_cast<double>(elements),
                              .backward_flops = 2.0 * static_cast<double>(elements),
                              .parameter_elements = static_cast<double>(elements)});
  const Program program =
      schedule_of(DeepspeedZero3{.prefetch_bucket_size = 0, .param_persistence_threshold = 0}, toy,
                  star_cluster(kRanks))
          .programs.front();
  std::vector<double> forwards;
  for (const Op& op : program.ops)
    if (op.phase == Phase::forward) forwards.push_back(std::get<Compute>(op.work).duration.value());
  BOOST_REQUIRE_EQUAL(forwards.size(), 2u);
  BOOST_CHECK_CLOSE(forwards[0], kForward / 4, kPercent);
  BOOST_CHECK_CLOSE(forwards[1], 3 * kForward / 4, kPercent);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
