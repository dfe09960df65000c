// Which of several runs stands for them.
#include "cli/replications.hpp"

#include <boost/test/unit_test.hpp>

namespace rehearse {
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

}  // namespace
}  // namespace rehearse
