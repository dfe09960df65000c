// How runs end that differ by chance alone.
#include "convergence/run_ends.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(run_ends_test)
namespace {

const auto kTolerance = boost::test_tools::tolerance(1e-9);

BOOST_AUTO_TEST_CASE(few_runs_say_that_further_ones_lie_between_the_least_and_the_most) {
  const auto further = further_runs({0.9, 0.3, 0.8, 0.7, 0.6, 0.5, 0.4, 0.2});
  BOOST_TEST(further->share == 7 / 9.0, kTolerance);
  BOOST_TEST(further->ends.low == 0.2);
  BOOST_TEST(further->ends.high == 0.9);
  BOOST_TEST(!further_runs({0.5}));
}

BOOST_AUTO_TEST_CASE(nineteen_and_more_say_where_90_percent_lie) {
  // Of 29 runs the ends stand at 1.5 and 28.5 of 30.
  std::vector<double> ends;
  for (int i = 29; i >= 1; --i) ends.push_back(i);
  const auto further = further_runs(ends);
  BOOST_TEST(further->share == 0.9, kTolerance);
  BOOST_TEST(further->ends.low == 1.5, kTolerance);
  BOOST_TEST(further->ends.high == 28.5, kTolerance);
}

BOOST_AUTO_TEST_CASE(the_interval_holds_as_many_further_runs_as_it_says) {
  // Of 8 (7/9) and 39 (0.9) exponential draws, 20,000 times: the share has a standard error of
  // 0.003.
  std::mt19937_64 random(1);
  std::exponential_distribution<double> draw(1);
  for (const std::size_t runs : {8U, 39U}) {
    int inside = 0;
    double share = 0;
    constexpr int kTimes = 20'000;
    for (int i = 0; i < kTimes; ++i) {
      std::vector<double> ends(runs);
      for (double& end : ends) end = draw(random);
      const auto further = further_runs(ends);
      const double one_more = draw(random);
      if (further->ends.low <= one_more && one_more <= further->ends.high) ++inside;
      share = further->share;
    }
    BOOST_TEST(std::abs(inside / double{kTimes} - share) < 0.012, runs << " runs: " << inside);
  }
}

BOOST_AUTO_TEST_CASE(a_mean_of_single_runs_has_the_usual_standard_error) {
  const MeanEnd mean = mean_of_clusters({{1}, {2}, {3}, {6}});  // s^2 = 14/3
  BOOST_TEST(mean.runs == 4u);
  BOOST_TEST(mean.mean == 3, kTolerance);
  BOOST_TEST(*mean.error == std::sqrt(14 / 3.0 / 4), kTolerance);
}

BOOST_AUTO_TEST_CASE(copies_of_a_run_make_its_mean_no_surer) {
  const MeanEnd mean = mean_of_clusters({{1, 1, 1}, {2, 2, 2}, {}, {3, 3, 3}, {6, 6, 6}});
  BOOST_TEST(mean.runs == 12u);
  BOOST_TEST(*mean.error == std::sqrt(14 / 3.0 / 4), kTolerance);
  BOOST_TEST(!mean_of_clusters({{1, 2}}).error);
  BOOST_TEST(mean_of_clusters({{}}).runs == 0u);
}

BOOST_AUTO_TEST_CASE(fisher_s_test_is_that_of_his_tea) {
  // 3 of 4 against 1 of 4: of 70 ways 16 are as it is, 16 the other way round, 1 and 1 further out.
  BOOST_TEST(fisher_exact({3, 4}, {1, 4}) == 34 / 70.0, kTolerance);
  BOOST_TEST(fisher_exact({4, 4}, {0, 4}) == 2 / 70.0, kTolerance);
  BOOST_TEST(fisher_exact({2, 4}, {2, 4}) == 1, kTolerance);
  BOOST_TEST(fisher_exact({0, 16}, {0, 128}) == 1, kTolerance);
  // 8 of 10 against 1 of 6: likelier than no other table but 9 of 10 against 0 of 6.
  const double all = 11440;  // 16 choose 9
  BOOST_TEST(fisher_exact({8, 10}, {1, 6}) == (45 * 6 + 10 + 120) / all, kTolerance);
  BOOST_TEST(fisher_exact({1, 6}, {8, 10}) == fisher_exact({8, 10}, {1, 6}), kTolerance);
}

BOOST_AUTO_TEST_CASE(a_verdict_says_how_many_fail) {
  BOOST_TEST(verdict_of({0, 8}, "replays") == "converges");
  BOOST_TEST(verdict_of({8, 8}, "replays") == "diverges");
  BOOST_TEST(verdict_of({3, 8}, "replays") == "at the edge: 3 of 8 replays fail");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
