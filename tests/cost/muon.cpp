// What Muon keeps, computes and takes.
#include "cost/muon.hpp"

#include <boost/test/unit_test.hpp>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(muon_test)
namespace {

/// A block of linear layers, each with a bias, and a head in front of a loss.
Model linears(const std::vector<MatrixShape>& shapes) {
  Model model;
  model.units.resize(2);
  Unit& block = model.units[0];
  for (const MatrixShape& shape : shapes) {
    block.layers.push_back({.kind = LayerKind::linear,
                            .parameter = static_cast<std::uint32_t>(block.tensors.size()),
                            .channels = {shape.rows},
                            .bias = true});
    block.tensors.push_back(shape.rows * shape.columns);
    block.tensors.push_back(shape.rows);
  }
  Unit& head = model.units[1];
  head.layers = {{.kind = LayerKind::linear, .channels = {1000}},
                 {.kind = LayerKind::cross_entropy}};
  head.tensors = {1000 * 512};
  return model;
}

Gpu gpu() {
  Gpu one;
  one.name = "A100-SXM-80";
  one.fp32 = FlopsPerSecond(19.5e12);
  one.bf16 = FlopsPerSecond(312e12);
  one.memory_bandwidth = BytesPerSecond(2039e9);
  return one;
}

BOOST_AUTO_TEST_CASE(newton_schulz_does_the_flops_that_torch_counts) {
  // torch 2.13's FlopCounterMode of torch.optim.Muon's step.
  BOOST_TEST(newton_schulz(linears({{256, 512}}), nullptr).flops == 838860800);
  BOOST_TEST(newton_schulz(linears({{512, 128}}), nullptr).flops == 188743680);
  BOOST_TEST(newton_schulz(linears({{384, 384}}), nullptr).flops == 1698693120);
  const NewtonSchulz both = newton_schulz(linears({{256, 512}, {512, 128}}), nullptr);
  BOOST_TEST(both.matrices == 2);
  BOOST_TEST(both.flops == 838860800 + 188743680);
}

BOOST_AUTO_TEST_CASE(muon_is_adamw_to_biases_heads_and_embeddings) {
  const Optimizer muon{.kind = OptimizerKind::muon};
  BOOST_TEST(kept_of(muon, linears({{256, 512}})).value() ==
             4 * 256 * 512 + 8 * 256 + 8 * 1000 * 512);
  const Model gpt2 = build_architecture("gpt2", {});
  const double hidden = 12.0 * 12 * 768 * 768;
  BOOST_TEST(kept_of(muon, gpt2).value() ==
             4 * hidden + 8 * (static_cast<double>(gpt2.parameters()) - hidden));
  BOOST_TEST(kept_of({.kind = OptimizerKind::adamw}, gpt2).value() ==
             8 * static_cast<double>(gpt2.parameters()));
}

BOOST_AUTO_TEST_CASE(every_weight_of_a_block_is_a_matrix_and_nothing_else) {
  const Model model = build_architecture("deepseek_v3", {});
  for (const Unit& unit : model.units)
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      if (const auto shape = hidden_matrix(unit, i))
        BOOST_TEST(shape->rows * shape->columns * shape->count == unit.tensors[i]);
  const Model llama = build_architecture("llama_3_8b", {});
  double hidden = 0;
  for (const Unit& unit : llama.units)
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      if (hidden_matrix(unit, i)) hidden += static_cast<double>(unit.tensors[i]);
  BOOST_TEST(hidden == 32 * (218112000.0 - 2 * 4096));  // all of a block but its norms
}

BOOST_AUTO_TEST_CASE(a_step_is_bound_by_its_products_or_by_the_launches_of_many_small_ones) {
  const Optimizer muon{.kind = OptimizerKind::muon};
  const auto time = [&](const std::vector<MatrixShape>& shapes, Seconds host) {
    const Roofline roofline(gpu(), Precision::bf16_pure, {});
    return muon_step(linears(shapes), muon, roofline, roofline, host).value();
  };
  const NewtonSchulz large = newton_schulz(linears({{8192, 8192}}), nullptr);
  BOOST_TEST(time({{8192, 8192}}, kHostLaunch) > large.flops / 312e12);
  BOOST_TEST(time({{8192, 8192}}, kHostLaunch) < 2.5 * large.flops / 312e12);
  const std::vector<MatrixShape> small(100, {64, 64});
  // 8 kernels and 5 x 5 of each matrix.
  BOOST_TEST(time(small, Seconds(50e-6)) >= 100 * 33 * 50e-6);
  BOOST_TEST(time(small, Seconds(0)) < 100 * 33 * 50e-6);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
