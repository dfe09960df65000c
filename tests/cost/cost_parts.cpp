// Where a step's costs come from, by unit and by family of kernels.
#include "cost/cost_parts.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "cost/cost.hpp"
#include "kernels/kernel_curves.hpp"
#include "model/architecture.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(cost_parts_test)
namespace {

StepCosts gpt2_on(const std::string& gpu, std::int64_t batch = 8,
                  const AnalyticEfficiency& asked = {}) {
  const Model model = build_architecture("gpt2", {.sequence = 1024});
  return step_costs(model, known_gpu(gpu), Precision::bf16, batch, {}, asked);
}

FamilyGround ground(const StepCosts& costs, CostFamily family) {
  const auto found = std::ranges::find(costs.grounds, family, &FamilyGround::family);
  BOOST_TEST_REQUIRE((found != costs.grounds.end()));
  return *found;
}

double farthest(const StepCosts& costs, CostFamily family) {
  double factor = 0;
  for (const CostPart& part : costs.parts)
    if (part.family == family) factor = std::max(factor, part.farthest);
  return factor;
}

BOOST_AUTO_TEST_CASE(the_parts_of_a_unit_add_up_to_its_times) {
  const StepCosts costs = gpt2_on("H100-SXM");
  for (std::size_t i = 0; i < costs.units.size(); ++i) {
    Seconds forward, backward;
    for (const CostPart& part : costs.parts) {
      if (part.unit != i) continue;
      forward += part.forward;
      backward += part.backward;
      BOOST_TEST((part.within <= (part.forward + part.backward) * (1 + 1e-12)));
    }
    BOOST_TEST(std::abs(forward / costs.units[i].forward - 1) < 1e-12);
    BOOST_TEST(std::abs(backward / costs.units[i].backward - 1) < 1e-12);
  }
  BOOST_TEST(costs.parts.back().unit == costs.units.size());
  BOOST_TEST((costs.parts.back().family == CostFamily::optimizer));
}

BOOST_AUTO_TEST_CASE(every_family_says_what_speaks_for_it) {
  const StepCosts h100 = gpt2_on("H100-SXM");
  const FamilyGround products = ground(h100, CostFamily::products);
  BOOST_TEST((products.ground == CostGround::fitted));
  BOOST_TEST(products.from == "gemm tensor of H100-SXM");
  BOOST_TEST((products.off && *products.off > 0.02 && *products.off < 0.07));
  BOOST_TEST((ground(h100, CostFamily::attention).ground == CostGround::fitted));
  BOOST_TEST((ground(h100, CostFamily::copies).ground == CostGround::analytic));

  const FamilyGround relative = ground(gpt2_on("H100-PCIe"), CostFamily::products);
  BOOST_TEST((relative.ground == CostGround::carried_over));
  BOOST_TEST(relative.from == "gemm tensor of H100-SXM");
  BOOST_TEST(!relative.off);  // its shapes' error is not its GPU's
  // Of a B200 no such kernels were measured, whatever its products are fitted to.
  BOOST_TEST((ground(gpt2_on("B200"), CostFamily::rows).ground == CostGround::carried_over));
  BOOST_TEST((ground(gpt2_on("MI300X"), CostFamily::products).ground == CostGround::analytic));
  const FamilyGround stated = ground(gpt2_on("H100-SXM", 8, {.matrix = 0.5}), CostFamily::products);
  BOOST_TEST((stated.ground == CostGround::analytic));
  BOOST_TEST(stated.from == "run.efficiency");
}

BOOST_AUTO_TEST_CASE(what_lies_beyond_the_measured_sizes_is_told_by_its_factor) {
  // 32,768 rows were measured, 1,024 of a sample.
  BOOST_TEST(farthest(gpt2_on("A100-SXM-80", 32), CostFamily::attention) == 1);
  const double most = farthest(gpt2_on("A100-SXM-80", 128), CostFamily::products);
  BOOST_TEST(std::abs(most - 4) < 1e-12);
  BOOST_TEST(farthest(gpt2_on("MI300X"), CostFamily::products) == 0);  // nothing was
}

BOOST_AUTO_TEST_CASE(kernels_that_move_nothing_lie_beyond_no_size) {
  const Model llama = build_architecture("llama_7b", {.sequence = 1024});
  const StepCosts costs = step_costs(llama, known_gpu("H100-SXM"), Precision::bf16_pure, 1, {}, {});
  for (const CostPart& part : costs.parts) BOOST_TEST(std::isfinite(part.farthest), part.unit);
}

BOOST_AUTO_TEST_CASE(every_fit_says_whose_kernels_it_is_of) {
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = known_gpu(name);
    if (!gpu.curves) continue;
    for (const auto& [format, curve] : gpu.curves->products)
      BOOST_TEST(gpu.curves->find_measured("gemm " + format) != nullptr, name << " " << format);
    for (const AttentionCurve& curve : gpu.curves->attention) {
      const std::string kernels = "attention " + std::to_string(static_cast<int>(curve.width));
      BOOST_TEST(gpu.curves->find_measured(kernels) != nullptr, name << " " << kernels);
    }
    for (const MeasuredKernels& one : gpu.curves->measured)
      BOOST_TEST(one.sizes.size() == size_names(one.kernels).size(), name << " " << one.kernels);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
