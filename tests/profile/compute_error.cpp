// What a compute profile says of its own error.
#include "profile/compute_error.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(compute_error_test)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-9);

/// One unit of so many milliseconds per batch, measured without spread on a GPU.
ComputeProfile profile_of(const std::vector<std::pair<std::int64_t, double>>& times) {
  ComputeProfile profile;
  profile.origin.cuda = "12.8";
  for (const auto& [batch, ms] : times) {
    BatchPoint point;
    point.batch = batch;
    point.repetitions = 16;
    point.units.emplace_back();
    point.units[0].forward = Seconds(ms * 1e-3);
    point.whole.forward = Seconds(ms * 1e-3);
    profile.points.push_back(point);
  }
  return profile;
}

/// What is left of an error without the drift between sessions.
double beyond_drift(const ComputeProfile& profile, std::int64_t batch) {
  const double error = compute_error(profile, batch);
  return std::sqrt(std::max(0.0, error * error - kGpuDrift * kGpuDrift));
}

BOOST_AUTO_TEST_CASE(a_measured_batch_is_off_by_the_drift_at_least) {
  ComputeProfile profile = profile_of({{8, 10}, {16, 20}});
  BOOST_TEST(compute_error(profile, 8) == kGpuDrift, kExact);
  profile.origin.cuda = "none";
  BOOST_TEST(compute_error(profile, 8) == kCpuDrift, kExact);
}

BOOST_AUTO_TEST_CASE(units_that_do_not_add_up_are_off_by_the_difference) {
  ComputeProfile profile = profile_of({{8, 10}});
  profile.points[0].whole.forward = Seconds(10e-3 / 1.04);
  BOOST_TEST(beyond_drift(profile, 8) == 0.04, kExact);
}

BOOST_AUTO_TEST_CASE(medians_are_off_by_their_sampling) {
  ComputeProfile profile = profile_of({{8, 10}});
  profile.points[0].units[0].forward_spread = 0.1;
  // 1.6449 standard errors of a median of 16 values.
  BOOST_TEST(beyond_drift(profile, 8) == 1.6449 * 1.2533 * (0.1 / 1.349) / 4, kExact);
}

BOOST_AUTO_TEST_CASE(between_batches_it_is_what_leaving_one_out_shows) {
  // The line through 1 and 3 says 25 where 20 was measured.
  const ComputeProfile bent = profile_of({{8, 10}, {16, 20}, {24, 40}});
  BOOST_TEST(beyond_drift(bent, 12) == 1.6449 * std::log(25.0 / 20), kExact);
  BOOST_TEST(beyond_drift(bent, 16) < 1e-9);
  BOOST_TEST(beyond_drift(profile_of({{8, 10}, {16, 20}, {24, 30}}), 12) < 1e-9);
  BOOST_TEST(beyond_drift(profile_of({{8, 10}, {16, 20}}), 12) == kUntestedInterpolation, kExact);
}

BOOST_AUTO_TEST_CASE(beyond_the_batches_it_grows_with_every_doubling) {
  const ComputeProfile straight = profile_of({{8, 10}, {16, 20}, {32, 40}});
  BOOST_TEST(beyond_drift(straight, 64) == kLeastExtrapolation, kExact);
  BOOST_TEST(beyond_drift(straight, 128) == 2 * kLeastExtrapolation, kExact);
  BOOST_TEST(beyond_drift(straight, 4) == kLeastExtrapolation, kExact);
  // A start-up shows below, not above.
  const ComputeProfile start = profile_of({{8, 15}, {16, 20}, {32, 40}, {64, 80}});
  BOOST_TEST(beyond_drift(start, 128) == kLeastExtrapolation, kExact);
  BOOST_TEST(beyond_drift(start, 4) == 1.6449 * std::log(15.0 / 10), kExact);
  // The line through 8 and 16 says 40 where 50 was measured, one doubling on.
  const ComputeProfile bent = profile_of({{8, 10}, {16, 20}, {32, 50}});
  BOOST_TEST(beyond_drift(bent, 64) == 1.6449 * std::log(50.0 / 40), kExact);
  BOOST_TEST(beyond_drift(profile_of({{8, 10}}), 16) == kUntestedExtrapolation, kExact);
  BOOST_TEST(beyond_drift(profile_of({{8, 10}, {16, 20}}), 32) == kUntestedExtrapolation / 2,
             kExact);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
