// Networks of one type of 16 bits take as long as the kernels that PyTorch calls for them, one by
// one. Others keep the operators of their layers.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "cost/cost.hpp"
#include "cost/kernel_costs.hpp"
#include "cost/played_time.hpp"
#include "model/architecture.hpp"
#include "model/captured/played.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(played_time_test)
namespace {

constexpr std::int64_t kBatch = 2;

Model gpt2() { return build_architecture("gpt2", {.sequence = 1024}); }

Seconds time_of(const std::vector<captured::Kernel>& kernels, const Gpu& gpu) {
  Seconds sum{0};
  for (const KernelCost& one : kernel_costs(kernels, kBatch, gpu, Precision::bf16_pure, {}, {}))
    sum += one.time;
  return sum;
}

bool is_of_kernels(const Model& model, Precision precision, double batch = kBatch) {
  return units_of_kernels(model, precision, batch).at(1).operators.at(0).kernel != nullptr;
}

BOOST_AUTO_TEST_CASE(units_take_as_long_as_their_kernels) {
  const Model model = gpt2();
  const Gpu gpu = known_gpu("H100-SXM");
  const auto calls =
      captured::calls_of(model, {.precision = Precision::bf16_pure, .batch = kBatch});
  const StepCosts costs = step_costs(model, gpu, Precision::bf16_pure, kBatch, {}, {});
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const double forward = time_of(calls[i].forward, gpu).value();
    BOOST_TEST(std::abs(costs.units[i].forward.value() - forward) <= 1e-9 * forward);
    const double backward = time_of(calls[i].backward, gpu).value();
    BOOST_TEST(std::abs(costs.units[i].backward.value() - backward) <= 1e-9 * backward);
  }
}

BOOST_AUTO_TEST_CASE(other_types_and_fused_units_keep_their_operators) {
  BOOST_TEST(is_of_kernels(gpt2(), Precision::bf16_pure));
  BOOST_TEST(is_of_kernels(gpt2(), Precision::bf16_master));
  for (const Precision other : {Precision::bf16, Precision::fp32, Precision::tf32, Precision::fp8})
    BOOST_TEST(!is_of_kernels(gpt2(), other));
  Model compiled = gpt2();
  compiled.compile = Compile::whole;
  BOOST_TEST(!is_of_kernels(compiled, Precision::bf16_pure));
}

BOOST_AUTO_TEST_CASE(operators_beside_the_layers_stay) {
  Model model = gpt2();
  const Operator logged{.kind = OperatorKind::loss, .forward_elements = 1e6};
  model.units[1].operators.push_back(logged);
  const std::vector<Unit> units = units_of_kernels(model, Precision::bf16_pure, kBatch);
  BOOST_TEST(units[1].operators.front().forward_elements == logged.forward_elements);
  BOOST_TEST((units[1].operators.back().kernel != nullptr));
}

// A checkpoint runs again what `explain --kernels` shows as recomputed.
BOOST_AUTO_TEST_CASE(a_checkpoint_leaves_out_the_kernels_that_do_not_run_again) {
  const Model model = build_architecture("llama_7b", {.sequence = 2048});
  const Gpu gpu = known_gpu("H100-SXM");
  const auto calls =
      captured::calls_of(model, {.precision = Precision::bf16_pure, .batch = kBatch});
  std::vector<captured::Kernel> again = captured::run_again(calls[1].forward);
  for (captured::Kernel& one : again) one.backward = false;
  const UnitCost cost = step_costs(model, gpu, Precision::bf16_pure, kBatch, {}, {}).units[1];
  const double needed = time_of(again, gpu).value();
  BOOST_TEST(std::abs((cost.forward - cost.unneeded).value() / needed - 1) < 1e-3);
}

BOOST_AUTO_TEST_CASE(a_part_of_a_sample_has_no_kernels) {
  BOOST_TEST(!is_of_kernels(gpt2(), Precision::bf16_pure, 0.5));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
