// What one GPU was measured to train, which computed costs are scaled to.
#include "cost/whole_step.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(whole_step_test)
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

// Recomputation is part of what was measured: 1 + 2 + 1 ms, 6 ms and 2 ms of optimizer.
BOOST_AUTO_TEST_CASE(a_checkpointed_unit_computes_its_forward_twice) {
  BOOST_TEST(close(step_time(computed(), 1, {true, false}).value(), 12e-3));
  const WholeStep measured{.samples_per_s = 8 / 24e-3, .batch = 8};
  const StepCosts scaled = scaled_to(computed(), computed(), measured, {true, false});
  BOOST_TEST(close(scaled.units[0].forward.value(), 2e-3));
  BOOST_TEST(close(step_time(scaled, 1, {true, false}).value(), 24e-3));
}

// 30 FLOPs a sample, 10 more where forward is computed again; fp32 at 1 kFLOP/s.
BOOST_AUTO_TEST_CASE(a_measured_rate_is_held_against_the_peak_of_each_gpu) {
  Model model;
  model.units.resize(1);
  model.units[0].operators = {
      {.kind = OperatorKind::matmul, .forward_flops = 10, .backward_flops = 20}};
  Gpu gpu;
  gpu.fp32 = FlopsPerSecond(1e3);
  const auto asked = [&](const WholeStep& measured, const std::vector<bool>& checkpointed) {
    return asked_of_peak(measured, model, gpu, Precision::fp32, checkpointed)->asked.value();
  };
  BOOST_TEST(close(asked({.samples_per_s = 50}, {}), 1500));
  BOOST_TEST(close(asked({.samples_per_s = 50}, {true}), 2000));
  BOOST_TEST(close(asked({.samples_per_s = 400, .gpus = 8}, {}), 1500));
  const auto one = asked_of_peak({.samples_per_s = 1}, model, gpu, Precision::fp32, {});
  BOOST_TEST(close(one->peak.value(), 1e3));
  model.units[0].operators.clear();
  BOOST_TEST(!asked_of_peak({.samples_per_s = 1e9}, model, gpu, Precision::fp32, {}).has_value());
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
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
