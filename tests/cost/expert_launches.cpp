// Launches of layers of experts stand against what a profiler counted.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "cost/cost.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(expert_launches_test)
namespace {

/// Qwen3 30B's layer: operators launched by eager modules, and of its products' own kernels.
StepCosts layer_of(double experts, bool together, bool exchanged, Precision precision,
                   Compile compile = Compile::none, const std::vector<Operator>& more = {}) {
  Model model;
  model.compile = compile;
  model.units.resize(1);
  const Operator product{
      .kind = OperatorKind::matmul,
      .forward_flops = 1,
      .backward_flops = 2,
      .product = {.rows = 1, .columns = 1, .inner = 1, .weights = experts, .together = together},
      .narrows = true};
  const Operator other{.forward_elements = 1, .backward_elements = 1};
  model.units[0].operators = {product, product, other, other, other, other, other, other};
  for (const Operator& op : more) model.units[0].operators.push_back(op);
  if (exchanged)
    model.units[0].exchanges.push_back({.axis = ExchangeAxis::expert, .issued = {}, .awaited = {}});
  Gpu gpu;
  gpu.fp32 = gpu.bf16 = FlopsPerSecond(19.5e12);
  gpu.memory_bandwidth = BytesPerSecond(2039e9);
  return step_costs(model, gpu, precision, 1, {}, {});
}

// On an H200 experts that one kernel computes launched 55 and 54 kernels, with an exchange 63 and
// 56 (expert_layers.csv).
BOOST_AUTO_TEST_CASE(a_layer_of_experts_launches_what_was_counted) {
  const auto check_launches = [](bool exchanged, double forward, double backward) {
    const UnitCost unit = layer_of(16, true, exchanged, Precision::fp32).units[0];
    const double each = kHostOperator.value();
    BOOST_TEST(std::abs(unit.forward_launch.value() / each / forward - 1) < 0.07);
    BOOST_TEST(std::abs(unit.backward_launch.value() / each / backward - 1) < 0.07);
  };
  check_launches(false, 55, 54);
  check_launches(true, 63, 56);
}

// Megatron-LM's biases are many small kernels beside the layer's own, and do not stand for these.
BOOST_AUTO_TEST_CASE(what_a_library_leaves_unfused_is_launched_besides) {
  const Operator biases{.forward_elements = 1,
                        .backward_elements = 1,
                        .eager_forward = {.kernels = 34, .written = 1},
                        .eager_backward = {.kernels = 97, .written = 1},
                        .library = true};
  const auto unit = [](const std::vector<Operator>& more) {
    return layer_of(16, false, true, Precision::bf16_master, Compile::none, more).units[0];
  };
  const double each = kHostOperator.value();
  const UnitCost plain = unit({}), biased = unit({biases});
  BOOST_CHECK_CLOSE((biased.forward_launch - plain.forward_launch).value(), 34 * each, 1e-6);
  BOOST_CHECK_CLOSE((biased.backward_launch - plain.backward_launch).value(), 97 * each, 1e-6);
}

// TransformerEngine's GroupedLinear: of 16 experts and two products an operator and a kernel
// forward, two and two backward. A scale per tensor takes three kernels more, and an object for
// each expert's operand; scales of blocks take one kernel, or three.
BOOST_AUTO_TEST_CASE(experts_one_by_one_are_launched_in_cpp) {
  const double kernel = kHostLaunch.value(), each = kHostOperator.value();
  const UnitCost together = layer_of(16, true, true, Precision::bf16_master).units[0];
  const UnitCost wide = layer_of(16, false, true, Precision::bf16_master).units[0];
  const UnitCost narrow = layer_of(16, false, true, Precision::fp8).units[0];
  const auto forward = [](const UnitCost& unit) { return unit.forward_launch.value(); };
  const auto backward = [](const UnitCost& unit) { return unit.backward_launch.value(); };
  BOOST_CHECK_CLOSE(forward(wide) - forward(together), 32 * (each + kernel), 1e-6);
  BOOST_CHECK_CLOSE(backward(wide) - backward(together), 32 * (2 * each + 2 * kernel), 1e-6);
  BOOST_CHECK_CLOSE(forward(narrow) - forward(wide), 32 * (each + 3 * kernel), 1e-6);
  BOOST_CHECK_CLOSE(backward(narrow) - backward(wide), 32 * (each + 3 * kernel), 1e-6);
  for (const auto& [precision, kernels] : {std::pair(Precision::mxfp8, 1), {Precision::nvfp4, 3}}) {
    const UnitCost blocks = layer_of(16, false, true, precision).units[0];
    BOOST_CHECK_CLOSE(forward(blocks) - forward(wide), 32 * kernels * kernel, 1e-6);
  }
}

// Of two products and six other operators, torch.compile's code launches each at a kernel's cost.
BOOST_AUTO_TEST_CASE(a_librarys_modules_are_called_as_eager_ones_are) {
  const auto forward = [](Compile compile) {
    return layer_of(16, true, true, Precision::bf16_master, compile).units[0].forward_launch;
  };
  BOOST_TEST(forward(Compile::library).value() == forward(Compile::none).value());
  BOOST_CHECK_CLOSE((forward(Compile::library) - forward(Compile::whole)).value(),
                    8 * (kHostOperator - kHostLaunch).value(), 1e-6);
}

// All that stands behind the exchange of counts, which is in front of the first operator here.
BOOST_AUTO_TEST_CASE(the_host_launches_experts_once_it_knows_their_tokens) {
  const UnitCost sent = layer_of(16, true, true, Precision::fp32).units[0];
  BOOST_TEST(sent.awaited_launch.value() == sent.forward_launch.value());
  BOOST_TEST(layer_of(16, true, false, Precision::fp32).units[0].awaited_launch.value() == 0);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
