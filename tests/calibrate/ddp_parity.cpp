#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "train/ddp.hpp"
#include "training_case.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(ddp_parity_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kParity = 1e-9;
constexpr double kElement = 8;  // bytes of a float64
/// Gloo's own message headers, and what the store says.
constexpr double kHeaders = 2048;

TrainingCase ddp(const DdpOptions& options = {}) {
  return {.make = [options](TrainerParts parts) { return make_ddp(std::move(parts), options); }};
}

double elements(const TrainingOutcome& outcome) {
  const auto& tensors = outcome.tensor_elements;
  return static_cast<double>(std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0}));
}

}  // namespace

BOOST_DATA_TEST_CASE(ddp_trains_as_one_process_on_the_whole_batch,
                     data::make({2, 3}) * data::make({false, true}) * data::make({false, true}),
                     ranks, adam, view) {
  auto one = ddp({.gradient_as_bucket_view = view});
  one.ranks = ranks;
  one.adam = adam;
  const auto outcome = train(one);
  BOOST_TEST(outcome.parameters_off < kParity);
  BOOST_TEST(outcome.gradients_off < kParity);
  BOOST_TEST(outcome.gradients_unequal == 0);
}

BOOST_AUTO_TEST_CASE(ddp_trains_a_transformer_with_a_tied_weight) {
  auto one = ddp();
  one.transformer = true;
  const auto outcome = train(one);
  BOOST_TEST(outcome.parameters_off < kParity);
  BOOST_TEST(outcome.gradients_unequal == 0);
}

BOOST_DATA_TEST_CASE(accumulated_micro_batches_reduce_once, data::make({false, true}), view) {
  auto one = ddp({.gradient_as_bucket_view = view});
  one.micro_batches = 3;
  const auto outcome = train(one);
  BOOST_TEST(outcome.parameters_off < kParity);
  BOOST_TEST(outcome.gradients_unequal == 0);
  BOOST_TEST(outcome.last.collectives.size() == 1);
}

BOOST_AUTO_TEST_CASE(without_the_reduction_there_is_no_parity) {
  auto one = ddp();
  one.alone = true;
  const auto outcome = train(one);
  BOOST_TEST(outcome.parameters_off > 1e-4);
  BOOST_TEST(outcome.gradients_unequal > 1e-4);
  BOOST_TEST(outcome.received_per_step < kHeaders);
}

BOOST_DATA_TEST_CASE(ddp_sends_2_n_minus_1_over_n_of_the_gradients, data::make({2, 3}), ranks) {
  auto one = ddp();
  one.ranks = ranks;
  const auto outcome = train(one);
  const double expected = 2.0 * (ranks - 1) / ranks * elements(outcome) * kElement;
  const double received = outcome.received_per_step;
  BOOST_TEST(received >= expected - kElement * ranks);
  BOOST_TEST(received <= expected + kHeaders);
}

BOOST_AUTO_TEST_CASE(small_caps_make_many_buckets_that_hold_every_gradient_once) {
  // fc1 alone is above the cap, and a bucket is closed once it is.
  auto one = ddp({.bucket_cap_mb = 0.01, .first_bucket_mb = 0.001});
  const auto outcome = train(one);
  const auto& buckets = outcome.last.collectives;
  BOOST_TEST(buckets.size() > 2);
  double bytes = 0;
  for (const CollectiveTimes& bucket : buckets) {
    BOOST_TEST((bucket.kind == CollectiveKind::all_reduce));
    bytes += bucket.size.value();
  }
  BOOST_TEST(bytes == elements(outcome) * kElement);
  BOOST_TEST(outcome.parameters_off < kParity);
}

BOOST_AUTO_TEST_CASE(times_of_a_step_lie_in_the_order_of_their_causes) {
  auto one = ddp({.bucket_cap_mb = 0.01, .first_bucket_mb = 0.001});
  const auto last = train(one).last;
  BOOST_TEST(last.forward.value() > 0);
  BOOST_TEST(last.optimizer.value() > 0);
  BOOST_TEST((last.forward + last.backward + last.optimizer).value() <= last.whole.value());
  BOOST_TEST(last.waited.value() <= last.backward.value());
  BOOST_TEST(last.memory.allocated_peak.value() > 0);
  Seconds before = last.forward;
  for (const CollectiveTimes& bucket : last.collectives) {
    BOOST_TEST(bucket.launched.value() >= before.value());
    BOOST_TEST(bucket.done.value() > bucket.launched.value());
    BOOST_TEST(bucket.done.value() < last.whole.value());
    before = bucket.launched;
  }
}

BOOST_AUTO_TEST_CASE(every_gradient_is_ready_within_backward_the_last_layers_first) {
  const auto outcome = train(ddp());
  const auto& ready = outcome.last.gradient_ready;
  BOOST_REQUIRE(ready.size() == outcome.tensor_elements.size());
  for (const Seconds time : ready) {
    BOOST_TEST(time.value() > 0);
    BOOST_TEST(time.value() < outcome.last.backward.value());
  }
  BOOST_TEST(ready.back().value() < ready.front().value());
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
