// What one GPU was measured to train, which computed costs are scaled to.
#include "cost/whole_step.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

namespace rehearse {
namespace {

/// Two units of 3 and 6 ms, and an optimizer of 2 ms.
StepCosts computed() {
  StepCosts costs;
  costs.units.resize(2);
  costs.units[0].forward = Seconds(1e-3);
  costs.units[0].backward = Seconds(2e-3);
  costs.units[1].forward = Seconds(2e-3);
  costs.units[1].backward = Seconds(4e-3);
  costs.units[1].activation = Bytes(4096);
  costs.optimizer = Seconds(2e-3);
  costs.origin = "analytic";
  return costs;
}

bool close(double value, double expected) {
  return std::abs(value - expected) <= 1e-12 * std::abs(expected);
}

BOOST_AUTO_TEST_CASE(a_step_is_all_micro_batches_and_one_update) {
  BOOST_TEST(close(step_time(computed(), 1).value(), 11e-3));
  BOOST_TEST(close(step_time(computed(), 4).value(), 38e-3));
}

BOOST_AUTO_TEST_CASE(the_scaled_step_takes_as_long_as_was_measured) {
  const WholeStep measured{.samples_per_s = 100, .batch = 8, .micro_batches = 4};
  const StepCosts scaled = scaled_to(computed(), computed(), measured);
  BOOST_TEST(close(step_time(scaled, 4).value(), 0.32));
  BOOST_TEST(to_string(scaled.provenance) == "measured");
  BOOST_TEST(scaled.origin == "measured (whole step)");
  BOOST_REQUIRE(scaled.assumptions.size() == 1u);
  BOOST_TEST(scaled.assumptions[0].find("times 8.421") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(shares_and_bytes_stay_as_they_were) {
  const WholeStep measured{.samples_per_s = 100, .batch = 8, .micro_batches = 4};
  const StepCosts scaled = scaled_to(computed(), computed(), measured);
  BOOST_TEST(close(scaled.units[1].backward / scaled.units[0].forward, 4));
  BOOST_TEST(close(scaled.optimizer / scaled.units[0].backward, 1));
  BOOST_TEST(scaled.units[1].activation.value() == 4096);
}

// The factor is found where it was measured and holds for every other batch.
BOOST_AUTO_TEST_CASE(another_batch_takes_the_factor_of_the_measured_one) {
  StepCosts twice = computed();
  for (UnitCost& unit : twice.units) {
    unit.forward = unit.forward * 2;
    unit.backward = unit.backward * 2;
  }
  const WholeStep measured{.samples_per_s = 8 / 22e-3, .batch = 8};  // half as fast as computed
  const StepCosts scaled = scaled_to(twice, computed(), measured);
  BOOST_TEST(close(scaled.units[0].forward.value(), 4e-3));
  BOOST_TEST(close(step_time(scaled, 1).value(), 40e-3));
}

}  // namespace
}  // namespace rehearse
