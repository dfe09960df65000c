#include <algorithm>
#include <boost/random/normal_distribution.hpp>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/random.hpp"
#include "fit/segments.hpp"

using namespace rehearse;
namespace data = boost::unit_test::data;

namespace {

/// Sizes as `-b 8 -e 16G -f 2` measures them.
std::vector<Bytes> doubling_sizes(double smallest = 8, int count = 32) {
  std::vector<Bytes> sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(Bytes(smallest * std::pow(2.0, i)));
  return sizes;
}

/// Points of a known curve, with relative normal noise from a named stream.
std::vector<TimedSize> points_of(const std::vector<Segment>& truth, const std::vector<Bytes>& sizes,
                                 double sigma = 0, std::uint64_t seed = 0) {
  RandomStream stream = random_stream(seed, "fit noise");
  boost::random::normal_distribution<double> noise(0, 1);
  std::vector<TimedSize> points;
  for (const Bytes size : sizes)
    points.push_back({size, predict(truth, size) * (1 + sigma * noise(stream))});
  return points;
}

// Latencies of 10, 40 and 200 us at 2, 40 and 200 GB/s. The knees:
//   30 us  / (1/2   - 1/40)  ns/B = 63157.9 B
//   160 us / (1/40  - 1/200) ns/B = 8 MB
const std::vector<Segment> kThree = {{Seconds(10e-6), BytesPerSecond(2e9)},
                                     {Seconds(40e-6), BytesPerSecond(40e9)},
                                     {Seconds(200e-6), BytesPerSecond(200e9)}};

const std::vector<Segment> kOne = {{Seconds(20e-6), BytesPerSecond(100e9)}};

/// Standard errors of a line's two parameters under relative noise sigma: the diagonal of sigma^2
/// (A'A)^-1 with rows (1/t, s/t), over the points where this line is the cheapest.
std::pair<double, double> standard_errors(const std::vector<Segment>& truth, std::size_t which,
                                          const std::vector<Bytes>& sizes, double sigma) {
  double a = 0, b = 0, d = 0;
  for (const Bytes size : sizes) {
    if (cheapest_segment(truth, size) != which) continue;
    const double t = predict(truth, size).value(), s = size.value();
    a += 1 / (t * t);
    b += s / (t * t);
    d += s * s / (t * t);
  }
  const double determinant = a * d - b * b;
  return {sigma * std::sqrt(d / determinant), sigma * std::sqrt(a / determinant)};
}

void check_segments(const std::vector<Segment>& got, const std::vector<Segment>& expected,
                    double tolerance) {
  BOOST_REQUIRE_EQUAL(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    BOOST_TEST(std::abs(got[i].latency / expected[i].latency - 1) < tolerance);
    BOOST_TEST(std::abs(got[i].rate.value() / expected[i].rate.value() - 1) < tolerance);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_regime_without_noise_comes_back_to_1e_9) {
  const SegmentFit fit = fit_segments(points_of(kOne, doubling_sizes()));
  check_segments(fit.segments, kOne, 1e-9);
  BOOST_TEST(fit.knees.empty());
  BOOST_TEST(summarize_errors(fit.residuals).max < 1e-9);
}

BOOST_AUTO_TEST_CASE(three_regimes_and_their_knees_come_back_to_1e_9) {
  const SegmentFit fit = fit_segments(points_of(kThree, doubling_sizes()));
  check_segments(fit.segments, kThree, 1e-9);
  BOOST_REQUIRE_EQUAL(fit.knees.size(), 2u);
  BOOST_TEST(fit.knees[0].value() == 30e-6 / (1 / 2e9 - 1 / 40e9),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(fit.knees[1].value() == 8e6, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(regimes_hand_over_where_they_cost_the_same) {
  const SegmentFit fit = fit_segments(points_of(kThree, doubling_sizes(), 0.01, 7));
  for (std::size_t i = 0; i < fit.knees.size(); ++i) {
    const Segment &low = fit.segments[i], &high = fit.segments[i + 1];
    const Seconds before = low.latency + fit.knees[i] / low.rate,
                  after = high.latency + fit.knees[i] / high.rate;
    BOOST_TEST(before.value() == after.value(), boost::test_tools::tolerance(1e-9));
  }
}

// Each parameter lies within 4 standard errors of the truth; Huber's estimator has 95 % of the
// efficiency of least squares, so its errors are sqrt(1 / 0.95) times as large; and a point beside
// a knee, which may be counted to the wrong side, pulls a regime by no more than one standard error
// again.
BOOST_DATA_TEST_CASE(three_regimes_come_back_within_the_noise, data::xrange(1, 21), seed) {
  const double sigma = 0.01;
  const auto sizes = doubling_sizes(4096, 23);
  const SegmentFit fit =
      fit_segments(points_of(kThree, sizes, sigma, static_cast<std::uint64_t>(seed)));
  BOOST_REQUIRE_EQUAL(fit.segments.size(), kThree.size());
  for (std::size_t i = 0; i < kThree.size(); ++i) {
    const auto [of_latency, of_slope] = standard_errors(kThree, i, sizes, sigma);
    const double allowed = 5 * std::sqrt(1 / 0.95);
    BOOST_TEST(std::abs((fit.segments[i].latency - kThree[i].latency).value()) <
               allowed * of_latency);
    BOOST_TEST(std::abs(1 / fit.segments[i].rate.value() - 1 / kThree[i].rate.value()) <
               allowed * of_slope);
  }
}

BOOST_AUTO_TEST_CASE(noise_does_not_buy_a_second_regime) {
  int too_many = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    too_many += fit_segments(points_of(kOne, doubling_sizes(), 0.02, seed)).segments.size() > 1;
  }
  BOOST_TEST_MESSAGE("fits of one regime that found more: " << too_many << " of 40");
  BOOST_TEST(too_many <= 2);
}

// However wild, a point pulls no more than one that is off by Huber's limit, which is 1.345 * 5e-4
// where the rest has no noise; no parameter of a line over 20 points follows a point by more than
// twice that.
BOOST_DATA_TEST_CASE(one_wild_point_hardly_moves_the_fit, data::make({0.2, 1.7, 3.0, 50.0}),
                     factor) {
  auto points = points_of(kOne, doubling_sizes(4096, 20));
  points[7].time *= factor;
  const SegmentFit fit = fit_segments(points);
  check_segments(fit.segments, kOne, 2 * 1.345 * 5e-4);
  BOOST_TEST(summarize_errors(fit.residuals).max > 0.1);  // and it stands in the residuals
}

BOOST_AUTO_TEST_CASE(latencies_and_rates_rise_from_regime_to_regime) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const SegmentFit fit = fit_segments(points_of(kThree, doubling_sizes(), 0.1, seed));
    for (std::size_t i = 1; i < fit.segments.size(); ++i) {
      BOOST_TEST(fit.segments[i].latency.value() > fit.segments[i - 1].latency.value());
      BOOST_TEST(fit.segments[i].rate.value() > fit.segments[i - 1].rate.value());
    }
  }
}

BOOST_AUTO_TEST_CASE(more_bytes_never_take_less_time) {
  const SegmentFit fit = fit_segments(points_of(kThree, doubling_sizes(), 0.2, 3));
  Seconds last(0);
  for (double size = 1; size < 1e11; size *= 1.1) {
    const Seconds time = predict(fit.segments, Bytes(size));
    BOOST_TEST(time.value() > last.value());
    last = time;
  }
}

BOOST_AUTO_TEST_CASE(held_out_errors_are_those_of_points_unseen) {
  // Without noise, half of the points say all; with it, an unseen point is off by its own noise and
  // the fit's: the median of |N(0, sigma)| is 0.6745 sigma.
  for (const PointError& e : held_out_errors(points_of(kThree, doubling_sizes())))
    BOOST_TEST(e.error < 1e-9);
  const double sigma = 0.02;
  const auto errors = held_out_errors(points_of(kThree, doubling_sizes(4096, 24), sigma, 5));
  BOOST_TEST(errors.size() == 24u);
  const double median = summarize_errors(errors).median;
  BOOST_TEST(median > 0.6745 * sigma / 3);
  BOOST_TEST(median < 0.6745 * sigma * 3);
}

BOOST_AUTO_TEST_CASE(a_wild_point_is_wild_when_held_out) {
  auto points = points_of(kOne, doubling_sizes(4096, 20));
  points[8].time *= 2;
  // Predicted t against a measured 2 t.
  BOOST_TEST(summarize_errors(held_out_errors(points)).max == 0.5,
             boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(several_points_of_one_size_count_as_their_median) {
  auto points = points_of(kThree, doubling_sizes(4096, 23));
  const SegmentFit once = fit_segments(points);
  for (const TimedSize& p : std::vector<TimedSize>(points)) {
    points.push_back({p.size, p.time * 0.5});
    points.push_back({p.size, p.time * 9});
  }
  check_segments(fit_segments(points).segments, once.segments, 1e-12);
}

BOOST_AUTO_TEST_CASE(the_order_of_the_points_does_not_matter) {
  auto points = points_of(kThree, doubling_sizes(), 0.05, 2);
  const SegmentFit forward = fit_segments(points);
  std::reverse(points.begin(), points.end());
  check_segments(fit_segments(points).segments, forward.segments, 1e-15);
}

BOOST_AUTO_TEST_CASE(errors_are_summed_up_by_median_nearest_rank_and_maximum) {
  std::vector<PointError> errors;
  for (int i = 1; i <= 10; ++i) errors.push_back({Bytes(i), i / 100.0});
  const FitErrors all = summarize_errors(errors);
  BOOST_TEST(all.median == 0.055, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(all.p90 == 0.09);
  BOOST_TEST(all.max == 0.10);
  BOOST_TEST(summarize_errors(errors, Bytes(8)).median == 0.09);
  BOOST_TEST(summarize_errors(errors, Bytes(11)).max == 0);
}

BOOST_AUTO_TEST_CASE(a_sweep_in_equal_steps_of_1000_sizes_is_fitted_too) {
  std::vector<Bytes> sizes;
  for (int i = 1; i <= 1000; ++i) sizes.push_back(Bytes(i * 65536.0));
  const SegmentFit fit = fit_segments(points_of(kThree, sizes, 0.01, 4));
  BOOST_TEST(fit.segments.back().rate.value() == 200e9, boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_fitted_is_refused) {
  const auto says = [](const char* text) {
    return [text](const std::invalid_argument& error) { return std::string(error.what()) == text; };
  };
  const auto points = points_of(kOne, doubling_sizes(4096, 3));
  BOOST_CHECK_EXCEPTION(fit_segments(points), std::invalid_argument,
                        says("too few sizes to fit a curve"));
  BOOST_CHECK_EXCEPTION(held_out_errors(points_of(kOne, doubling_sizes(4096, 7))),
                        std::invalid_argument, says("too few sizes to leave half of them out"));
  auto falling = points_of(kOne, doubling_sizes(4096, 8));
  for (TimedSize& p : falling) p.time = Seconds(1 / p.size.value());
  BOOST_CHECK_EXCEPTION(fit_segments(falling), std::invalid_argument,
                        says("the times do not grow with size"));
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    auto broken = points_of(kOne, doubling_sizes());
    broken[3].time = Seconds(bad);
    BOOST_CHECK_EXCEPTION(fit_segments(broken), std::invalid_argument,
                          says("sizes and times must be positive"));
  }
}
