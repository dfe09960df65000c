// Curves as the fit sees them.
#include "convergence/observation.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(observation_test)
namespace {

/// With points after these updates, whose errors are 1 / (2 + update).
Curve curve_with(const std::vector<std::uint64_t>& updates) {
  Curve curve{.source = "replay",
              .model = "small_mlp",
              .dataset = "mnist",
              .train_samples = 8000,
              .test_samples = 2000,
              .workers = 1,
              .batch = 32,
              .learning_rate = 0.1,
              .momentum = 0,
              .weight_decay = 0,
              .mitigation = {},
              .seed = 1,
              .staleness = {.mean = 0, .p50 = 0, .p99 = 0, .max = 0, .histogram = {{0, 100}}},
              .updates = updates.back(),
              .diverged = false,
              .points = {}};
  for (const std::uint64_t update : updates) {
    const double error = 1 / (2 + static_cast<double>(update));
    curve.points.push_back(
        {update, Seconds(0), 32 * update, std::nullopt, std::nullopt, 1 - error});
  }
  return curve;
}

}  // namespace

// 1 to 100 in eight stretches of a factor 1.78: 1 alone in the first, 90 to 100 in the last. Of
// these eleven the 2nd, 5th, 8th and 11th, as they are: none is a mean.
BOOST_AUTO_TEST_CASE(of_each_stretch_of_a_curve_up_to_four_looks_share_its_weight) {
  std::vector<std::uint64_t> updates = {0, 1};
  for (std::uint64_t update = 90; update <= 100; ++update) updates.push_back(update);
  const Observation seen = observe(curve_with(updates), "curve");
  const std::vector<double> expected = {1, 91, 94, 97, 100};
  BOOST_REQUIRE(seen.points.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    BOOST_TEST(seen.points[i].update == expected[i]);
    BOOST_TEST(std::abs(seen.points[i].error - 1 / (2 + expected[i])) < 1e-15);
    BOOST_TEST(seen.points[i].share == (i == 0 ? 1 : 0.25));
  }
}

// Errors of 0.8 over the last quarter of a run that began with 0.9: beyond halfway to 0, and to 0.6
// (0.75), and not to 0.7 - as on data of which a network makes so much at best.
BOOST_AUTO_TEST_CASE(a_run_has_failed_that_gains_less_than_half_of_what_others_do) {
  Curve curve = curve_with({0, 10, 20, 30, 40});
  for (CurvePoint& point : curve.points) point.test_accuracy = point.update == 0 ? 0.1 : 0.2;
  BOOST_TEST(has_failed(curve));
  BOOST_TEST(has_failed(curve, 0.6));
  BOOST_TEST(!has_failed(curve, 0.7001));
  BOOST_TEST(!observe(curve, "curve", 0.7001).failed);
  curve.diverged = true;
  BOOST_TEST(has_failed(curve, 0.7001));
}

BOOST_AUTO_TEST_CASE(the_best_end_is_that_of_a_curve_that_trained) {
  Curve trained = curve_with({0, 1, 2}), better = curve_with({0, 1, 8}),
        diverged = curve_with({0, 18});
  diverged.diverged = true;
  BOOST_TEST(std::abs(least_end_error(std::vector{trained, better}) - 0.1) < 1e-15);
  BOOST_TEST(std::abs(least_end_error(std::vector{diverged, trained, curve_with({98})}) - 0.25) <
             1e-15);
  BOOST_TEST(least_end_error(std::vector{diverged}) == 1);
}

BOOST_AUTO_TEST_CASE(a_curve_of_few_points_is_taken_whole) {
  const Observation seen = observe(curve_with({0, 10, 20, 40, 80}), "curve");
  BOOST_REQUIRE(seen.points.size() == 4u);
  for (const ErrorPoint& point : seen.points) BOOST_TEST(point.share == 1);
}

// --- how stale updates were along a run

BOOST_AUTO_TEST_CASE(a_course_has_the_mean_of_all_updates_and_of_the_last_ones) {
  const double kept = std::exp(-1.0 / 20);
  std::vector<std::uint32_t> staleness(200, 3);
  staleness.resize(230, 0);  // 30 fresh ones
  const std::vector<CoursePoint> course = course_of(staleness);
  BOOST_REQUIRE(course.size() == 230u);
  BOOST_TEST(course[199].update == 200);
  BOOST_TEST(std::abs(course[199].past.mean - 3) < 1e-12);
  BOOST_TEST(std::abs(course[199].past.recent - 3) < 1e-12);
  BOOST_TEST(std::abs(course[229].past.mean - 600.0 / 230) < 1e-12);
  const double old = (std::pow(kept, 30) - std::pow(kept, 230)) / (1 - std::pow(kept, 230));
  BOOST_TEST(std::abs(course[229].past.recent - 3 * old) < 1e-12);
}

BOOST_AUTO_TEST_CASE(between_points_of_a_course_staleness_changes_evenly) {
  TrainingSetting setting{constant_staleness(2), 0.1, 0, 32};
  BOOST_TEST(setting.past_after(50).mean == 2);
  BOOST_TEST(setting.past_after(50).recent == 2);
  setting.course = {{10, {4, 3}}, {20, {2, 1}}};
  for (const auto& [updates, mean] : {std::pair(1, 4.0), std::pair(10, 4.0), std::pair(15, 3.0),
                                      std::pair(20, 2.0), std::pair(99, 2.0)}) {
    BOOST_TEST(setting.past_after(updates).mean == mean);
    BOOST_TEST(setting.past_after(updates).recent == mean - 1);
  }
}

BOOST_AUTO_TEST_CASE(the_course_of_a_run_is_what_its_curve_says) {
  Curve curve = curve_with({0, 1, 3});
  BOOST_TEST(observe(curve, "curve").setting.course.empty());
  curve.points[1].staleness = {2, 1};
  curve.points[2].staleness = {4, 3};
  const std::vector<CoursePoint> course = observe(curve, "curve").setting.course;
  BOOST_REQUIRE(course.size() == 2u);
  BOOST_TEST(course[0].update == 1);
  BOOST_TEST(course[1].update == 3);
  BOOST_TEST(course[1].past.mean == 4);
  BOOST_TEST(course[1].past.recent == 3);
}

// Shares of a half of staleness 1 and 3, weighed 1 and 1/3: a mean of 1.5 where it was 2.
BOOST_AUTO_TEST_CASE(a_course_is_weighed_by_the_staleness_as_all_updates_are) {
  TrainingSetting setting{Staleness{{0, 0.5, 0, 0.5}}, 0.24, 0, 32};
  setting.course = {{10, {2, 4}}};
  Mitigation by;
  by.staleness_aware = true;
  const PastStaleness past = mitigated(setting, by, 4).past_after(10);
  BOOST_TEST(std::abs(past.mean - 1.5) < 1e-12);
  BOOST_TEST(std::abs(past.recent - 3) < 1e-12);
}

BOOST_AUTO_TEST_SUITE_END()
