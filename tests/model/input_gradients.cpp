// Whether a product's backward makes its input's gradient: as an operator says it for time, and as
// the tape, which runs autograd, does it.
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "model/adaptation.hpp"
#include "model/memory_tape.hpp"
#include "model/transformer.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(input_gradients_test)
namespace {

namespace data = boost::unit_test::data;

bool makes_input_gradient(const Kernel& kernel) {
  if (kernel.op == "mm" || kernel.op == "_grouped_mm") return kernel.role == KernelRole::gradient;
  if (kernel.op != "convolution_backward") return false;
  const auto mask = std::ranges::find(kernel.options, "output_mask",
                                      &decltype(Kernel::options)::value_type::first);
  return mask->second.front() != 0;
}

bool says_input_gradient(const Operator& op) {
  const bool product = op.kind == OperatorKind::matmul || op.kind == OperatorKind::convolution ||
                       op.kind == OperatorKind::depthwise_convolution;
  return product && op.parameter_elements > 0 && op.input_gradient;
}

void check_gradients(const Model& model) {
  const MemoryTape tape =
      memory_tape(model, {.precision = Precision::bf16_pure, .batch = 2, .kernels = true});
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    const auto made = std::ranges::count_if(tape.kernels[unit].backward, makes_input_gradient);
    const auto said = std::ranges::count_if(model.units[unit].operators, says_input_gradient);
    BOOST_TEST(said == made,
               model.name << ", " << model.units[unit].name << ": " << said << " of " << made);
  }
}

Model few_blocks(TransformerShape t) {
  t.layers = std::min<std::int64_t>(t.layers, 2);
  return build_transformer(t, t.image > 0 ? ModelShape{} : ModelShape{.sequence = 64});
}

BOOST_DATA_TEST_CASE(of_a_network, data::make(architecture_names()), name) {
  const TransformerShape* shape = built_in_shape(name);
  check_gradients(shape != nullptr ? few_blocks(*shape) : build_architecture(name, {}));
}

// The first product with an adapter reads what no gradient goes to: its frozen weight has no
// backward, and A has one product.
BOOST_AUTO_TEST_CASE(of_adapters) {
  for (const char* name : {"llama_7b", "gpt2"}) {
    const Model all = few_blocks(*built_in_shape(name));
    for (const std::string& target : linear_names(all))
      if (target != "lm_head") check_gradients(adapt(all, {.lora = Lora{.targets = {target}}}));
  }
}

BOOST_AUTO_TEST_CASE(behind_trained_embeddings_all_products_make_one) {
  const Model all = few_blocks(*built_in_shape("llama_7b"));
  const Lora lora{.targets = {"q"}, .modules_to_save = {"embeddings"}};
  check_gradients(adapt(all, {.lora = lora}));
}

BOOST_AUTO_TEST_CASE(units_before_the_first_trained_one_make_none) {
  const Model all = few_blocks(*built_in_shape("llama_7b"));
  std::vector<bool> frozen(all.units.size(), false);
  frozen[0] = frozen[1] = true;
  const Model model = adapt(all, {.frozen = frozen});
  BOOST_TEST(std::ranges::none_of(model.units[1].operators, says_input_gradient));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
