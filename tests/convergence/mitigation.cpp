// Momentum correction, from its definition.
#include "convergence/mitigation.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

BOOST_AUTO_TEST_SUITE(mitigation_test)

using namespace rehearse;

BOOST_AUTO_TEST_CASE(one_worker_keeps_its_momentum) {
  const MomentumAndRate same = corrected_momentum({0.9, 0.1}, 1);
  BOOST_TEST(std::abs(same.momentum - 0.9) < 1e-9);
  BOOST_TEST(std::abs(same.learning_rate - 0.1) < 1e-9);
}

BOOST_AUTO_TEST_CASE(delay_and_momentum_together_remember_as_much_as_the_momentum_asked_for) {
  // m = 0.9 remembers 9 updates; four workers' delay is 3 of them, which leaves 6: m' = 6 / 7.
  const MomentumAndRate corrected = corrected_momentum({0.9, 0.1}, 4);
  BOOST_TEST(std::abs(corrected.momentum - 6.0 / 7) < 1e-9);
  // A constant gradient leads as far: rate / (1 - m) = 1.
  BOOST_TEST(std::abs(corrected.learning_rate / (1 - corrected.momentum) - 1) < 1e-9);
}

BOOST_AUTO_TEST_CASE(momentum_is_never_negative) {
  const MomentumAndRate corrected = corrected_momentum({0.5, 0.1}, 8);
  BOOST_TEST(corrected.momentum == 0);
  BOOST_TEST(std::abs(corrected.learning_rate - 0.2) < 1e-9);
}

BOOST_AUTO_TEST_SUITE_END()
