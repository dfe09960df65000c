#include "study/progress_bar.hpp"

#include <boost/test/unit_test.hpp>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(progress_bar_test)
namespace {

BOOST_AUTO_TEST_CASE(a_bar_counts_points_and_estimates_by_simulations) {
  // 4 of 10 simulations took 20 s: the other 6 take 30 s more.
  BOOST_TEST(progress_text({.done = 15, .all = 30, .failed = 2, .simulated = 4, .to_simulate = 10},
                           Seconds(20)) ==
             "[###############...............] 15 of 30, 2 failed, 30.0 s left");
}

BOOST_AUTO_TEST_CASE(where_all_points_are_alike_each_counts) {
  BOOST_TEST(progress_text({.done = 2, .all = 10}, Seconds(5)) ==
             "[######........................] 2 of 10, 20.0 s left");
}

BOOST_AUTO_TEST_CASE(what_may_turn_out_to_be_needless_is_said) {
  BOOST_TEST(
      progress_text({.done = 8, .all = 16, .simulated = 4, .to_simulate = 12, .at_most = true},
                    Seconds(8)) ==
      "[###############...............] 8 of at most 16, at most 16.0 s left");
}

BOOST_AUTO_TEST_CASE(without_a_simulation_there_is_no_estimate) {
  BOOST_TEST(progress_text({.done = 0, .all = 3, .to_simulate = 3}, Seconds(1)) ==
             "[..............................] 0 of 3");
  BOOST_TEST(progress_text({.done = 3, .all = 3, .simulated = 3, .to_simulate = 3}, Seconds(1)) ==
             "[##############################] 3 of 3");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
