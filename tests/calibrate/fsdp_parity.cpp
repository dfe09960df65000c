#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "train/fsdp.hpp"
#include "training_case.hpp"

namespace rehearse {
using Prefetch = FsdpOptions::Prefetch;
inline std::ostream& operator<<(std::ostream& out, Prefetch prefetch) {
  return out << static_cast<int>(prefetch);
}

BOOST_AUTO_TEST_SUITE(fsdp_parity_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kParity = 1e-9;
constexpr double kElement = 8;  // bytes of a float64
/// Gloo's own message headers and the barriers around the steps.
constexpr double kHeaders = 8192;

TrainingCase fsdp(const FsdpOptions& options = {}) {
  return {.make = [options](TrainerParts parts) { return make_fsdp(std::move(parts), options); }};
}

/// All units, each padded to a multiple of the ranks.
double padded_bytes(const TrainingOutcome& outcome, int ranks) {
  double elements = 0;
  for (const std::int64_t unit : outcome.unit_elements) {
    elements += static_cast<double>((unit + ranks - 1) / ranks * ranks);
  }
  return elements * kElement;
}

std::ptrdiff_t count(const StepRecord& record, CollectiveKind kind) {
  return std::count_if(record.collectives.begin(), record.collectives.end(),
                       [kind](const CollectiveTimes& one) { return one.kind == kind; });
}

}  // namespace

BOOST_DATA_TEST_CASE(fsdp_trains_as_one_process_on_the_whole_batch,
                     data::make({2, 3}) * data::make({false, true}), ranks, adam) {
  auto one = fsdp();
  one.ranks = ranks;
  one.adam = adam;
  const auto outcome = train(one);
  BOOST_TEST(outcome.parameters_off < kParity);
  BOOST_TEST(outcome.gradients_off < kParity);
  BOOST_TEST(outcome.gradients_unequal == 0);
}

BOOST_DATA_TEST_CASE(no_option_changes_what_is_computed,
                     data::make({Prefetch::none, Prefetch::backward_pre, Prefetch::backward_post}) *
                         data::make({false, true}) * data::make({false, true}),
                     prefetch, reshard, other) {
  auto one = fsdp({.reshard_after_forward = reshard,
                   .backward_prefetch = prefetch,
                   .forward_prefetch = other,
                   .limit_reduce_scatters = other});
  one.adam = true;
  one.micro_batches = 2;
  const auto outcome = train(one);
  BOOST_TEST(outcome.parameters_off < kParity);
  BOOST_TEST(outcome.gradients_unequal == 0);
}

BOOST_DATA_TEST_CASE(a_tied_weight_is_gathered_and_reduced_once, data::make({2, 3}), ranks) {
  auto one = fsdp();
  one.ranks = ranks;
  one.transformer = true;
  const auto outcome = train(one);
  BOOST_TEST(outcome.parameters_off < kParity);
  BOOST_TEST(outcome.gradients_unequal == 0);
  // Two blocks, gathered twice, and embeddings with head, gathered once.
  BOOST_TEST(count(outcome.last, CollectiveKind::all_gather) == 5);
  BOOST_TEST(count(outcome.last, CollectiveKind::reduce_scatter) == 3);
}

BOOST_AUTO_TEST_CASE(without_the_reduction_there_is_no_parity) {
  auto one = fsdp();
  one.alone = true;
  const auto outcome = train(one);
  BOOST_TEST(outcome.parameters_off > 1e-4);
  BOOST_TEST(outcome.gradients_unequal > 1e-4);
  BOOST_TEST(outcome.received_per_step < kHeaders);
}

BOOST_DATA_TEST_CASE(fsdp_sends_what_it_gathers_and_reduces,
                     data::make({2, 3}) * data::make({false, true}), ranks, reshard) {
  auto one = fsdp({.reshard_after_forward = reshard});
  one.ranks = ranks;
  const auto outcome = train(one);
  // (n-1)/n of the padded units: gathered in forward, again in backward once resharded, and
  // reduced.
  const double passes = reshard ? 3 : 2;
  const double expected = passes * (ranks - 1) / ranks * padded_bytes(outcome, ranks);
  const double received = outcome.received_per_step;
  BOOST_TEST(received >= expected);
  BOOST_TEST(received <= expected + kHeaders);
  const auto units = static_cast<std::ptrdiff_t>(outcome.unit_elements.size());
  BOOST_TEST(count(outcome.last, CollectiveKind::all_gather) == (reshard ? 2 : 1) * units);
  BOOST_TEST(count(outcome.last, CollectiveKind::reduce_scatter) == units);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
