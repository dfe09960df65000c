// A pass of a unit between its exchanges.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>

#include "cost/cost.hpp"
#include "model/parallel.hpp"
#include "model/recomputation.hpp"
#include "model/transformer.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(segments_test)
namespace {

Gpu plain_gpu() {
  Gpu gpu;
  gpu.name = "plain";
  gpu.fp32 = FlopsPerSecond(10e12);
  gpu.tf32 = FlopsPerSecond(20e12);
  gpu.fp16 = FlopsPerSecond(40e12);
  gpu.bf16 = FlopsPerSecond(50e12);
  gpu.memory_bandwidth = BytesPerSecond(1e12);
  return gpu;
}

StepCosts costs_of(const Model& model, Precision precision = Precision::bf16_pure) {
  return step_costs(model, plain_gpu(), precision, 2, Optimizer{}, {});
}

Model share(const ModelParallel& parallel) {
  return share_of(*built_in_shape("llama_7b"), {.sequence = 2048}, parallel);
}

Seconds sum_of(const PassSegments& segments) {
  return std::accumulate(segments.durations.begin(), segments.durations.end(), Seconds(0));
}

BOOST_AUTO_TEST_CASE(segments_sum_to_the_pass) {
  const Model model = share({.tensor = 4, .sequence_parallel = true, .context = 2});
  const StepCosts costs = costs_of(model);
  for (const UnitCost& unit : costs.units) {
    BOOST_TEST(std::abs(sum_of(unit.forward_segments) / unit.forward - 1) < 1e-12);
    BOOST_TEST(std::abs(sum_of(unit.backward_segments) / unit.backward - 1) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(waited_exchanges_cut_a_pass_once_each) {
  const Model model = share({.tensor = 4});
  const StepCosts costs = costs_of(model);
  const PassSegments& forward = costs.units[1].forward_segments;
  BOOST_TEST_REQUIRE(forward.exchanges.size() == 2);
  BOOST_TEST(forward.durations.size() == 3);
  BOOST_TEST(forward.exchanges[0].issued == 1);
  BOOST_TEST(forward.exchanges[0].awaited == 1);
  BOOST_TEST(forward.exchanges[1].issued == 2);
  BOOST_TEST(forward.exchanges[1].awaited == 2);
}

BOOST_AUTO_TEST_CASE(a_gradients_exchange_runs_beside_the_weights_gradient) {
  const Model model = share({.tensor = 4});
  const StepCosts costs = costs_of(model);
  const PassSegments& backward = costs.units[1].backward_segments;
  BOOST_TEST_REQUIRE(backward.exchanges.size() == 2);
  for (const PassSegments::Placed& placed : backward.exchanges) {
    BOOST_TEST(placed.awaited == placed.issued + 1);
    BOOST_TEST(backward.durations[placed.issued].value() > 0);
  }
  // Queries' weight, 4096 x 1024 elements, of 4096 tokens: half of that product's backward.
  const Operator* queries = nullptr;
  for (const Operator& op : model.units[1].operators) {
    if (queries == nullptr && op.kind == OperatorKind::matmul) queries = &op;
  }
  BOOST_TEST_REQUIRE(queries != nullptr);
  const double rate = 50e12 * 0.8;
  BOOST_TEST(std::abs(backward.durations[backward.exchanges[1].issued].value() -
                      2.0 * queries->forward_flops / rate) <
             0.2 * 2.0 * queries->forward_flops / rate);
}

// A block's last product, and the sum behind it, have saved what backward needs. Under autocast a
// unit's operators are those of its layers, which the test cuts.
BOOST_AUTO_TEST_CASE(a_checkpoint_that_stops_early_leaves_out_the_last_product) {
  const Model model = share({});
  const std::vector<Operator>& all = model.units[1].operators;
  const std::size_t end = rerun_operators(model.units[1]);
  BOOST_TEST_REQUIRE(end < all.size());
  BOOST_TEST((all[end].kind == OperatorKind::matmul));
  BOOST_TEST(all[end].parameter_elements == 4096.0 * 11008);
  const UnitCost whole = costs_of(model, Precision::bf16).units[1];
  Model alone = model;
  alone.units[1].operators.resize(end);
  const Seconds needed = costs_of(alone, Precision::bf16).units[1].forward;
  BOOST_TEST(std::abs((whole.forward - whole.unneeded) / needed - 1) < 1e-9);
  // An adapter's products stand behind the product that it stands beside.
  Model adapted = model;
  for (Layer& layer : adapted.units[1].layers)
    if (layer.kind == LayerKind::linear) layer.adapters.resize(1);
  BOOST_TEST(rerun_operators(adapted.units[1]) == all.size());
}

BOOST_AUTO_TEST_CASE(units_that_exchange_nothing_have_no_segments) {
  const StepCosts costs = costs_of(share({}));
  for (const UnitCost& unit : costs.units) BOOST_TEST(unit.forward_segments.durations.empty());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
