#include "economy/goodput.hpp"

#include <boost/random/exponential_distribution.hpp>
#include <boost/random/mersenne_twister.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "base/error.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(goodput_test)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-9);
constexpr double kHour = 3600;
constexpr double kDay = 24 * kHour;

/// 30 days on 100 nodes, each of which fails once in 2000 hours: the job every 20 hours.
Interruptions month() {
  return {.work = Seconds(30 * kDay),
          .nodes = 100,
          .mean_life = Seconds(2000 * kHour),
          .detect = Seconds(120),
          .restart = Seconds(600),
          .read = Seconds(60),
          .write = Seconds(60),
          .repair = Seconds(4 * kHour),
          .speed_without_one = 0.99,
          .shortest_interval = Seconds(5)};
}

/// Mean time until `length` has passed without a failure, where each failure costs `after` more:
/// with p = exp(-length/M) it fails (1 - p)/p times on average, after M - length p/(1 - p).
double until_passed(double length, double mtbf, double after) {
  const double p = std::exp(-length / mtbf);
  return length + (1 - p) / p * (mtbf - length * p / (1 - p) + after);
}

double total_at(const Interruptions& job, double segments) {
  return exact_expectation(job, job.work / segments).total.value();
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_closed_form_is_the_sum_over_segments_that_must_pass_without_a_failure) {
  const Interruptions job = month();
  const double mtbf = 20 * kHour, hours = 30 * 24;
  const double recovery = until_passed(780, mtbf, 0);
  const double expected = hours * until_passed(kHour + 60, mtbf, recovery);
  const TrainingTimes times = exact_expectation(job, Seconds(kHour));
  BOOST_TEST(times.total.value() == expected, kExact);
  BOOST_TEST(times.failures == expected / mtbf, kExact);
  BOOST_TEST(times.written == hours);
  const Seconds sum = job.work + times.checkpoints + times.lost + times.recovery;
  BOOST_TEST(sum.value() == expected, kExact);
}

BOOST_AUTO_TEST_CASE(the_last_segment_may_be_shorter) {
  Interruptions job = month();
  job.work = Seconds(2.5 * kHour);
  const double recovery = until_passed(780, 20 * kHour, 0);
  const double expected = 2 * until_passed(kHour + 60, 20 * kHour, recovery) +
                          until_passed(0.5 * kHour + 60, 20 * kHour, recovery);
  BOOST_TEST(exact_expectation(job, Seconds(kHour)).total.value() == expected, kExact);
}

BOOST_AUTO_TEST_CASE(nodes_that_never_fail_cost_their_checkpoints_alone) {
  Interruptions job = month();
  job.mean_life = Seconds(std::numeric_limits<double>::infinity());
  BOOST_TEST(exact_expectation(job, Seconds(kHour)).total.value() == 720 * (kHour + 60), kExact);
  BOOST_TEST(best_interval(job, 100, 1).value() == job.work.value());
}

BOOST_AUTO_TEST_CASE(trainings_played_with_another_generator_agree_with_the_closed_form) {
  const Interruptions job = month();
  boost::random::mt19937_64 generator(7);
  const boost::random::exponential_distribution<double> gap(1.0);
  constexpr int kTrainings = 4000;
  double sum = 0, squares = 0, failures = 0, lost = 0, recovery = 0;
  for (int i = 0; i < kTrainings; ++i) {
    const TrainingTimes one = play_training(
        job, Seconds(2 * kHour), [&] { return gap(generator); }, 1e6);
    sum += one.total.value();
    squares += one.total.value() * one.total.value();
    failures += one.failures;
    lost += one.lost.value();
    recovery += one.recovery.value();
  }
  const TrainingTimes exact = exact_expectation(job, Seconds(2 * kHour));
  const double mean = sum / kTrainings;
  const double error = std::sqrt((squares / kTrainings - mean * mean) / kTrainings);
  BOOST_TEST(std::abs(mean - exact.total.value()) < 4 * error);
  BOOST_TEST(error < 0.001 * mean);
  BOOST_TEST(failures / kTrainings == exact.failures, boost::test_tools::tolerance(0.01));
  BOOST_TEST(lost / kTrainings == exact.lost.value(), boost::test_tools::tolerance(0.02));
  BOOST_TEST(recovery / kTrainings == exact.recovery.value(), boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(the_best_interval_is_a_minimum_near_young_s_and_nearer_daly_s) {
  const Interruptions job = month();
  const Seconds best = best_interval(job, 100, 1);
  const double segments = job.work / best;
  BOOST_TEST(segments == std::round(segments), kExact);
  BOOST_TEST(total_at(job, segments) <= total_at(job, segments + 1));
  BOOST_TEST(total_at(job, segments) <= total_at(job, segments - 1));
  // C = 60 s, M = 72,000 s: sqrt(2 C M) = 2939 s.
  BOOST_TEST(young_interval(job.write, Seconds(72000)).value() == std::sqrt(2 * 60 * 72000.0),
             kExact);
  const Seconds daly = daly_interval(job.write, Seconds(72000));
  BOOST_TEST(best.value() == daly.value(), boost::test_tools::tolerance(0.003));
}

BOOST_AUTO_TEST_CASE(checkpoints_longer_than_twice_the_mtbf_come_once_in_it) {
  BOOST_TEST(daly_interval(Seconds(300), Seconds(100)).value() == 100);
}

BOOST_AUTO_TEST_CASE(the_interval_found_by_playing_is_as_good_as_the_exact_one) {
  const Interruptions job = month();
  Interruptions played = job;
  played.on_failure = OnFailure::spare;
  played.spares = 1000;
  const Seconds found = best_interval(played, 200, 3);
  const double least = exact_expectation(job, best_interval(job, 200, 3)).total.value();
  BOOST_TEST(exact_expectation(job, found).total.value() < 1.001 * least);
}

BOOST_DATA_TEST_CASE(what_is_played_adds_up_and_more_failures_take_longer,
                     boost::unit_test::data::xrange(3), on_failure) {
  Interruptions job = month();
  job.on_failure = static_cast<OnFailure>(on_failure);
  job.spares = 1;
  job.shape = 0.7;
  double last = 0;
  for (const double life : {8000.0, 2000.0, 500.0}) {
    job.mean_life = Seconds(life * kHour);
    const Goodput goodput = expect_goodput(job, Seconds(kHour), 200, 1);
    const TrainingTimes& mean = goodput.mean;
    const double total = mean.total.value();
    BOOST_TEST(!goodput.exact);
    BOOST_TEST(total > last);
    BOOST_TEST(goodput.spread.low.value() <= total);
    BOOST_TEST(total <= goodput.spread.high.value());
    const Seconds sum =
        job.work + mean.checkpoints + mean.lost + mean.recovery + mean.waiting + mean.slower;
    BOOST_TEST(total == sum.value(), kExact);
    last = total;
  }
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_trainings) {
  Interruptions job = month();
  job.shape = 0.7;
  const auto total = [&](std::uint64_t seed) {
    return expect_goodput(job, Seconds(kHour), 50, seed).mean.total.value();
  };
  BOOST_TEST(total(1) == total(1));
  BOOST_TEST(total(1) != total(2));
}

BOOST_AUTO_TEST_CASE(of_all_trainings_90_percent_lie_between_low_and_high) {
  // One segment of `length`: it passes without a failure with probability exp(-length/M), and takes
  // longer else. So that is the 5 % quantile where the probability is above 0.05, the 95 % one
  // where it is above 0.95. Of 4000 trainings the share is off by 0.004 (one deviation).
  Interruptions job = month();
  const Seconds length = job.work + job.write;
  for (const double unharmed : {0.03, 0.07, 0.93, 0.97}) {
    job.mean_life = length * (job.nodes / -std::log(unharmed));
    const Goodput goodput = expect_goodput(job, job.work, 4000, 1);
    BOOST_TEST_CONTEXT(unharmed) {
      BOOST_TEST((goodput.spread.low == length) == (unharmed > 0.05));
      BOOST_TEST((goodput.spread.high == length) == (unharmed > 0.95));
      BOOST_TEST(goodput.spread.low.value() >= length.value());
      BOOST_TEST(goodput.spread.low.value() <= goodput.spread.high.value());
    }
  }
}

BOOST_AUTO_TEST_CASE(weibull_times_keep_their_mean) {
  // Over a long time the job fails once in its mean time between failures, whatever the shape.
  Interruptions job = month();
  job.work = Seconds(300 * kDay);
  for (const double shape : {0.7, 2.0}) {
    job.shape = shape;
    const TrainingTimes mean = expect_goodput(job, Seconds(kHour), 100, 1).mean;
    BOOST_TEST(mean.failures == mean.total / job.mean_time_between_failures(),
               boost::test_tools::tolerance(0.02));
  }
}

BOOST_AUTO_TEST_CASE(a_hopeless_training_is_stuck_and_not_endless) {
  Interruptions job = month();
  job.mean_life = Seconds(600);  // the job fails every 6 s
  BOOST_CHECK_THROW(expect_goodput(job, Seconds(kHour), 100, 1), StuckError);
}

BOOST_AUTO_TEST_SUITE_END()
