// The factor on compute times: slowdown times a draw of mean 1.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

#include "schedule/jitter.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(compute_factor_test)
namespace {

using Distribution = Jitter::Distribution;

Schedule two_ranks(Jitter jitter, std::uint64_t seed = 7) {
  Schedule schedule;
  schedule.jitter = jitter;
  schedule.seed = seed;
  schedule.ranks = {{.slowdown = 1, .groups = {}}, {.slowdown = 3, .groups = {}}};
  return schedule;
}

struct Moments {
  double mean = 0, cv = 0;
};

Moments moments(const Schedule& schedule, RankId rank, std::uint32_t draws) {
  double sum = 0, squares = 0;
  for (std::uint32_t k = 0; k < draws; ++k) {
    const double factor = compute_factor(schedule, rank, k);
    sum += factor;
    squares += factor * factor;
  }
  const double mean = sum / draws;
  return {mean, std::sqrt(squares / draws - mean * mean) / mean};
}

BOOST_AUTO_TEST_CASE(without_jitter_it_is_the_slowdown) {
  const Schedule schedule = two_ranks({});
  for (std::uint32_t k = 0; k < 5; ++k) {
    BOOST_CHECK_EQUAL(compute_factor(schedule, RankId(0), k), 1);
    BOOST_CHECK_EQUAL(compute_factor(schedule, RankId(1), k), 3);
  }
}

// 40,000 draws: the standard error of the mean is cv / 200; five of them.
BOOST_AUTO_TEST_CASE(a_lognormal_has_mean_1_and_its_cv) {
  for (const double cv : {0.05, 0.3, 0.8}) {
    const Moments drawn = moments(two_ranks({Distribution::lognormal, cv}), RankId(0), 40000);
    BOOST_CHECK_SMALL(drawn.mean - 1, 5 * cv / 200);
    BOOST_CHECK_CLOSE(drawn.cv, cv, 5);
  }
}

BOOST_AUTO_TEST_CASE(an_exponential_has_mean_1_and_its_cv) {
  for (const double cv : {0.1, 0.6, 1.0}) {
    const Moments drawn = moments(two_ranks({Distribution::exponential, cv}), RankId(0), 40000);
    BOOST_CHECK_SMALL(drawn.mean - 1, 5 * cv / 200);
    BOOST_CHECK_CLOSE(drawn.cv, cv, 5);
  }
}

// Memoryless beyond what every step takes: exp(-x) of the draws are above 1 - cv + cv x, here x =
// 1, 2, 3, and none is below 1 - cv; the error of a share p is sqrt(p(1-p)/40000).
BOOST_AUTO_TEST_CASE(an_exponential_s_tail_is_exp_of_minus_x) {
  for (const double cv : {0.3, 1.0}) {
    const Schedule schedule = two_ranks({Distribution::exponential, cv});
    std::vector<double> draws;
    for (std::uint32_t k = 0; k < 40000; ++k)
      draws.push_back((compute_factor(schedule, RankId(0), k) - (1 - cv)) / cv);
    BOOST_TEST(*std::ranges::min_element(draws) > -1e-12);
    for (const double x : {1.0, 2.0, 3.0}) {
      const auto above = std::ranges::count_if(draws, [&](double draw) { return draw > x; });
      const double share = std::exp(-x);
      BOOST_CHECK_SMALL(above / 40000.0 - share, 5 * std::sqrt(share * (1 - share) / 40000));
    }
  }
}

BOOST_AUTO_TEST_CASE(slowdown_multiplies_the_draw) {
  Schedule schedule = two_ranks({Distribution::lognormal, 0.2});
  const double drawn = compute_factor(schedule, RankId(1), 4) / 3;
  schedule.ranks[1].slowdown = 1;
  BOOST_CHECK_CLOSE(compute_factor(schedule, RankId(1), 4), drawn, 1e-10);
}

BOOST_AUTO_TEST_CASE(draws_are_reproducible_and_differ_by_rank_iteration_and_seed) {
  for (const auto distribution : {Distribution::lognormal, Distribution::exponential}) {
    const Schedule schedule = two_ranks({distribution, 0.2});
    const double draw = compute_factor(schedule, RankId(0), 1);
    compute_factor(schedule, RankId(1), 9);  // what others draw does not matter
    BOOST_CHECK_EQUAL(compute_factor(schedule, RankId(0), 1), draw);
    BOOST_CHECK_NE(compute_factor(schedule, RankId(0), 2), draw);
    BOOST_CHECK_NE(compute_factor(schedule, RankId(1), 1) / 3, draw);
    BOOST_CHECK_NE(compute_factor(two_ranks({distribution, 0.2}, 8), RankId(0), 1), draw);
  }
}

Schedule one_operation(Compute compute, double least_spread = 0) {
  Schedule schedule =
      two_ranks({.distribution = Distribution::measured, .least_spread = least_spread});
  schedule.programs = {{.name = "worker", .ops = {{.of = "forward", .work = compute}}}};
  return schedule;
}

BOOST_AUTO_TEST_CASE(a_measured_spread_is_that_of_the_draws) {
  for (const double least : {0.0, 0.4}) {
    const Schedule schedule = one_operation({.duration = Seconds(1), .spread = 0.2}, least);
    std::vector<double> draws;
    for (std::uint32_t k = 0; k < 40000; ++k)
      draws.push_back(operation_factor(schedule, RankId(1), OpId(0), k));
    std::ranges::sort(draws);
    const double median = draws[20000], range = draws[30000] - draws[10000];
    BOOST_CHECK_CLOSE(median, 1, 1);
    BOOST_CHECK_CLOSE(range / median, std::max(0.2, least), 2);
    BOOST_CHECK_EQUAL(compute_factor(schedule, RankId(1), 4), 3);
  }
}

BOOST_AUTO_TEST_CASE(a_measured_drift_is_one_factor_of_a_rank_in_a_step) {
  const Schedule schedule = two_ranks({.distribution = Distribution::measured, .drift = 0.1});
  std::vector<double> draws;
  for (std::uint32_t k = 0; k < 40000; ++k)
    draws.push_back(std::log(compute_factor(schedule, RankId(0), k)));
  double sum = 0, squares = 0;
  for (const double draw : draws) {
    sum += draw;
    squares += draw * draw;
  }
  BOOST_CHECK_SMALL(sum / 40000, 0.002);
  BOOST_CHECK_CLOSE(std::sqrt(squares / 40000), 0.1, 2);
  // The second rank is three times as slow, and draws by itself.
  BOOST_CHECK_NE(compute_factor(schedule, RankId(1), 7) / 3, std::exp(draws[7]));
}

BOOST_AUTO_TEST_CASE(computations_vary_as_their_jitter_says) {
  BOOST_CHECK_EQUAL(compute_variation(two_ranks({})), 0);
  BOOST_CHECK_EQUAL(compute_variation(two_ranks({Distribution::lognormal, 0.3})), 0.3);
  BOOST_CHECK_EQUAL(compute_variation(two_ranks({Distribution::exponential, 0.6})), 0.6);
  // Quartiles at exp(-q sigma) and exp(q sigma): a range of 0.2 is 2 sinh(q sigma).
  const double sigma = std::log(0.1 + std::sqrt(1.01)) / 0.6744897501960817;
  const double one = std::sqrt(std::exp(sigma * sigma) - 1);
  Schedule schedule = one_operation({.duration = Seconds(1), .spread = 0.2});
  BOOST_CHECK_CLOSE(compute_variation(schedule), one, 1e-9);
  std::vector<Op>& ops = schedule.programs.front().ops;
  schedule.jitter.drift = 0.05;  // E[(XY)^2] = E[X^2] E[Y^2]
  BOOST_CHECK_CLOSE(compute_variation(schedule), std::sqrt(std::exp(0.0025) * (1 + one * one) - 1),
                    1e-9);
  schedule.jitter.drift = 0;
  ops.push_back(ops.front());  // independent: variances add up
  BOOST_CHECK_CLOSE(compute_variation(schedule), one / std::sqrt(2), 1e-9);
  const double mean = std::exp(sigma * sigma / 2);
  ops.back().work = Compute{.duration = Seconds(3 * mean), .jittered = false};
  BOOST_CHECK_CLOSE(compute_variation(schedule), one / 4, 1e-9);
}

BOOST_AUTO_TEST_CASE(steps_are_alike_up_to_one_percent) {
  BOOST_CHECK(steps_alike({}));
  BOOST_CHECK(steps_alike({Distribution::lognormal, 0.01}));
  BOOST_CHECK(!steps_alike({Distribution::lognormal, 0.02}));
  BOOST_CHECK(!steps_alike({.distribution = Distribution::measured}));
}

BOOST_AUTO_TEST_CASE(operations_draw_only_what_was_measured_of_them) {
  const auto draw = [](const Schedule& schedule) {
    return operation_factor(schedule, RankId(0), OpId(0), 3);
  };
  BOOST_CHECK_EQUAL(draw(one_operation({.duration = Seconds(1)})), 1);
  BOOST_CHECK_EQUAL(draw(one_operation({.duration = Seconds(1), .jittered = false}, 0.4)), 1);
  Schedule schedule = one_operation({.duration = Seconds(1), .spread = 0.2});
  BOOST_CHECK_NE(draw(schedule), 1);
  BOOST_CHECK_EQUAL(draw(schedule), draw(schedule));
  schedule.jitter = {Distribution::lognormal, 0.3};
  BOOST_CHECK_EQUAL(draw(schedule), 1);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
