// CUDA graphs of a block's modules: what they hold is launched by one call, and the rest as before.
#include <boost/test/unit_test.hpp>

#include "cost/cost.hpp"
#include "cost/launches.hpp"
#include "model/parallel.hpp"
#include "model/transformer.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(graphs_test)
namespace {

TransformerShape llama(bool experts) {
  TransformerShape t;
  t.name = "llama";
  t.layers = 1;
  t.hidden = 256;
  t.heads = t.kv_heads = 4;
  t.head_width = 64;
  t.feed_forward = 512;
  t.vocabulary = 1024;
  if (experts) t.experts = Experts{.count = 8, .active = 2, .width = 512};
  return t;
}

/// The block's, between embeddings and head.
StepCosts step_of(bool experts, std::vector<GraphScope> graphs, bool blocking = false) {
  // Megatron-LM's: experts one by one, on two ranks.
  const ModelShape shape{.sequence = 128, .grouped_experts = false};
  const ModelParallel parallel{.expert = experts ? 2 : 1};
  const Model model = share_of(llama(experts), shape, parallel);
  Gpu gpu;
  gpu.fp32 = gpu.bf16 = FlopsPerSecond(19.5e12);
  gpu.memory_bandwidth = BytesPerSecond(2039e9);
  const AnalyticEfficiency efficiency{.launch_blocking = blocking, .graphs = std::move(graphs)};
  StepCosts costs = step_costs(model, gpu, Precision::bf16_pure, 1, {}, efficiency);
  return costs.launch_blocking ? waited_for(std::move(costs)) : costs;
}

UnitCost block_of(bool experts, std::vector<GraphScope> graphs, bool blocking = false) {
  return step_of(experts, std::move(graphs), blocking).units.at(1);
}

/// In launches of the host.
double forward(bool experts, std::vector<GraphScope> graphs) {
  return block_of(experts, std::move(graphs)).forward_launch / kHostOperator;
}
double backward(bool experts, std::vector<GraphScope> graphs) {
  return block_of(experts, std::move(graphs)).backward_launch / kHostOperator;
}

using enum GraphScope;

BOOST_AUTO_TEST_CASE(a_block_in_graphs_is_a_call_for_each) {
  BOOST_CHECK_CLOSE(forward(false, {attn, mlp}), 2, 1e-9);
  BOOST_CHECK_CLOSE(backward(false, {attn, mlp}), 2, 1e-9);
  // Attention, the router with the norm before it, and the rest of the experts' layer.
  BOOST_CHECK_CLOSE(forward(true, {attn, moe}), 3, 1e-9);
  BOOST_CHECK_CLOSE(backward(true, {attn, moe}), 3, 1e-9);
}

// One graph of a step's passes: the host launches what stands behind it, as before.
BOOST_AUTO_TEST_CASE(a_graph_of_the_iteration_leaves_the_optimizer_to_the_host) {
  for (const bool experts : {false, true}) {
    const StepCosts none = step_of(experts, {}), whole = step_of(experts, {full_iteration});
    for (const UnitCost& unit : whole.units)
      BOOST_TEST((unit.forward_launch + unit.backward_launch + unit.awaited_launch).value() == 0);
    BOOST_TEST((none.units.at(1).forward_launch > Seconds(0)));
    BOOST_TEST((whole.optimizer_launch > Seconds(0)));
    BOOST_TEST((whole.optimizer_launch == none.optimizer_launch));
    BOOST_TEST((whole.units.at(1).forward == none.units.at(1).forward));
  }
}

// CUDA_LAUNCH_BLOCKING: kernels and launches take turns, so that a pass takes both.
BOOST_AUTO_TEST_CASE(a_host_that_waits_for_each_kernel_adds_its_launches) {
  for (const bool experts : {false, true}) {
    const UnitCost ahead = block_of(experts, {}), waits = block_of(experts, {}, true);
    BOOST_CHECK_CLOSE(waits.forward.value(), (ahead.forward + ahead.forward_launch).value(), 1e-9);
    BOOST_CHECK_CLOSE(waits.backward.value(), (ahead.backward + ahead.backward_launch).value(),
                      1e-9);
    BOOST_TEST((waits.forward_launch + waits.backward_launch + waits.awaited_launch).value() == 0);
  }
}

BOOST_AUTO_TEST_CASE(graphs_of_two_modules_save_what_each_saves) {
  for (const bool experts : {false, true}) {
    const GraphScope rest = experts ? moe : mlp;
    const double none = forward(experts, {});
    const double saved = none - forward(experts, {attn}) + none - forward(experts, {rest});
    BOOST_CHECK_CLOSE(none - forward(experts, {attn, rest}), saved, 1e-9);
  }
}

// All that stands before tokens are sent; the experts' own products and what brings tokens back
// are launched.
BOOST_AUTO_TEST_CASE(a_graph_of_the_router_leaves_experts_to_the_host) {
  const double none = forward(true, {}), router = forward(true, {moe_router});
  const double both = forward(true, {moe_router, moe_preprocess});
  BOOST_TEST(router < none);
  BOOST_TEST(both < router);
  BOOST_TEST(both - forward(true, {moe}) > 20);
  BOOST_TEST(forward(true, {mlp}) == none);
  BOOST_TEST(forward(false, {moe, mamba}) == forward(false, {}));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
