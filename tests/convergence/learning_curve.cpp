#include "convergence/learning_curve.hpp"

#include <boost/math/distributions/normal.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "convergence/forecast.hpp"

BOOST_AUTO_TEST_SUITE(learning_curve_test)

using namespace rehearse;

namespace {

constexpr double kUntrained = 0.9;
constexpr double kFloor = 0.03, kScale = 8, kSaturation = 0.3, kStrength = 5, kSteep = 1.5;
constexpr double kNone = -1000;                  // of a parameter that is a logarithm
const double kHalf = std::log(std::expm1(0.5));  // of kFading: ln(1 + exp(it)) = 1/2

/// With powers of 1, a fading of 1/2, a curvature of 1, no noise at the floor, and staleness that
/// costs from the start.
LearningCurve simple_curve() {
  LearningCurve curve;
  curve << std::log(kFloor), std::log(kScale), 1, std::log(kSaturation), std::log(kStrength),
      kSteep, kHalf, 1, 0, std::log(0.05), kNone, 0, 0, 0, kNone, 0;
  return curve;
}

/// The progress that an error stands for: error = floor + untrained / (1 + t).
double progress_of(const LogError& error) {
  return kUntrained / (std::exp(error.value) - kFloor) - 1;
}

/// What fresh gradients would have made where a stale one made t, with such a slowing at t = 0.
double fresh_of(double t, double slowing, double fading) {
  return t + slowing * (std::pow(1 + t, 1 - fading) - 1) / (1 - fading);
}

CurvePlace place(double rate, const StalePlace& stale, double updates, double batch = 1) {
  return {.effective_rate = rate,
          .batch = batch,
          .so_far = stale,
          .recent = stale,
          .updates = updates,
          .initial_error = kUntrained};
}
/// At the staleness that `extra` makes nothing of.
CurvePlace place(double rate, double index, double updates, double batch = 1) {
  return place(rate, StalePlace{1, index}, updates, batch);
}

void check_near(double value, double expected) {
  BOOST_TEST(std::abs(value / expected - 1) < 1e-9);
}

}  // namespace

// Against central differences, which are exact to about 1e-9: with momentum, at another batch, near
// the edge and far from it, with staleness that was other than it is, a fading of 1, and none of
// it.
BOOST_AUTO_TEST_CASE(slopes_are_those_of_the_curve) {
  LearningCurve curve = simple_curve();
  curve[kLogNoise] = std::log(2);
  curve[kFadingByIndex] = -0.8;
  curve[kSpreadPower] = 0.4;
  curve[kLogOnset] = std::log(20);
  curve[kLogOnsetPower] = std::log(3);
  std::vector<CurvePlace> places;
  for (const double index : {0.0, 0.2, 0.5, 0.9})
    for (const double updates : {3.0, 40.0, 700.0}) {
      CurvePlace one = place(0.1, StalePlace{3, index}, updates, 1.5);
      one.momentum = 0.9;
      one.recent = {1, 0.3 * index};
      one.spread_gain = 1.2;
      places.push_back(one);
    }
  // A slowing that fades by 1 exactly: its integral is a logarithm there.
  LearningCurve by_one = curve;
  by_one[kFading] = std::log(std::expm1(1));
  by_one[kFadingByIndex] = 0;
  const std::size_t count = places.size();
  for (std::size_t at = 0; at < 2 * count; ++at) {
    const CurvePlace& one = places[at % count];
    if (at == count) curve = by_one;
    const LogErrorSlope exact = log_error_slope(curve, one);
    BOOST_TEST(exact.value == log_error(curve, one).value, boost::test_tools::tolerance(1e-12));
    for (int i = 0; i < kLearningCurveParameters; ++i) {
      constexpr double kStep = 1e-5;
      LearningCurve low = curve, high = curve;
      low[i] -= kStep;
      high[i] += kStep;
      const double about = (log_error(high, one).value - log_error(low, one).value) / (2 * kStep);
      BOOST_TEST(std::abs(exact.slope[i] - about) < 1e-7, "parameter " << i);
    }
  }
}

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

// ds / dt = 1 + 5 (r / (1 - r))^1.5 (30 / (1 + t))^0.5, from 0 on.
BOOST_AUTO_TEST_CASE(staleness_slows_progress_by_its_index_and_less_so_the_more_was_made) {
  for (const double index : {0.02, 0.3, 0.7, 0.97}) {
    for (const double updates : {1.0, 50.0, 5000.0}) {
      const LogError stale = log_error(simple_curve(), place(0.1, index, updates));
      const double t = progress_of(stale);
      const double slowing = kStrength * std::pow(index / (1 - index), kSteep);
      check_near(fresh_of(t, slowing * std::sqrt(30), 0.5), 0.6 * updates);
      const LogError fresh = log_error(simple_curve(), place(0.1, 0, updates));
      check_near(1 + stale.value - fresh.value, 1 + stale.penalty);
    }
  }
}

// With a curvature of 2.5 the edge is at an index of 0.4. A fading of 1/2 is ln(1 + (sqrt(e) - 1));
// with g = -0.8 what is added to 1 goes with the index's odds to that power.
BOOST_AUTO_TEST_CASE(the_edge_is_the_networks_own_and_slowing_fades_otherwise_near_it) {
  LearningCurve curve = simple_curve();
  curve[kLogCurvature] = std::log(2.5);
  for (const double index : {0.02, 0.2, 0.35}) {
    const LogError scaled = log_error(curve, place(0.1, index, 500));
    check_near(scaled.value, log_error(simple_curve(), place(0.1, 2.5 * index, 500)).value);
  }
  check_near(log_error(curve, place(0.1, 0.4, 500)).value,
             log_error(simple_curve(), place(0.1, 0.98, 500)).value);
  curve[kFadingByIndex] = -0.8;
  for (const double index : {0.02, 0.2, 0.35}) {
    const double odds = 2.5 * index / (1 - 2.5 * index);
    const double fading = std::log1p(std::expm1(0.5) * std::pow(odds, -0.8));
    BOOST_TEST((fading > 1) == (index == 0.02));
    const double t = progress_of(log_error(curve, place(0.1, index, 500)));
    const double slowing = kStrength * std::pow(odds, kSteep) * std::pow(30, fading);
    check_near(fresh_of(t, slowing, fading), 300);
  }
}

// ds / dt = 1 + 30 a / (1 + t): s = t + 30 a ln(1 + t). With a fading of 2 no more than 900 a is
// ever lost.
BOOST_AUTO_TEST_CASE(a_network_catches_up_where_slowing_fades_faster_than_it_progresses) {
  LearningCurve curve = simple_curve();
  const double slowing = kStrength * std::pow(0.3 / 0.7, kSteep);
  curve[kFading] = std::log(std::expm1(1));
  const double t = progress_of(log_error(curve, place(0.1, 0.3, 500)));
  check_near(t + 30 * slowing * std::log1p(t), 300);
  curve[kFading] = std::log(std::expm1(2));
  const double late = progress_of(log_error(curve, place(0.1, 0.3, 1e7)));
  BOOST_TEST(std::abs(6e6 - late - 900 * slowing) < 0.01);
}

// After a progress of 20, (1 - 1/e) of what staleness costs; after 5, with a power of 3, 1 / 64 as
// many e-folds.
BOOST_AUTO_TEST_CASE(staleness_costs_nothing_before_the_network_has_begun_to_learn) {
  LearningCurve curve = simple_curve();
  curve[kLogOnset] = std::log(20);
  curve[kLogOnsetPower] = std::log(3);
  for (const double progress : {20.0, 5.0, 1e-3}) {
    const CurvePlace stale = place(0.1, 0.3, progress / 0.6);
    const double full = log_error(simple_curve(), stale).penalty;
    const double share = -std::expm1(-std::pow(progress / 20, 3));
    const LogError seen = log_error(curve, stale);
    BOOST_TEST(std::abs(seen.penalty - share * full) < 1e-12);
    const double healthy = log_error(curve, place(0.1, 0, progress / 0.6)).value;
    check_near(1 + seen.value - healthy, 1 + seen.penalty);
  }
  BOOST_TEST(log_error(curve, place(0.1, 0.3, 0)).penalty == 0);
  // The error rises again, as in real runs.
  const auto error = [&](double progress) {
    return log_error(curve, place(0.1, 0.8, progress / 0.6)).value;
  };
  BOOST_TEST(error(25) > error(10));
}

// Where the edge of the distribution is 3 times as far as that of the mean: an index that is
// smaller by that to the power of 0.7, and one that is not with a power of 0.
BOOST_AUTO_TEST_CASE(a_spread_of_the_staleness_takes_the_edge_further_away) {
  LearningCurve curve = simple_curve();
  for (const double power : {0.0, 0.7, 1.0}) {
    curve[kSpreadPower] = power;
    CurvePlace at = place(0.1, 0.6, 500);
    at.spread_gain = 3;
    const CurvePlace nearer = place(0.1, 0.6 * std::pow(3, -power), 500);
    check_near(log_error(curve, at).value, log_error(simple_curve(), nearer).value);
  }
}

// A power of 0.4 of what staleness 1 is half of: ((1 + 6) / 2)^0.4.
BOOST_AUTO_TEST_CASE(staleness_slows_by_a_power_of_it_at_the_same_index) {
  LearningCurve curve = simple_curve();
  curve[kStalenessPower] = 0.4;
  for (const double staleness : {0.0, 1.0, 6.0}) {
    const double t = progress_of(log_error(curve, place(0.1, {staleness, 0.3}, 500)));
    const double slowing = kStrength * std::pow(0.3 / 0.7, kSteep) * std::sqrt(30) *
                           std::pow((1 + staleness) / 2, 0.4);
    check_near(fresh_of(t, slowing, 0.5), 300);
  }
}

// A cost in ln(error) of c at staleness 4 is 0.2 (1 - exp(-c / 0.2)) of wandering, which the last
// updates decide, and the rest is of what was not learned before.
BOOST_AUTO_TEST_CASE(a_part_of_what_staleness_costs_is_gone_when_the_staleness_is) {
  for (const double index : {0.02, 0.7}) {
    const StalePlace stale{4, index};
    const CurvePlace all = place(0.1, stale, 500), fresh = place(0.1, StalePlace{0, 0}, 500);
    const LogError before = log_error(simple_curve(), all),
                   after = log_error(simple_curve(), fresh);
    const double cost = before.value - after.value;
    const double wander = 0.2 * (1 - std::exp(-cost / 0.2));
    BOOST_TEST((index < 0.1 ? wander > 0.8 * cost : wander < 0.5 * cost));
    check_near(before.penalty, cost);
    CurvePlace at = all;
    at.recent = fresh.recent;
    check_near(log_error(simple_curve(), at).value, before.value - wander);
    check_near(log_error(simple_curve(), at).penalty, cost - wander);
    at = fresh;
    at.recent = stale;
    check_near(log_error(simple_curve(), at).value, after.value + wander);
  }
}

// Of the i-th update from the last 1 - m^i have come into effect.
BOOST_AUTO_TEST_CASE(next_to_no_staleness_has_a_finite_slope) {
  LearningCurve curve = simple_curve();
  curve[kLogWander] = 0;
  CurvePlace at = place(0.01, 0.1, 1000);
  for (const double staleness : {1e-300, 1e-30, 1e-3, 0.0}) {
    at.recent.staleness = staleness;
    const auto [value, slope] = log_error_slope(curve, at);
    BOOST_TEST(std::isfinite(value));
    BOOST_TEST(slope.allFinite());
  }
}

BOOST_AUTO_TEST_CASE(with_momentum_the_first_updates_have_yet_to_come_into_effect) {
  for (const int updates : {1, 7, 300}) {
    double effective = 0;
    for (int i = 1; i <= updates; ++i) effective += 1 - std::pow(0.9, i);
    CurvePlace at = place(0.1, 0, updates);
    at.momentum = 0.9;
    check_near(progress_of(log_error(simple_curve(), at)), 0.6 * effective);
  }
}

// 0.03 (1 + 2 x 0.1 / 1), and the same at twice the rate with twice the batch.
BOOST_AUTO_TEST_CASE(the_floor_rises_with_the_rate_over_the_batch) {
  LearningCurve curve = simple_curve();
  curve[kLogNoise] = std::log(2);
  check_near(std::exp(log_error(curve, place(0.1, 0, 1e15)).value), 0.036);
  check_near(std::exp(log_error(curve, place(0.2, 0, 1e15, 2)).value), 0.036);
  check_near(std::exp(log_error(curve, place(0.2, 0, 1e15)).value), 0.042);
}

// --- intervals

namespace {

/// One whose spread alone makes its intervals.
ConvergenceModel simple_model(std::vector<TrainingOutcome> outcomes) {
  ConvergenceModel model{.fitted = {.curve = simple_curve(),
                                    .covariance = Eigen::MatrixXd::Zero(kLearningCurveParameters,
                                                                        kLearningCurveParameters)},
                         .spreads = {},
                         .compensation = {},
                         .odds = DivergenceOdds(std::move(outcomes)),
                         .domain = {}};
  model.initial_error = kUntrained;
  model.inflation = 2;
  model.least_failed_error = 0.5;
  model.domain.most_staleness = 10;
  return model;
}

}  // namespace

// ln(error) = ln(untrained) - power ln(1 + t) without a floor: a power known to 0.3 makes it
// uncertain by 0.3 ln(1 + t).
BOOST_AUTO_TEST_CASE(what_is_unknown_is_what_the_parameters_deviations_make_of_the_error) {
  FittedCurve fitted{
      .curve = simple_curve(),
      .covariance = Eigen::MatrixXd::Zero(kLearningCurveParameters, kLearningCurveParameters)};
  fitted.curve[kLogFloor] = kNone;
  fitted.covariance(kPower, kPower) = 0.3 * 0.3;
  const double decades = std::log(301);  // of progress: 8 x 500 x 0.1 / (1 + 0.1 / 0.3)
  check_near(fitted.unknown_variance(place(0.1, 0, 500)), 0.09 * decades * decades);
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
    const double index = stability_indices(model, setting).slowing.index;
    const LogError middle = log_error(model.fitted.curve, place(rate, index, 100));
    const double deviations =
        boost::math::quantile(boost::math::normal(), 0.5 + 0.45 / (1 - failing));
    const double off = deviations * model.inflation * model.spreads.at(middle.penalty);
    const Estimate<double> told = forecast.accuracy_after(100);
    check_near(1 - told.low, std::exp(middle.value + off));
    check_near(1 - told.high, std::exp(middle.value - off));
  }
}

// Fitted on a staleness of up to 1 and asked about 3, of which the slowing may be 2^0.25 times what
// the fit's power makes it, or as much less: a fourth of what twice the strength makes of
// ln(error).
BOOST_AUTO_TEST_CASE(an_interval_is_wider_beyond_the_staleness_that_was_fitted) {
  ConvergenceModel model = simple_model({});
  const TrainingSetting setting{constant_staleness(3), 0.1, 0, 1};
  const auto width = [&] {
    const Estimate<double> told = Forecast(model, setting).accuracy_after(100);
    return std::log((1 - told.low) / (1 - told.high));
  };
  const double within = width();
  model.domain.most_staleness = 1;
  const double index = stability_indices(model, setting).slowing.index;
  LearningCurve more = model.fitted.curve, less = more;
  constexpr double kStep = 1e-4;
  more[kLogStrength] += kStep;
  less[kLogStrength] -= kStep;
  const CurvePlace at = place(0.1, index, 100);
  const double slope = (log_error(more, at).value - log_error(less, at).value) / (2 * kStep);
  const double deviations =
      within / (2 * model.inflation * model.spreads.at(log_error(model.fitted.curve, at).penalty));
  const double off = 0.25 * std::log(2) * slope;
  BOOST_TEST(std::abs(width() / std::hypot(within, 2 * deviations * model.inflation * off) - 1) <
             1e-7);
  BOOST_TEST(width() > 1.01 * within);
}

BOOST_AUTO_TEST_CASE(a_value_lies_in_its_interval_from_the_first_update_on) {
  const ConvergenceModel model = simple_model({});
  for (const double staleness : {0.0, 3.0}) {
    const Forecast forecast(model, {nearly_constant_staleness(staleness), 0.01, 0, 1});
    BOOST_TEST(forecast.accuracy_after(1e-6).value == 1 - kUntrained);
    for (double updates = 1e-6; updates < 1e6; updates *= 10) {
      const Estimate<double> told = forecast.accuracy_after(updates);
      BOOST_TEST(told.low <= told.value);
      BOOST_TEST(told.value <= told.high);
    }
  }
}

// Before staleness costs anything an accuracy is reached that is lost again for a while.
BOOST_AUTO_TEST_CASE(an_accuracy_is_reached_when_it_is_first) {
  ConvergenceModel model = simple_model({});
  model.fitted.curve[kLogOnset] = std::log(20);
  model.fitted.curve[kLogOnsetPower] = std::log(3);
  const Forecast forecast(model, {nearly_constant_staleness(7), 0.1, 0, 1});
  const auto accuracy = [&](double updates) { return forecast.accuracy_after(updates).value; };
  const double reached = accuracy(10);
  BOOST_REQUIRE(forecast.verdict() != Verdict::diverges);
  BOOST_TEST(accuracy(50) < reached);
  BOOST_TEST(accuracy(1e4) > reached);
  check_near(forecast.updates_to(reached).value.value(), 10);
}

// --- along a run

// Workers are done after the 100th update: as stale as 4 until then, as 3.5 on average after the
// 120th and no longer at all.
BOOST_AUTO_TEST_CASE(a_forecast_follows_the_staleness_along_the_run) {
  ConvergenceModel model = simple_model({});
  model.fitted.curve[kStalenessPower] = 0.4;
  const auto error = [&](const TrainingSetting& setting, double updates) {
    return 1 - Forecast(model, setting).accuracy_after(updates).value;
  };
  const auto always = [](double staleness) {
    return TrainingSetting{nearly_constant_staleness(staleness), 0.01, 0, 1};
  };
  TrainingSetting whole = always(3.5);
  whole.course = {{100, {4, 4}}, {120, {3.5, 0}}};
  check_near(error(whole, 50), error(always(4), 50));
  check_near(error(whole, 100), error(always(4), 100));
  CurvePlace at = place(0.01, StalePlace{0, 0}, 0);
  for (const double updates : {120.0, 200.0}) {
    at.updates = updates;
    const double stale = error(always(3.5), updates);
    const double cost = std::log(stale) - log_error(model.fitted.curve, at).value;
    const double most = 0.05 * 3.5;
    check_near(error(whole, updates), stale * std::exp(-most * (1 - std::exp(-cost / most))));
    BOOST_TEST(error(whole, updates) < 0.99 * stale);
  }
  check_near(error(fresh(whole), 120), error(always(0), 120));
}

BOOST_AUTO_TEST_SUITE_END()
