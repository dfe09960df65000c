#include "rollout/lengths.hpp"

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <stdexcept>

namespace rehearse {
namespace {

BOOST_AUTO_TEST_SUITE(drawn_lengths)

double mean(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

BOOST_AUTO_TEST_CASE(the_mean_is_that_of_what_is_cut) {
  for (const Lengths& lengths : {Lengths{1000, 0, 0}, Lengths{1000, 700, 0},
                                 Lengths{1000, 700, 2048}, Lengths{3000, 2000, 4096}}) {
    const std::vector<double> all = draw(lengths, 20'000, 7, "test", 0);
    BOOST_TEST(mean(all) == lengths.mean, boost::test_tools::tolerance(2e-3));
    for (const double one : all) BOOST_TEST_REQUIRE((lengths.limit == 0 || one <= lengths.limit));
  }
}

BOOST_AUTO_TEST_CASE(a_seed_and_a_step_say_all) {
  const Lengths lengths{500, 400, 4096};
  BOOST_TEST(draw(lengths, 64, 1, "a", 0) == draw(lengths, 64, 1, "a", 0));
  BOOST_TEST(draw(lengths, 64, 1, "a", 0) != draw(lengths, 64, 1, "a", 1));
  BOOST_TEST(draw(lengths, 64, 1, "a", 0) != draw(lengths, 64, 2, "a", 0));
  BOOST_TEST(draw(lengths, 64, 1, "a", 0) != draw(lengths, 64, 1, "b", 0));
}

BOOST_AUTO_TEST_CASE(a_mean_above_its_limit_is_refused) {
  BOOST_CHECK_THROW(log_mean({5000, 100, 4096}), std::invalid_argument);
  BOOST_CHECK_THROW(log_mean({4096, 100, 4096}), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace rehearse
