// Which of several runs stands for them.
#include "predict/replications.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <utility>

#include "base/random.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(replications_test)
namespace {

std::uint64_t median_of(const std::vector<double>& times) {
  std::vector<Seconds> seconds;
  for (const double time : times) seconds.emplace_back(time);
  return median_seed(7, seconds);
}

BOOST_AUTO_TEST_CASE(one_run_stands_for_itself) { BOOST_TEST(median_of({3}) == 7u); }

BOOST_AUTO_TEST_CASE(the_middle_one_of_an_odd_number) {
  BOOST_TEST(median_of({5, 1, 3}) == 9u);
  BOOST_TEST(median_of({4, 5, 1, 2, 3}) == 11u);
}

BOOST_AUTO_TEST_CASE(the_lower_middle_one_of_an_even_number) {
  BOOST_TEST(median_of({4, 1, 2, 3}) == 9u);
}

BOOST_AUTO_TEST_CASE(the_first_of_equal_ones) { BOOST_TEST(median_of({2, 1, 2, 2, 9}) == 7u); }

double error_of(const std::vector<double>& times) {
  std::vector<Seconds> seconds;
  for (const double time : times) seconds.emplace_back(time);
  return median_error(seconds);
}

BOOST_AUTO_TEST_CASE(four_runs_do_not_bound_their_median) {
  BOOST_TEST(std::isinf(error_of({1, 2, 3, 4})));  // 2 (1/2)^4 = 0.125 are outside
}

BOOST_AUTO_TEST_CASE(five_runs_bound_it_by_their_range) {
  BOOST_CHECK_CLOSE(error_of({4, 2, 10, 6, 8}), (10. - 2) / 6 / 2, 1e-9);
  BOOST_CHECK_CLOSE(error_of({10, 10, 10, 10, 10}) + 1, 1, 1e-9);
}

// The ranks that tables of the sign test have for 90 % (8: 2nd, 11: 3rd, 20: 6th, 50: 19th).
BOOST_AUTO_TEST_CASE(more_runs_bound_it_by_inner_ones) {
  for (const auto& [runs, rank] :
       {std::pair(7, 1), {8, 2}, {11, 3}, {20, 6}, {50, 19}, {999, 474}}) {
    std::vector<double> times;
    for (int i = 1; i <= runs; ++i) times.push_back(1000 + i);
    const double width = runs + 1 - 2 * rank;
    BOOST_CHECK_CLOSE(error_of(times), width / (1000 + (runs + 1) / 2) / 2, 1e-9);
  }
}

// A claim about medians: of samples of two heaps the interval holds the true one in 90 % and more.
BOOST_AUTO_TEST_CASE(it_holds_the_median_of_runs_of_two_kinds) {
  RandomStream draw = random_stream(3, "kinds", 0);
  int held = 0;
  constexpr int kSamples = 2000;
  for (int sample = 0; sample < kSamples; ++sample) {
    std::vector<Seconds> times;
    for (int i = 0; i < 23; ++i) {
      const double where = uniform01(draw);
      times.emplace_back(where < 0.5 ? 1 + 0.2 * where : 1.3 + 0.2 * where);
    }
    std::ranges::sort(times);
    // Of the 8th and the 16th; the true median is where the heaps part.
    const bool holds = times[7].value() <= 1.1 && times[15].value() >= 1.4;
    held += holds ? 1 : 0;
    BOOST_TEST(median_error(times) == (times[15] - times[7]) / times[11] / 2);
  }
  // 1 - 2 P(less than 8 of 23 heads)
  BOOST_CHECK_SMALL(held / static_cast<double>(kSamples) - 0.9069, 0.02);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
