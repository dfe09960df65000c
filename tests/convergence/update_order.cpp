#include "convergence/update_order.hpp"

#include <boost/random/uniform_int_distribution.hpp>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "base/random.hpp"
#include "convergence/stability.hpp"

BOOST_AUTO_TEST_SUITE(update_order_test)

using namespace rehearse;
namespace data = boost::unit_test::data;

BOOST_DATA_TEST_CASE(a_constant_staleness_has_the_edge_of_its_closed_form_to_1_percent,
                     data::make({0, 1, 3, 15}) * data::make({0.0, 0.9}), k, momentum) {
  const std::vector<std::uint32_t> staleness(10, static_cast<std::uint32_t>(k));
  const double expected =
      stability_edge(constant_staleness(static_cast<std::size_t>(k)), {momentum});
  BOOST_TEST(std::abs(ordered_stability_edge(staleness, {momentum}) / expected - 1) < 0.01);
}

// x -> x - N a x per burst: stable up to N a = 2.
BOOST_DATA_TEST_CASE(a_burst_of_n_gradients_of_one_read_is_stable_up_to_2_over_n,
                     data::make({2, 4, 8, 16}), workers) {
  std::vector<std::uint32_t> staleness;
  for (int k = 0; k < workers; ++k) staleness.push_back(static_cast<std::uint32_t>(k));
  BOOST_TEST(std::abs(ordered_stability_edge(staleness) * workers / 2 - 1) < 0.01);
}

BOOST_AUTO_TEST_CASE(updates_in_bursts_are_less_stable_than_the_same_in_no_order) {
  std::vector<std::uint32_t> bursts, shuffled;
  RandomStream stream = random_stream(1, "order");
  boost::random::uniform_int_distribution<std::uint32_t> any(0, 7);
  for (std::uint32_t i = 0; i < 4000; ++i) {
    bursts.push_back(i % 8);
    shuffled.push_back(any(stream));
  }
  BOOST_TEST(order_factor(bursts) < 0.6);
  BOOST_TEST(order_factor(shuffled) > 0.95);
  BOOST_TEST(order_factor({}) == 1.0);
}

// x -> x (1 - a), then less a ((1 - f) x + f x (1 - a)): x (1 - 2 a + f a^2), at least -1 up to
// (1 - sqrt(1 - 2 f)) / f, for f = 1 to 2.
BOOST_DATA_TEST_CASE(a_compensated_burst_of_two_has_its_closed_form,
                     data::make({0.25, 0.4, 1.0}) ^ data::make({1.1716, 1.3820, 2.0}), part, edge) {
  const Descent descent{.momentum = 0, .curvature_noise = 0, .compensation = part};
  BOOST_TEST(std::abs(ordered_stability_edge({0, 1}, descent) / edge - 1) < 0.01);
}

BOOST_AUTO_TEST_SUITE_END()
