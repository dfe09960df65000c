// Folded fleets: ranks that differ, by their speed and from step to step, of which two nodes stand
// for all.
#include <boost/math/distributions/gamma.hpp>
#include <boost/math/distributions/lognormal.hpp>
#include <boost/math/quadrature/trapezoidal.hpp>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>

#include "schedule/jitter.hpp"
#include "schedule/rounds.hpp"
#include "strategy/every_strategy.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(folded_fleet_test)
namespace {

namespace data = boost::unit_test::data;
using Distribution = Jitter::Distribution;

const Jitter kLognormal{.distribution = Distribution::lognormal, .cv = 0.1};
const Jitter kExponential{.distribution = Distribution::exponential, .cv = 0.5};

Toy network() { return equal_units(6, {2 * kMiB, 5 * kMs, 10 * kMs}, 2 * kMs); }

const std::vector<NamedStrategy>& strategies() {
  static const std::vector<NamedStrategy> all = {
      {"ddp", TorchDdp{.bucket_cap_mb = 4}},
      {"zero 1", zero_1(TorchDdp{.bucket_cap_mb = 4})},
      {"fsdp", TorchFsdp1{}},
      {"fsdp hybrid", TorchFsdp1{.sharding = TorchFsdp1::Sharding::hybrid_shard}},
      {"local sgd", LocalSgd{.period = 4, .algorithm = CollectiveAlgorithm::ring}}};
  return all;
}

/// Every third rank has a speed of its own.
Schedule fleet(const Strategy& strategy, const Cluster& cluster, const Jitter& jitter,
               std::uint64_t seed, std::uint32_t iterations = 4) {
  Schedule schedule = schedule_of(strategy, network(), cluster, iterations);
  schedule.jitter = jitter;
  schedule.seed = seed;
  for (std::size_t r = 0; r < schedule.ranks.size(); r += 3)
    schedule.ranks[r].slowdown = 1 + 0.01 * static_cast<double>(r % 7);
  return schedule;
}

double end_of(const Schedule& schedule, const Cluster& cluster) {
  return play(schedule, cluster).end.value();
}

double folded_end(const Schedule& schedule, const Cluster& cluster) {
  std::string why_not;
  const auto folded = fold(schedule, cluster, why_not);
  BOOST_REQUIRE_MESSAGE(folded, why_not);
  BOOST_REQUIRE_LE(folded->cluster.node_count(), 2U);
  return end_of(folded->schedule, folded->cluster);
}

// ---- For a seed ----

BOOST_AUTO_TEST_CASE(without_jitter_the_slowest_nodes_stand_for_all) {
  const Cluster cluster = star_cluster(7, 2);
  for (const auto& [name, strategy] : strategies()) {
    const Schedule schedule = fleet(strategy, cluster, {}, 1);
    BOOST_TEST_CONTEXT(name)
    BOOST_CHECK_CLOSE(folded_end(schedule, cluster), end_of(schedule, cluster), kPercent);
  }
}

// What is computed between the last wait and the end of an iteration is all that differs: the
// optimizer's 2 of 92 ms, and its jitter alone.
BOOST_DATA_TEST_CASE(a_folded_run_takes_what_the_whole_one_does,
                     data::make({2, 5, 8}) * data::make({1, 4}), nodes, gpus) {
  const Cluster cluster = star_cluster(nodes, gpus);
  for (const auto& [name, strategy] : strategies()) {
    const double percent = strategy.local_sgd ? kPercent : 0.15;
    for (const Jitter& jitter : {kLognormal, kExponential}) {
      const Schedule schedule = fleet(strategy, cluster, jitter, 7);
      BOOST_TEST_CONTEXT(name << ", " << nodes << " nodes")
      BOOST_CHECK_CLOSE(folded_end(schedule, cluster), end_of(schedule, cluster), percent);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_seed_says_all) {
  const Cluster cluster = star_cluster(6, 2);
  const auto end = [&](std::uint64_t seed) {
    return folded_end(fleet(TorchDdp{}, cluster, kLognormal, seed), cluster);
  };
  BOOST_CHECK_EQUAL(end(3), end(3));
  BOOST_CHECK_NE(end(3), end(4));
}

BOOST_AUTO_TEST_CASE(no_spread_of_jitter_is_no_jitter) {
  const Cluster cluster = star_cluster(6, 2);
  for (const auto& [name, strategy] : strategies()) {
    const Schedule still = fleet(strategy, cluster, {Distribution::lognormal, 0}, 1);
    BOOST_TEST_CONTEXT(name)
    BOOST_CHECK_CLOSE(folded_end(still, cluster),
                      folded_end(fleet(strategy, cluster, {}, 1), cluster), kPercent);
  }
}

// ---- In distribution ----

/// The largest distance between two empirical distributions (Kolmogorov, Smirnov).
double distance(std::vector<double> one, std::vector<double> other) {
  std::ranges::sort(one);
  std::ranges::sort(other);
  double most = 0;
  for (const double value : one) {
    const auto share = [value](const std::vector<double>& values) {
      const auto above = std::ranges::upper_bound(values, value);
      return static_cast<double>(above - values.begin()) / static_cast<double>(values.size());
    };
    most = std::max(most, std::abs(share(one) - share(other)));
  }
  return most;
}

// Of other seeds: two samples of n from one distribution are further apart than 1.95 sqrt(2/n) once
// in a thousand times.
BOOST_AUTO_TEST_CASE(folded_and_whole_runs_are_equal_in_distribution) {
  constexpr std::size_t kSeeds = 120;
  const Cluster cluster = star_cluster(6, 2);
  for (const auto& [name, strategy] : strategies()) {
    std::vector<double> whole, folded;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      whole.push_back(end_of(fleet(strategy, cluster, kLognormal, seed, 2), cluster));
      folded.push_back(folded_end(fleet(strategy, cluster, kLognormal, 1000 + seed, 2), cluster));
    }
    const double critical = 1.95 * std::sqrt(2.0 / kSeeds);
    BOOST_TEST_CONTEXT(name) BOOST_CHECK_LT(distance(whole, folded), critical);
  }
}

// Two nodes that stand for themselves alone would be told apart.
BOOST_AUTO_TEST_CASE(fewer_ranks_are_not_equal_in_distribution) {
  constexpr std::size_t kSeeds = 120;
  const Cluster cluster = star_cluster(12, 2);
  std::vector<double> whole, kept;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    whole.push_back(end_of(fleet(TorchDdp{}, cluster, kLognormal, seed, 2), cluster));
    std::string why_not;
    auto folded = fold(fleet(TorchDdp{}, cluster, kLognormal, 1000 + seed, 2), cluster, why_not);
    BOOST_REQUIRE(folded);
    folded->schedule.crowd.reset();
    kept.push_back(end_of(folded->schedule, folded->cluster));
  }
  BOOST_CHECK_GT(distance(whole, kept), 1.95 * std::sqrt(2.0 / kSeeds));
}

// ---- Closed forms: the largest of N draws has the distribution F(x)^N ----

/// Of a round's computation over its mean, by 1,000 rounds of local SGD; and its standard error.
struct Mean {
  double value = 0, error = 0;
};
Mean mean_round(int nodes, const Jitter& jitter, int period) {
  constexpr std::uint32_t kRounds = 1000;
  const Cluster cluster = star_cluster(nodes);
  Schedule schedule =
      schedule_of(LocalSgd{.period = period, .algorithm = CollectiveAlgorithm::ring},
                  toy({{kMiB, 30 * kMs, 60 * kMs}}, 10 * kMs), cluster, kRounds);
  schedule.jitter = jitter;
  std::string why_not;
  const auto folded = fold(schedule, cluster, why_not);
  BOOST_REQUIRE_MESSAGE(folded, why_not);
  const Trace trace = play(folded->schedule, folded->cluster);
  double sum = 0, squares = 0, before = 0;
  for (std::uint32_t k = 0; k < kRounds; ++k) {
    const double end = trace.iteration_end[0][k].value();
    const double factor = (end - before - all_reduce_time(nodes, kMiB)) / (period * 100 * kMs);
    sum += factor;
    squares += factor * factor;
    before = end;
  }
  const double mean = sum / kRounds;
  return {mean, std::sqrt((squares / kRounds - mean * mean) / kRounds)};
}

/// Integral of 1 - F(x)^n.
double expected_largest(const std::function<double(double)>& below, int n, double most) {
  return boost::math::quadrature::trapezoidal([&](double x) { return 1 - std::pow(below(x), n); },
                                              0.0, most, 1e-8);
}

// H_N = 1 + 1/2 + ... + 1/N.
BOOST_DATA_TEST_CASE(the_slowest_of_n_exponential_draws, data::make({2, 7, 64, 500}), nodes) {
  double harmonic = 0;
  for (int i = 1; i <= nodes; ++i) harmonic += 1.0 / i;
  const Mean mean = mean_round(nodes, {Distribution::exponential, 1}, 1);
  BOOST_CHECK_SMALL(mean.value - harmonic, 4 * mean.error);
  BOOST_CHECK_LT(mean.error, 0.03 * harmonic);
}

BOOST_DATA_TEST_CASE(the_slowest_of_n_lognormal_draws,
                     data::make({8, 500}) * data::make({0.002, 0.05, 0.3}), nodes, cv) {
  const double variance = std::log1p(cv * cv);
  const boost::math::lognormal draw(-variance / 2, std::sqrt(variance));
  const double expected =
      expected_largest([&](double x) { return cdf(draw, x); }, nodes, 1 + 20 * cv);
  const Mean mean = mean_round(nodes, {Distribution::lognormal, cv}, 1);
  BOOST_CHECK_SMALL(mean.value - expected, 4 * mean.error);
  BOOST_CHECK_LT(mean.error, 0.04 * cv);
}

// A period of local SGD ends with the largest of N sums, which spread less than their draws: not
// with the sum of the largest.
BOOST_DATA_TEST_CASE(the_slowest_of_n_periods, data::make({8, 500}), nodes) {
  constexpr int kPeriod = 8;
  const boost::math::gamma_distribution<double> sum(kPeriod, 1.0 / kPeriod);
  const double expected = expected_largest([&](double x) { return cdf(sum, x); }, nodes, 10);
  const Mean mean = mean_round(nodes, {Distribution::exponential, 1}, kPeriod);
  BOOST_CHECK_SMALL(mean.value - expected, 4 * mean.error);
  BOOST_CHECK_LT(mean.error, 0.02 * expected);
}

// ---- Rounds ----

Rounds rounds_of(const Strategy& strategy, const Cluster& cluster) {
  return rounds_of(schedule_of(strategy, network(), cluster), RankId(0));
}

void check_share(const Round::Share& share, std::uint32_t ago, std::uint32_t step, double time) {
  BOOST_CHECK_EQUAL(share.iterations_ago, ago);
  BOOST_CHECK_EQUAL(share.step, step);
  BOOST_CHECK_CLOSE(share.duration.value(), time, kPercent);
}

constexpr double kPasses = 6 * 15 * kMs, kUpdate = 2 * kMs;

BOOST_AUTO_TEST_CASE(a_period_of_local_sgd_is_a_round) {
  const Rounds found = rounds_of(LocalSgd{.period = 3}, star_cluster(4, 2));
  BOOST_REQUIRE_EQUAL(found.rounds.size(), 1U);
  BOOST_REQUIRE_EQUAL(found.rounds[0].parts.size(), 1U);
  BOOST_REQUIRE_EQUAL(found.rounds[0].parts[0].size(), 3U);
  for (std::uint32_t step = 0; step < 3; ++step)
    check_share(found.rounds[0].parts[0][step], 1, step, kPasses + kUpdate);
}

BOOST_AUTO_TEST_CASE(ddp_s_round_goes_from_the_optimizer_to_the_last_gradient) {
  const Rounds found = rounds_of(TorchDdp{.bucket_cap_mb = 1000}, star_cluster(4, 2));
  BOOST_REQUIRE_EQUAL(found.rounds.size(), 1U);
  BOOST_REQUIRE_EQUAL(found.rounds[0].parts.size(), 1U);
  BOOST_REQUIRE_EQUAL(found.rounds[0].parts[0].size(), 2U);
  check_share(found.rounds[0].parts[0][0], 1, 0, kUpdate);
  check_share(found.rounds[0].parts[0][1], 0, 0, kPasses);
}

BOOST_AUTO_TEST_CASE(fsdp_waits_behind_the_optimizer_too) {
  for (const auto sharding :
       {TorchFsdp1::Sharding::full_shard, TorchFsdp1::Sharding::shard_grad_op}) {
    const Rounds found = rounds_of(TorchFsdp1{.sharding = sharding}, star_cluster(4, 2));
    BOOST_REQUIRE_EQUAL(found.rounds.size(), 2U);
    check_share(found.rounds[0].parts[0][0], 1, 0, kUpdate / 8);
    check_share(found.rounds[1].parts[0][0], 0, 0, kPasses);
  }
}

BOOST_AUTO_TEST_CASE(between_them_a_hybrid_s_nodes_wait_for_their_own_ranks) {
  const Rounds found =
      rounds_of(TorchFsdp1{.sharding = TorchFsdp1::Sharding::hybrid_shard}, star_cluster(4, 2));
  BOOST_REQUIRE_EQUAL(found.rounds.size(), 1U);
  BOOST_REQUIRE_EQUAL(found.rounds[0].parts.size(), 2U);
  check_share(found.rounds[0].parts[0][0], 1, 0, kUpdate / 2);
  check_share(found.rounds[0].parts[1][0], 0, 0, kPasses);
}

// ---- What does not fold ----

BOOST_AUTO_TEST_CASE(operations_whose_own_spread_was_measured_do_not_fold) {
  const Cluster cluster = star_cluster(4, 2);
  std::string why_not;
  const Schedule schedule = fleet(TorchDdp{}, cluster, {.distribution = Distribution::measured}, 1);
  BOOST_CHECK(!fold(schedule, cluster, why_not));
  BOOST_CHECK_EQUAL(why_not, "the times of operations vary from rank to rank");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
