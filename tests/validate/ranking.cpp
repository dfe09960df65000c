#include "validation/ranking.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "fixtures.hpp"

using namespace fixtures;

BOOST_AUTO_TEST_SUITE(ranking_test)
namespace {

const auto kTolerance = boost::test_tools::tolerance(1e-12);

void add_rival(ComparedFile& file, const std::string& name, const std::string& metric,
               double predicted, double measured) {
  ComparedMetric one = number(metric, predicted / measured - 1);
  one.predicted = predicted;
  one.measured = measured;
  add(file, name, "ddp", {one});
  file.file.cases.back().rivals = "four";
}

BOOST_AUTO_TEST_CASE(equal_orders_have_tau_one_and_opposite_ones_minus_one) {
  BOOST_TEST(kendall_tau_b({1, 2, 3}, {10, 20, 25}) == 1.0, kTolerance);
  BOOST_TEST(kendall_tau_b({1, 2, 3}, {3, 2, 1}) == -1.0, kTolerance);
  BOOST_TEST(kendall_tau_b({1, 1}, {1, 2}) == 0.0);
}

BOOST_AUTO_TEST_CASE(ties_leave_the_root_of_both_sides_pairs) {
  // Pairs: five concordant, one tied on the left alone.
  BOOST_TEST(kendall_tau_b({1, 2, 2, 3}, {1, 2, 3, 4}) == 5 / std::sqrt(5.0 * 6.0), kTolerance);
}

BOOST_AUTO_TEST_CASE(regret_is_what_the_predicted_best_costs_over_the_best) {
  ComparedFile file;
  add_rival(file, "a", "step_time_s", 1.0, 2.2);
  add_rival(file, "b", "step_time_s", 1.5, 2.0);
  add_rival(file, "c", "step_time_s", 2.0, 3.0);
  const auto found = summarize_rankings({file});
  BOOST_REQUIRE(found.size() == 1u);
  BOOST_TEST(found[0].cases == 3u);
  BOOST_TEST(found[0].regret == 0.1, kTolerance);
  BOOST_TEST(found[0].first == "a");
  BOOST_TEST(found[0].best == "b");
  BOOST_TEST(found[0].tau == 1.0 / 3, kTolerance);
}

BOOST_AUTO_TEST_CASE(pairs_that_are_clearly_apart_are_in_order_or_not) {
  ComparedFile file;
  add_rival(file, "a", "step_time_s", 1.0, 1.0);
  add_rival(file, "b", "step_time_s", 0.9, 1.04);  // not apart from a
  add_rival(file, "c", "step_time_s", 0.95, 1.5);  // behind b, and not behind a
  const auto found = summarize_rankings({file});
  BOOST_REQUIRE(found.size() == 1u);
  BOOST_TEST(found[0].pairs == 2u);
  BOOST_TEST(found[0].right_pairs == 1u);
}

BOOST_AUTO_TEST_CASE(of_rates_more_is_better_and_regret_is_in_time) {
  ComparedFile file;
  add_rival(file, "a", "samples_per_s", 30, 20);
  add_rival(file, "b", "samples_per_s", 20, 25);
  const auto found = summarize_rankings({file});
  BOOST_REQUIRE(found.size() == 1u);
  BOOST_TEST(found[0].first == "a");
  BOOST_TEST(found[0].regret == 0.25, kTolerance);
}

BOOST_AUTO_TEST_CASE(one_alone_and_inputs_have_no_order) {
  ComparedFile file;
  add_rival(file, "a", "step_time_s", 1, 1);
  add_rival(file, "b", "step_time_s", 2, 2);
  file.file.cases.back().held_out = false;
  BOOST_TEST(summarize_rankings({file}).empty());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
