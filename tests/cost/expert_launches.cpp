// Launches of layers of experts stand against what a profiler counted.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "cost/cost.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(expert_launches_test)
namespace {

// Qwen3 30B's layer on an H200: 16 experts one by one launched 120 and 267 kernels with an
// exchange, 128 without one 560 and 1,833, and grouped 55 and 54 (expert_layers.csv).
BOOST_AUTO_TEST_CASE(a_layer_of_experts_launches_what_was_counted) {
  Model model;
  model.units.resize(1);
  const auto check_launches = [&](double experts, bool together, bool exchanged, double forward,
                                  double backward) {
    Operator product{
        .kind = OperatorKind::matmul,
        .forward_flops = 1,
        .backward_flops = 2,
        .product = {.rows = 1, .columns = 1, .inner = 1, .weights = experts, .together = together}};
    const Operator other{.forward_elements = 1, .backward_elements = 1};
    model.units[0].operators = {product, product, other, other, other, other, other, other};
    model.units[0].exchanges.clear();
    if (exchanged)
      model.units[0].exchanges.push_back(
          {.axis = ExchangeAxis::expert, .issued = {}, .awaited = {}});
    Gpu gpu;
    gpu.fp32 = FlopsPerSecond(19.5e12);
    gpu.memory_bandwidth = BytesPerSecond(2039e9);
    const StepCosts costs = step_costs(model, gpu, Precision::fp32, 1, {}, {});
    const double each = kHostOperator.value();
    BOOST_TEST(std::abs(costs.units[0].forward_launch.value() / each / forward - 1) < 0.07);
    BOOST_TEST(std::abs(costs.units[0].backward_launch.value() / each / backward - 1) < 0.07);
  };
  check_launches(16, false, true, 120, 267);
  check_launches(128, false, false, 560, 1833);
  check_launches(128, true, false, 55, 54);
  check_launches(16, true, true, 63, 56);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
