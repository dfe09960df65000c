// Times of an inline model at another batch, precision or GPU than they were measured at.
#include "cost/given_times.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "profile/compute_error.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(given_times_test)
namespace {

Gpu gpu_of(const std::string& name, double tflops, double terabytes) {
  Gpu gpu;
  gpu.name = name;
  gpu.fp32 = FlopsPerSecond(tflops * 1e12);
  gpu.bf16 = FlopsPerSecond(2 * tflops * 1e12);
  gpu.memory_bandwidth = BytesPerSecond(terabytes * 1e12);
  return gpu;
}

const Gpu kOld = gpu_of("old", 10, 1), kNew = gpu_of("new", 90, 4);
/// Every share is 1, so that ratios are those of the datasheets.
const AnalyticEfficiency kPeak = {.matrix = 1, .memory = 1, .kernel_launch = Seconds(0)};

/// One unit of a million parameters: 4 us to read at 1 TB/s.
Model model() {
  Model model;
  model.units.resize(1);
  model.units[0].tensors = {1000000};
  model.units[0].forward = Seconds(100e-6);
  model.units[0].backward = Seconds(200e-6);
  model.optimizer_time = Seconds(40e-6);
  return model;
}

StepCosts scaled(const Gpu& gpu, Precision precision, std::int64_t batch) {
  const Model given = model();
  const StepCosts costs = step_costs(given, gpu, precision, batch, {}, kPeak);
  return scaled_given(costs, {.batch = 4, .precision = Precision::fp32, .gpu = kOld},
                      {given, gpu, precision, batch, kPeak});
}

bool close(double value, double expected) {
  return std::abs(value - expected) <= 1e-12 * std::abs(expected);
}

BOOST_AUTO_TEST_CASE(times_stay_where_they_were_measured) {
  const StepCosts costs = scaled(kOld, Precision::fp32, 4);
  BOOST_TEST(costs.units[0].forward.value() == 100e-6);
  BOOST_TEST(costs.uncertainty == 0);
  BOOST_TEST(costs.outside.empty());
}

BOOST_AUTO_TEST_CASE(sixteen_times_the_batch_takes_as_many_times_as_long) {
  const StepCosts costs = scaled(kOld, Precision::fp32, 64);
  BOOST_TEST(close(costs.units[0].forward.value(), 1600e-6));
  BOOST_TEST(close(costs.units[0].backward.value(), 3200e-6));
  BOOST_TEST(close(costs.optimizer.value(), 40e-6));
  BOOST_TEST(close(costs.uncertainty, 4 * kUntestedExtrapolation));
  BOOST_REQUIRE(costs.outside.size() == 1u);
  BOOST_TEST(costs.outside[0] ==
             "compute: times of batch 4 in fp32 on old, scaled to batch 64 in fp32 on old");
}

BOOST_AUTO_TEST_CASE(no_batch_is_faster_than_its_weights_are_read) {
  Model small = model();
  small.units[0].forward = Seconds(8e-6);
  const StepCosts costs = step_costs(small, kOld, Precision::fp32, 1, {}, kPeak);
  const StepCosts one = scaled_given(costs, {.batch = 4, .precision = Precision::fp32, .gpu = kOld},
                                     {small, kOld, Precision::fp32, 1, kPeak});
  BOOST_TEST(close(one.units[0].forward.value(), 4e-6));
}

// Products are 9 times as fast, memory 4 times: 6 times, give or take ln(9/4)/2.
BOOST_AUTO_TEST_CASE(another_gpu_lies_between_what_products_and_traffic_say) {
  const StepCosts costs = scaled(kNew, Precision::fp32, 4);
  BOOST_TEST(close(costs.units[0].forward.value(), 100e-6 / 6));
  BOOST_TEST(close(costs.optimizer.value(), 10e-6));
  BOOST_TEST(close(costs.uncertainty, std::hypot(kTransferError, std::log(9.0 / 4) / 2)));
}

// Half the bytes and twice the rate.
BOOST_AUTO_TEST_CASE(another_precision_scales_traffic_and_rates) {
  const StepCosts costs = scaled(kOld, Precision::bf16, 4);
  BOOST_TEST(close(costs.units[0].forward.value(), 50e-6));
  BOOST_TEST(close(costs.uncertainty, kTransferError));
}

BOOST_AUTO_TEST_CASE(activations_grow_with_the_batch_and_shrink_with_the_format) {
  const GivenAt at{.batch = 4, .precision = Precision::fp32, .gpu = kOld};
  BOOST_TEST(activation_ratio(at, Precision::fp32, 64) == 16);
  BOOST_TEST(activation_ratio(at, Precision::bf16, 4) == 0.5);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
