#include "economy/start.hpp"

#include <boost/random/exponential_distribution.hpp>
#include <boost/random/mersenne_twister.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(start_test)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-12);

StartOptions listed(bool elastic) {
  return {.elastic = elastic,
          .arrivals = {.at = {Seconds(0), Seconds(30), Seconds(60), Seconds(150)}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_gang_starts_with_the_last_node) {
  const StartForecast start = forecast_start(listed(false), 4);
  BOOST_TEST(start.first_step.value() == 150);
  BOOST_TEST(start.delay.value() == 150);
  BOOST_TEST(start.done_meanwhile.value() == 0);
  BOOST_TEST(start.mean_wait.value() == (150 + 120 + 90 + 0) / 4.0, kExact);
}

BOOST_AUTO_TEST_CASE(an_elastic_job_trains_with_the_share_that_is_there) {
  // A quarter for 30 s, a half for 30 s, three quarters for 90 s: 90 s of all until 150 s.
  const StartForecast start = forecast_start(listed(true), 4);
  BOOST_TEST(start.first_step.value() == 0);
  BOOST_TEST(start.done_meanwhile.value() == 30 * 0.25 + 30 * 0.5 + 90 * 0.75, kExact);
  BOOST_TEST(start.delay.value() == 150 - start.done_meanwhile.value(), kExact);
  BOOST_TEST(start.mean_wait.value() == 0);
}

BOOST_AUTO_TEST_CASE(the_last_of_exponential_arrivals_comes_after_a_harmonic_number_of_means) {
  StartOptions options{.arrivals = {.kind = Arrivals::Kind::exponential, .time = Seconds(60)}};
  // H_4 = 25/12
  BOOST_TEST(forecast_start(options, 4).delay.value() == 60 * 25 / 12.0, kExact);
  options.elastic = true;
  BOOST_TEST(forecast_start(options, 4).first_step.value() == 15, kExact);
  BOOST_TEST(forecast_start(options, 4).delay.value() == 60, kExact);
  // (1 - exp(-t))^4 = 0.95
  const double high = forecast_start(options, 4).all_there_spread.high.value() / 60;
  BOOST_TEST(std::pow(1 - std::exp(-high), 4) == 0.95, kExact);
}

BOOST_AUTO_TEST_CASE(drawn_arrivals_agree_with_the_closed_form) {
  boost::random::mt19937_64 generator(3);
  const boost::random::exponential_distribution<double> arrival(1 / 60.0);
  constexpr int kDraws = 20000, kNodes = 32;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    double last = 0;
    for (int node = 0; node < kNodes; ++node) last = std::max(last, arrival(generator));
    sum += last;
  }
  const StartOptions options{
      .arrivals = {.kind = Arrivals::Kind::exponential, .time = Seconds(60)}};
  BOOST_TEST(sum / kDraws == forecast_start(options, kNodes).all_there.value(),
             boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(uniform_arrivals_leave_equal_gaps) {
  StartOptions options{.elastic = true,
                       .arrivals = {.kind = Arrivals::Kind::uniform, .time = Seconds(100)}};
  const StartForecast start = forecast_start(options, 4);
  BOOST_TEST(start.first_step.value() == 20, kExact);
  BOOST_TEST(start.all_there.value() == 80, kExact);
  BOOST_TEST(start.delay.value() == 50, kExact);
  BOOST_TEST(start.all_there_spread.low.value() == 100 * std::pow(0.05, 0.25), kExact);
}

BOOST_AUTO_TEST_SUITE_END()
