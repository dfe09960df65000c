#include "rollout/lag.hpp"

#include <boost/test/unit_test.hpp>
#include <numeric>

#include "rollout/serving.hpp"

namespace rehearse {
namespace {

BOOST_AUTO_TEST_SUITE(lag)

LagRun by_batches(std::int64_t limit, double generation, double training, double refit) {
  return lag_by_batches(
      limit, 40, [=](std::int64_t) { return Seconds(generation); }, Seconds(training),
      Seconds(refit));
}

BOOST_AUTO_TEST_CASE(in_turn_all_parts_add_up) {
  const LagRun run = by_batches(0, 10, 4, 1);
  BOOST_TEST(run.step.value() == 15, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(run.mean_age == 0);
  BOOST_TEST(run.trainer_waits.value() == 10, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(one_update_late_the_longer_part_decides) {
  // Where generation is longer, each batch waits for its own refit.
  BOOST_TEST(by_batches(1, 10, 4, 1).step.value() == 11, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(by_batches(1, 10, 4, 600).step.value() == 610, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(by_batches(1, 3, 8, 1).step.value() == 8, boost::test_tools::tolerance(1e-9));
  // Where training is longer, batch k begins with the weights of update k - 1.
  BOOST_TEST(by_batches(1, 3, 8, 1).mean_age == 1, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(by_batches(2, 3, 8, 1).mean_age == 2, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(by_batches(3, 10, 4, 1).most_age <= 3);
}

BOOST_AUTO_TEST_CASE(sequences_that_go_on_hide_the_tail_within_the_limit) {
  const DecodeModel model = served_llama();
  const auto requests = [](std::int64_t step) {
    std::vector<Request> all;
    for (std::size_t i = 0; i < 64; ++i)
      all.push_back({.prompt = 100,
                     .response = i % 16 == 0 ? 2000.0 : 200.0,
                     .group = static_cast<std::size_t>(step) * 64 + i});
    return all;
  };
  const Seconds training(2), refit(0.2);
  const LagRun whole = lag_by_batches(
      1, 12, [&](std::int64_t k) { return generate(model, requests(k), 1, 1e6, 64).time; },
      training, refit);
  for (const std::int64_t limit : {1, 2, 4}) {
    const LagRun run = lag_in_flight(model, 1, 1e6, 64, limit, 20, requests, training, refit);
    BOOST_TEST(run.step.value() < whole.step.value());
    BOOST_TEST(run.step.value() >= training.value() - 1e-9);
    BOOST_TEST(run.most_age <= static_cast<double>(limit));
    BOOST_TEST(std::accumulate(run.ages.begin(), run.ages.end(), 0.0) == 1,
               boost::test_tools::tolerance(1e-9));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace rehearse
