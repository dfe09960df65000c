#include "convergence/learning_curve.hpp"

#include <boost/math/distributions/normal.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "convergence/forecast.hpp"

using namespace rehearse;

namespace {

constexpr double kUntrained = 0.9;
constexpr double kFloor = 0.03, kScale = 8, kSaturation = 0.3, kStrength = 5, kSteep = 1.5;

/// With powers of 1 and a fading of 1/2.
LearningCurve simple_curve() {
  LearningCurve curve;
  curve << std::log(kFloor), std::log(kScale), 1, std::log(kSaturation), std::log(kStrength),
      kSteep, 0, 1, 0;
  return curve;
}

/// The progress that an error stands for: error = floor + untrained / (1 + t).
double progress_of(const LogError& error) {
  return kUntrained / (std::exp(error.value) - kFloor) - 1;
}

CurvePlace place(double rate, double index, double updates, double batch = 1) {
  return {.effective_rate = rate,
          .batch = batch,
          .index = index,
          .updates = updates,
          .initial_error = kUntrained};
}

void check_near(double value, double expected) {
  BOOST_TEST(std::abs(value / expected - 1) < 1e-9);
}

}  // namespace

// 8 x 500 x 0.1 / (1 + 0.1 / 0.3) = 300.
BOOST_AUTO_TEST_CASE(fresh_gradients_progress_with_the_rate_as_far_as_noise_lets_them) {
  check_near(progress_of(log_error(simple_curve(), place(0.1, 0, 500))), 300);
  // However high the rate: 8 x 500 x 0.3.
  check_near(progress_of(log_error(simple_curve(), place(1e12, 0, 500))), 1200);
}

BOOST_AUTO_TEST_CASE(a_batch_and_a_rate_twice_as_large_go_twice_as_far_with_an_update) {
  const LogError large = log_error(simple_curve(), place(0.2, 0, 500, 2));
  check_near(large.value, log_error(simple_curve(), place(0.1, 0, 1000)).value);
}

// t (1 + 5 (r / (1 - r))^1.5 (30 / (1 + t))^0.5) is what fresh gradients would have made.
BOOST_AUTO_TEST_CASE(staleness_slows_progress_by_its_index_and_less_so_the_more_was_made) {
  for (const double index : {0.02, 0.3, 0.7, 0.97}) {
    for (const double updates : {1.0, 50.0, 5000.0}) {
      const LogError stale = log_error(simple_curve(), place(0.1, index, updates));
      const double t = progress_of(stale);
      const double slowing = kStrength * std::pow(index / (1 - index), kSteep);
      check_near(t * (1 + slowing * std::sqrt(30 / (1 + t))), 0.6 * updates);
      const LogError fresh = log_error(simple_curve(), place(0.1, 0, updates));
      check_near(1 + stale.value - fresh.value, 1 + stale.penalty);
    }
  }
}

// A power of 0.4 of what staleness 1 is half of: ((1 + 6) / 2)^0.4.
BOOST_AUTO_TEST_CASE(the_freer_form_slows_by_a_power_of_the_staleness_at_the_same_index) {
  LearningCurve curve = simple_curve();
  curve[kStalenessPower] = 0.4;
  CurvePlace at = place(0.1, 0.3, 500);
  for (const double staleness : {0.0, 1.0, 6.0}) {
    at.staleness = staleness;
    const double t = progress_of(log_error(curve, at));
    const double slowing = kStrength * std::pow(0.3 / 0.7, kSteep) * std::sqrt(30 / (1 + t)) *
                           std::pow((1 + staleness) / 2, 0.4);
    check_near(t * (1 + slowing), 300);
  }
}

// --- intervals

namespace {

/// One whose spread alone makes its intervals.
ConvergenceModel simple_model(std::vector<TrainingOutcome> outcomes) {
  ConvergenceModel model{.fitted = {.curve = simple_curve(),
                                    .freer = simple_curve(),
                                    .covariance = Eigen::MatrixXd::Zero(kLearningCurveParameters,
                                                                        kLearningCurveParameters)},
                         .spreads = {},
                         .compensation = {},
                         .odds = DivergenceOdds(std::move(outcomes)),
                         .domain = {}};
  model.initial_error = kUntrained;
  model.inflation = 2;
  model.least_failed_error = 0.5;
  return model;
}

}  // namespace

// ln(error) = ln(untrained) - power ln(1 + t) without a floor: a power known to 0.3 makes it
// uncertain by 0.3 ln(1 + t), and a freer form with a power of 0.2 more by that much of ln(1 + t).
BOOST_AUTO_TEST_CASE(what_is_unknown_adds_the_parameters_deviation_and_what_the_forms_differ_by) {
  FittedCurve fitted{
      .curve = simple_curve(),
      .covariance = Eigen::MatrixXd::Zero(kLearningCurveParameters, kLearningCurveParameters)};
  fitted.curve[kLogFloor] = -1000;
  fitted.freer = fitted.curve;
  fitted.freer[kPower] += 0.2;
  fitted.covariance(kPower, kPower) = 0.3 * 0.3;
  const double decades = std::log(301);  // of progress: 8 x 500 x 0.1 / (1 + 0.1 / 0.3)
  check_near(fitted.unknown_variance(place(0.1, 0, 500)), (0.09 + 0.04) * decades * decades);
}

// The forms differ by more where the staleness that is asked about is larger, at one index.
BOOST_AUTO_TEST_CASE(an_interval_reaches_as_far_as_the_freer_form_at_the_staleness_that_is_asked) {
  ConvergenceModel model = simple_model({});
  model.fitted.freer[kStalenessPower] = 0.4;
  const TrainingSetting setting{constant_staleness(3), 0.01, 0, 1};
  const Forecast forecast(model, setting);
  CurvePlace at = place(0.01, stability_indices(model, setting).slowing, 100);
  at.staleness = 3;
  const LogError middle = log_error(model.fitted.curve, at);
  const double between = log_error(model.fitted.freer, at).value - middle.value;
  const double deviations = boost::math::quantile(
      boost::math::normal(), 0.5 + 0.45 / (1 - forecast.failure_probability()));
  const double off =
      deviations * model.inflation * std::hypot(model.spreads.at(middle.penalty), between);
  check_near(1 - forecast.accuracy_after(100).low, std::exp(middle.value + off));
}

// Where a part p < 0.1 of the runs fails, 90 % of all are 0.9 / (1 - p) of those that train.
BOOST_AUTO_TEST_CASE(an_interval_holds_90_percent_of_all_runs_with_what_fails_left_out) {
  const ConvergenceModel model = simple_model({});
  for (const auto& [staleness, rate] : {std::pair(0, 0.55), std::pair(3, 0.01)}) {
    const TrainingSetting setting{constant_staleness(staleness), rate, 0, 1};
    const Forecast forecast(model, setting);
    const double failing = forecast.failure_probability();
    BOOST_TEST((failing > 0.05) == (staleness == 0));
    BOOST_REQUIRE(failing < 0.1);
    const double index = stability_indices(model, setting).slowing;
    const LogError middle = log_error(model.fitted.curve, place(rate, index, 100));
    const double deviations =
        boost::math::quantile(boost::math::normal(), 0.5 + 0.45 / (1 - failing));
    const double off = deviations * model.inflation * model.spreads.at(middle.penalty);
    const Estimate told = forecast.accuracy_after(100);
    check_near(1 - told.low, std::exp(middle.value + off));
    check_near(1 - told.high, std::exp(middle.value - off));
  }
}
