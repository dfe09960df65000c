// Costs that a profile measured: as they are on its own device, and carried over to another one by
// ratios that are worked out by hand.
#include "cost/profiled.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "profile/compute_error.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(profiled_test)
namespace {

/// A device of 10 TFLOP/s and 1 TB/s, and one of twice the arithmetic and 1.6 times the memory
/// rate.
Gpu gpu_of(const std::string& name, double tflops, double terabytes) {
  return {.name = name,
          .fp32 = FlopsPerSecond(tflops * 1e12),
          .tf32 = {},
          .fp16 = {},
          .bf16 = {},
          .memory = {},
          .memory_bandwidth = BytesPerSecond(terabytes * 1e12),
          .source = "made up"};
}
const Gpu kSlow = gpu_of("slow", 10, 1), kFast = gpu_of("fast", 20, 1.6);

/// Everything reaches its peak; a kernel takes 4 us.
constexpr AnalyticEfficiency kPeak = {
    .matrix = 1, .depthwise = 1, .attention = 1, .memory = 1, .kernel_launch = Seconds(4e-6)};

/// A unit of 2 and 3 ms, of 5 million parameters.
UnitTimes unit_times(double flops, double moved) {
  return {.name = "unit",
          .forward = Seconds(2e-3),
          .backward = Seconds(3e-3),
          .forward_launch = Seconds(1e-6),
          .backward_launch = Seconds(2e-6),
          .saved = Bytes(1000),
          .workspace = Bytes(100),
          .forward_flops = Flops(flops),
          .backward_flops = Flops(flops),
          .forward_moved = Bytes(moved),
          .backward_moved = Bytes(moved)};
}

BatchPoint point_of(std::int64_t batch, const UnitTimes& times) {
  BatchPoint point;
  point.batch = batch;
  point.whole = {.forward = times.forward, .backward = times.backward, .optimizer = {}, .step = {}};
  point.units = {times};
  return point;
}

ComputeProfile profile_of(const UnitTimes& times) {
  ComputeProfile profile;
  profile.origin.device = "slow";
  profile.model = "toy";
  profile.sequence = 128;
  profile.units = {{"unit", {4'000'000, 1'000'000}, 0}};
  profile.optimizers = {{"sgd", Seconds(1e-3), 0, 1}};
  profile.points = {point_of(8, times)};
  return profile;
}

CostSource source_of(const ComputeProfile& profile, std::optional<Gpu> device = std::nullopt) {
  return {std::make_shared<const ComputeProfile>(profile), "toy.yaml", std::move(device)};
}

Model toy_model() {
  Model model;
  model.name = "toy";
  model.tokens_per_sample = 128;
  model.units.emplace_back();
  model.units[0].name = "unit";
  model.units[0].tensors = {5'000'000};
  return model;
}

StepCosts costs_from(const CostSource& source, std::int64_t batch = 8,
                     const Optimizer& optimizer = {}, const Model& model = toy_model()) {
  return step_costs(model, kFast, Precision::fp32, batch, optimizer, kPeak, &source);
}

/// By how much a unit of this work is scaled from the slow device to the fast one, forward.
double scale_of(const UnitTimes& times) {
  const StepCosts costs = costs_from(source_of(profile_of(times), kSlow));
  return costs.units[0].forward / times.forward;
}

bool contains(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

const auto kExact = boost::test_tools::tolerance(1e-12);

BOOST_AUTO_TEST_CASE(on_its_own_device_a_profile_is_taken_as_it_is) {
  const StepCosts costs = costs_from(source_of(profile_of(unit_times(1e10, 1e8))));
  const UnitCost& unit = costs.units.at(0);
  BOOST_TEST(unit.forward.value() == 2e-3);
  BOOST_TEST(unit.backward.value() == 3e-3);
  BOOST_TEST(unit.forward_launch.value() == 1e-6);
  BOOST_TEST(unit.backward_launch.value() == 2e-6);
  BOOST_TEST(unit.activation.value() == 1000);
  BOOST_TEST(unit.workspace.value() == 100);
  BOOST_TEST(costs.optimizer.value() == 1e-3);
  BOOST_TEST((costs.provenance == Provenance::measured));
  BOOST_TEST(costs.origin == "measured (toy.yaml)");
  BOOST_TEST(costs.outside.empty());
  for (const char* analytic : {"roofline", "no kernel needs memory", "layout", "foreach"}) {
    BOOST_TEST(!contains(costs.assumptions, analytic), analytic);
  }
}

BOOST_AUTO_TEST_CASE(a_batch_that_was_not_measured_is_outside) {
  const CostSource source = source_of(profile_of(unit_times(1e10, 1e8)));
  const StepCosts costs = costs_from(source, 16);
  BOOST_TEST(costs.units[0].forward.value() == 4e-3);
  BOOST_TEST(
      (costs.outside == std::vector<std::string>{"compute: batch 16 from batch 8 (toy.yaml)"}));
}

BOOST_AUTO_TEST_CASE(batches_between_measured_ones_lie_on_the_line) {
  ComputeProfile profile = profile_of(unit_times(1e10, 1e8));
  UnitTimes larger = profile.points[0].units[0];
  larger.forward = Seconds(6e-3);
  larger.saved = Bytes(3000);
  profile.points.push_back(point_of(24, larger));
  const StepCosts costs = costs_from(source_of(profile), 12);
  BOOST_TEST(costs.units[0].forward.value() == 3e-3, kExact);
  BOOST_TEST(costs.units[0].activation.value() == 1500, kExact);
  BOOST_TEST(costs.outside.empty());
}

BOOST_AUTO_TEST_CASE(an_optimizer_that_was_not_measured_is_computed) {
  const CostSource source = source_of(profile_of(unit_times(1e10, 1e8)));
  for (const Optimizer& optimizer :
       {Optimizer{OptimizerKind::adam}, Optimizer{OptimizerKind::sgd, true}}) {
    const StepCosts costs = costs_from(source, 8, optimizer);
    // 5 million parameters over 1.6 TB/s.
    BOOST_TEST(
        costs.optimizer.value() == 5e6 * optimizer_bytes_per_parameter(optimizer).value() / 1.6e12,
        kExact);
    BOOST_TEST(contains(costs.outside, "toy.yaml did not measure " + to_string(optimizer)));
  }
}

BOOST_AUTO_TEST_CASE(a_unit_is_scaled_by_what_bounds_it) {
  // 1 ms of arithmetic against 0.1 ms of traffic; twice the arithmetic rate.
  BOOST_TEST(scale_of(unit_times(1e10, 1e8)) == 0.5, kExact);
  // 1 ms of traffic against 0.1 ms of arithmetic; 1.6 times the memory rate.
  BOOST_TEST(scale_of(unit_times(1e9, 1e9)) == 0.625, kExact);
  // 0.1 us of each: launches bind it on both.
  BOOST_TEST(scale_of(unit_times(1e6, 1e5)) == 1, kExact);
  // 1 ms of arithmetic becomes 0.5, but 0.9 ms of traffic becomes 0.5625.
  BOOST_TEST(scale_of(unit_times(1e10, 9e8)) == 0.5625, kExact);
  // Its launches take 2 ms on the CPU, whatever the device.
  UnitTimes launched = unit_times(1e10, 1e8);
  launched.forward_launch = Seconds(2e-3);
  BOOST_TEST(scale_of(launched) == 1, kExact);
}

BOOST_AUTO_TEST_CASE(a_model_with_operators_is_scaled_operator_by_operator) {
  Model model = toy_model();
  // 8 samples: two launches of 4 us, 1 ms of products and a small kernel; 0.5 ms and the same.
  model.units[0].operators = {
      {.kind = OperatorKind::matmul, .forward_flops = 1.25e9, .backward_flops = 1.25e9},
      {.kind = OperatorKind::elementwise, .forward_elements = 10, .backward_elements = 10}};
  const CostSource source = source_of(profile_of(unit_times(1e6, 1e5)), kSlow);
  const UnitCost unit = costs_from(source, 8, {}, model).units.at(0);
  const double bytes = 8 * 10 * 4, ratio = (508e-6 + bytes / 1.6e12) / (1008e-6 + bytes / 1e12);
  BOOST_TEST(unit.forward.value() == 2e-3 * ratio, kExact);
  BOOST_TEST(unit.backward.value() == 3e-3 * ratio, kExact);
}

BOOST_AUTO_TEST_CASE(what_is_carried_over_says_so) {
  const StepCosts costs = costs_from(source_of(profile_of(unit_times(1e10, 1e8)), kSlow));
  BOOST_TEST(costs.optimizer.value() == 1e-3 / 1.6, kExact);
  BOOST_TEST(costs.units[0].activation.value() == 1000);
  BOOST_TEST(costs.units[0].workspace.value() == 100);
  BOOST_TEST(costs.units[0].forward_launch.value() == 1e-6);
  BOOST_TEST((costs.provenance == Provenance::transferred));
  BOOST_TEST(costs.origin == "transferred from slow (toy.yaml)");
  BOOST_TEST(contains(costs.outside, "compute: transferred from slow (toy.yaml)"));
  BOOST_TEST(contains(costs.assumptions, "its roofline on fast over that on slow (made up)"));
}

BOOST_AUTO_TEST_CASE(a_device_is_carried_over_to_itself_unchanged) {
  const CostSource source = source_of(profile_of(unit_times(1e10, 9e8)), kFast);
  BOOST_TEST(costs_from(source).units[0].forward.value() == 2e-3, kExact);
}

BOOST_AUTO_TEST_CASE(carrying_costs_over_widens_their_interval_by_how_far) {
  ComputeProfile profile = profile_of(unit_times(1e10, 1e8));
  profile.points[0].repetitions = 20;
  const double measured = costs_from(source_of(profile)).uncertainty;
  const double near = costs_from(source_of(profile, kSlow)).uncertainty;
  const double far = costs_from(source_of(profile, gpu_of("slower", 1, 0.1))).uncertainty;
  BOOST_TEST(measured == kCpuDrift, kExact);
  BOOST_TEST(near == std::hypot(kCpuDrift, kTransferError), kExact);
  BOOST_TEST(far > near * 1.5);
}

BOOST_AUTO_TEST_CASE(what_is_computed_counts_by_its_share) {
  Model model = toy_model();
  model.units[0].forward = model.units[0].backward = Seconds(1e-3);
  model.optimizer_time = Seconds(1e-3);
  const auto uncertainty = [&] {
    return step_costs(model, kFast, Precision::fp32, 8, {}, kPeak).uncertainty;
  };
  BOOST_TEST(uncertainty() == 0);
  model.optimizer_time.reset();
  const StepCosts costs = step_costs(model, kFast, Precision::fp32, 8, {}, kPeak);
  const Seconds step = Seconds(2e-3) + costs.optimizer;
  BOOST_TEST(costs.uncertainty == kAnalyticError * (costs.optimizer / step), kExact);
  BOOST_TEST(contains(costs.outside, "optimizer: computed, no time of sgd is given"));
}

BOOST_AUTO_TEST_CASE(computed_costs_say_what_was_not_measured) {
  Model model = toy_model();
  model.sample = "sequence of 128 tokens";
  model.variant = "no flash attention";
  model.units[0].operators = {{.kind = OperatorKind::matmul, .forward_flops = 1e9}};
  const StepCosts costs = step_costs(model, kFast, Precision::fp32, 8, {}, kPeak);
  BOOST_TEST(costs.uncertainty == kAnalyticError, kExact);
  BOOST_TEST(costs.origin == "datasheet");
  BOOST_TEST(
      contains(costs.outside,
               "compute: 100 % of its time from the datasheet alone, as such kernels were not "
               "measured on fast"));
  BOOST_TEST(contains(costs.assumptions,
                      "compute = times of kernels, as there is no profile of toy (sequence of 128 "
                      "tokens, no flash attention, fp32) on fast"));
}

BOOST_AUTO_TEST_CASE(units_must_be_the_models) {
  const ComputeProfile profile = profile_of(unit_times(1e10, 1e8));
  Model model = toy_model();
  BOOST_TEST(unit_difference(model, profile) == "");
  model.units[0].tensors = {5'000'001};
  BOOST_TEST(unit_difference(model, profile) ==
             "unit \"unit\" has 5000000 parameters; the model's has 5000001");
  model.units[0].name = "stem";
  BOOST_TEST(unit_difference(model, profile) ==
             "unit \"unit\" stands where the model has \"stem\"");
  model = toy_model();
  model.units.emplace_back().name = "head";
  BOOST_TEST(unit_difference(model, profile) == "unit \"head\" of the model is missing");
  model.units.clear();
  BOOST_TEST(unit_difference(model, profile) == "unit \"unit\" is none of the model's");
  const CostSource source = source_of(profile);
  BOOST_CHECK_THROW(costs_from(source, 8, {}, model), InternalError);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
