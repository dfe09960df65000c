// Intervals of forecasts in a world that is as the model says.
#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <utility>

#include "convergence/world.hpp"

BOOST_AUTO_TEST_SUITE(intervals_test)

using namespace rehearse;

namespace {

/// Points of runs that train: how many there are, and how many lie inside the model's intervals.
struct Inside {
  double inside = 0;
  double points = 0;

  void count(const ConvergenceModel& model, const std::vector<Observation>& runs) {
    for (const Observation& seen : runs) {
      if (seen.failed) continue;
      const Forecast forecast(model, seen.setting);
      for (const ErrorPoint& point : seen.points) {
        const Estimate<double> range = forecast.accuracy_after(point.update);
        inside += range.low <= 1 - point.error && 1 - point.error <= range.high;
        points += 1;
      }
    }
  }
  /// Of some 1000 points 90 % lie inside; as the points of a run share its offset, the share itself
  /// is uncertain by some hundredths.
  void check_90_percent() const {
    BOOST_TEST_MESSAGE(inside << " of " << points << " points");
    BOOST_TEST(inside / points > 0.84);
    BOOST_TEST(inside / points < 0.98);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(intervals_hold_90_percent_of_what_runs_that_were_not_seen_do) {
  const World world;
  Inside seen;
  for (std::uint64_t trial = 0; trial < 5; ++trial) {
    const ConvergenceModel model = fit_convergence(runs_of(world, {0, 3, 12}, 1000 * trial));
    seen.count(model, runs_of(world, {1, 6, 8.5}, 1000 * trial + 500));
  }
  seen.check_90_percent();
}

// Worlds whose extra power of the staleness is drawn from what is known of it before: a fit of up
// to 2 hardly sees it, at 6 to 12 it matters. Of 90 % intervals of worlds that the model allows 90
// % hold.
BOOST_AUTO_TEST_CASE(intervals_hold_90_percent_far_beyond_the_staleness_that_was_fitted) {
  Inside seen;
  for (std::uint64_t trial = 0; trial < 6; ++trial) {
    World world;
    RandomStream stream = random_stream(trial, "power");
    boost::random::normal_distribution<double> normal(
        0, learning_curve_prior().deviation[kStalenessPower]);
    world.curve[kStalenessPower] = normal(stream);
    const ConvergenceModel model = fit_convergence(runs_of(world, {0, 1, 2}, 1000 * trial));
    seen.count(model, runs_of(world, {6, 9, 12}, 1000 * trial + 500));
  }
  seen.check_90_percent();
}

// The value is a median, the interval's ends are quantiles: from these, both deviations; and the
// mean by Simpson's rule over the same distribution, whose errors end at the untrained one.
BOOST_AUTO_TEST_CASE(the_mean_is_that_of_the_distribution_that_the_interval_is_of) {
  const World world;
  const ConvergenceModel model = fit_convergence(runs_of(world, {0, 3, 12}, 100));
  const boost::math::normal normal;
  for (const double staleness : {1.0, 6.0}) {
    const Forecast forecast(model, setting_of(staleness, 0.05));
    const double trained = 1 - forecast.failure_probability();
    BOOST_REQUIRE(trained > 0.9);
    const double part = (trained - 0.9) / 2;
    for (const double updates : {300.0, 2000.0}) {
      const Estimate<double> told = forecast.accuracy_after(updates);
      const double middle = std::log(1 - told.value);
      const double better =
          (std::log(1 - told.high) - middle) / boost::math::quantile(normal, part / trained);
      const double worse =
          (std::log(1 - told.low) - middle) / boost::math::quantile(normal, (part + 0.9) / trained);
      BOOST_REQUIRE(1 - told.low < 0.999 * model.initial_error);  // not cut off there
      const auto error = [&](double z) {
        return std::min(model.initial_error, std::exp(middle + (z < 0 ? better : worse) * z)) *
               boost::math::pdf(normal, z);
      };
      const double cut = std::clamp((std::log(model.initial_error) - middle) / worse, 0.0, 12.0);
      double mean = 0;
      for (const auto& [from, to] :
           {std::pair(-12.0, 0.0), std::pair(0.0, cut), std::pair(cut, 12.0)}) {
        constexpr int kSteps = 2000;
        const double step = (to - from) / kSteps;
        for (int i = 0; i <= kSteps; ++i) {
          const double weight = i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2;
          const double z = std::clamp(from + i * step, from, to);
          mean += weight * step / 3 * error(i == 0 && from == 0.0 ? 0.0 : z);
        }
      }
      BOOST_TEST(forecast.mean_accuracy_after(updates) == 1 - mean,
                 boost::test_tools::tolerance(1e-9));
      BOOST_TEST(forecast.mean_accuracy_after(updates) < told.value);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_fit_finds_the_power_of_staleness_that_runs_show) {
  World world;
  world.curve[kStalenessPower] = 0.5;
  const FittedCurve fitted = fit_convergence(runs_of(world, {0, 1, 4, 12}, 100)).fitted;
  BOOST_TEST(std::abs(fitted.curve[kStalenessPower] - 0.5) < 0.25);
}

namespace {

/// As stale as `mean` until workers are done, after 1300 updates, and then no longer.
TrainingSetting ending(double mean, double rate) {
  TrainingSetting setting = setting_of(mean, rate);
  setting.course = {{1300, {mean, mean}}, {1360, {mean * 1300 / 1360, 0}}};
  return setting;
}

}  // namespace

// In worlds where staleness still costs more by the end of a run than what may go with it, as its
// slowing fades little.
BOOST_AUTO_TEST_CASE(the_fit_finds_which_part_of_its_cost_goes_with_the_staleness) {
  for (const double most : {0.03, 0.1, 0.3}) {
    World world;
    world.curve[kLogStrength] = 2.5;
    world.curve[kLogCurvature] = 1;
    world.curve[kFading] = -1;
    world.curve[kLogWander] = std::log(most);
    std::vector<Observation> runs = runs_of(world, {0, 3, 12}, 100);
    const double before = fit_convergence(runs).fitted.covariance(kLogWander, kLogWander);
    std::uint64_t seed = 800;
    for (int repeat = 0; repeat < 16; ++repeat)
      for (const double rate : {0.05, 0.1}) runs.push_back(world.run(ending(6, rate), seed++));
    const FittedCurve fitted = fit_convergence(runs).fitted;
    BOOST_TEST(std::abs(fitted.curve[kLogWander] - std::log(most)) < 0.6);
    BOOST_TEST(fitted.covariance(kLogWander, kLogWander) < 0.5 * before);
  }
}

// Looks at one stretch of a run are one look's worth together: taken four times, for a quarter
// each, they tell no more of the curve (four looks would make it four times as certain).
BOOST_AUTO_TEST_CASE(looks_that_share_a_stretch_weigh_as_much_as_one) {
  const World world;
  std::vector<Observation> runs = runs_of(world, {0, 3}, 3);
  const Eigen::MatrixXd once = fit_convergence(runs).fitted.covariance;
  for (Observation& run : runs) {
    std::vector<ErrorPoint> looks;
    for (ErrorPoint point : run.points) {
      point.share = 0.25;
      looks.insert(looks.end(), 4, point);
    }
    run.points = looks;
  }
  const Eigen::MatrixXd again = fit_convergence(runs).fitted.covariance;
  for (const int parameter : {kLogFloor, kPower, kLogSaturation})
    BOOST_TEST(std::abs(again(parameter, parameter) / once(parameter, parameter) - 1) < 0.3);
}

// What is not known of ln(error), but for its spread from run to run.
BOOST_AUTO_TEST_CASE(what_is_not_known_grows_with_the_distance_from_the_staleness_that_was_fitted) {
  const World world;
  const ConvergenceModel model = fit_convergence(runs_of(world, {0, 1, 2}, 100));
  double before = 0;
  for (const double staleness : {2.0, 4.0, 8.0, 16.0}) {
    // At one index and progress, so that nothing but the staleness grows.
    const StalePlace stale{staleness, 0.2};
    const double variance = model.fitted.unknown_variance({.effective_rate = 0.1,
                                                           .so_far = stale,
                                                           .recent = stale,
                                                           .updates = 300,
                                                           .initial_error = kUntrained});
    BOOST_TEST(variance > 1.2 * before);
    before = variance;
  }
}

BOOST_AUTO_TEST_SUITE_END()
