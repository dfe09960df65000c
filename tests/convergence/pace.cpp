#include "convergence/pace.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <limits>

using namespace rehearse;
namespace data = boost::unit_test::data;

BOOST_AUTO_TEST_SUITE(pace_test)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-12);

// Two workers' updates of 10 samples, of which the last two come late: one worker is alone then.
Pace ending_run() {
  return {.samples_per_s = 20,
          .samples_per_update = 10,
          .applied = {Seconds(1), Seconds(1.5), Seconds(3), Seconds(5)}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(at_a_rate_time_and_samples_are_proportional) {
  const Pace pace{.samples_per_s = 20};
  BOOST_TEST(pace.time_to(30).value() == 1.5, kExact);
  BOOST_TEST(pace.samples_by(Seconds(1.5)) == 30, kExact);
}

BOOST_AUTO_TEST_CASE(a_known_run_takes_as_long_as_its_updates) {
  const Pace pace = ending_run();
  BOOST_TEST(pace.time_to(0).value() == 0);
  BOOST_TEST(pace.time_to(5).value() == 0.5, kExact);
  BOOST_TEST(pace.time_to(10).value() == 1, kExact);
  BOOST_TEST(pace.time_to(25).value() == 2.25, kExact);
  BOOST_TEST(pace.time_to(40).value() == 5, kExact);
}

BOOST_AUTO_TEST_CASE(what_goes_beyond_its_end_goes_on_at_the_rate) {
  BOOST_TEST(ending_run().time_to(50).value() == 5.5, kExact);
  BOOST_TEST(ending_run().samples_by(Seconds(5.5)) == 50, kExact);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  BOOST_TEST(ending_run().time_to(kNever).value() == kNever);
}

BOOST_DATA_TEST_CASE(samples_by_a_time_are_those_that_take_so_long,
                     data::make({0.3, 1.0, 1.2, 1.5, 2.9, 3.0, 4.5, 5.0, 7.0}), time) {
  const Pace pace = ending_run();
  BOOST_TEST(pace.time_to(pace.samples_by(Seconds(time))).value() == time, kExact);
}

BOOST_AUTO_TEST_CASE(updates_of_one_moment_all_count_by_then) {
  const Pace pace{
      .samples_per_s = 1, .samples_per_update = 2, .applied = {Seconds(1), Seconds(1), Seconds(2)}};
  BOOST_TEST(pace.samples_by(Seconds(1)) == 4, kExact);
  BOOST_TEST(pace.time_to(4).value() == 1, kExact);
}

BOOST_AUTO_TEST_SUITE_END()
