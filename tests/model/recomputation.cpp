// These are what selective checkpointing keeps of a block: closed forms of torchtitan's and
// Megatron-LM's.
#include "model/recomputation.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "kept.hpp"
#include "model/adaptation.hpp"
#include "shares.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(recomputation_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kS = 256;  // tokens of kTokens

double kept_by_block(const Model& model) {
  return kept_by(memory_tape(model, {.precision = Precision::bf16_pure}), 2);
}

double saved_by(const TransformerShape& t, RecomputedModule module) {
  const Model model = transformer_model(t, kTokens);
  return kept_by_block(model) - kept_by_block(recomputing(model, {.modules = {module}}));
}

/// Each tensor is taken once, and given back unless it is a parameter's gradient.
void check_returns(const Model& model, Precision precision) {
  const MemoryTape tape = memory_tape(model, {.precision = precision, .batch = 2});
  std::vector<int> held(tape.tensors.size());
  const auto play = [&](const std::vector<TapeEvent>& events) {
    for (const TapeEvent& event : events) {
      held.at(event.tensor) += event.takes ? 1 : -1;
      BOOST_TEST_REQUIRE((held[event.tensor] == 0 || held[event.tensor] == 1));
    }
  };
  for (const UnitTape& unit : tape.units) play(unit.forward);
  for (auto unit = tape.units.rbegin(); unit != tape.units.rend(); ++unit) play(unit->backward);
  for (std::size_t i = 0; i < held.size(); ++i)
    BOOST_TEST(held[i] == (tape.tensors[i].role == TensorRole::parameter_gradient));
}

std::vector<TransformerShape> shapes() { return {gpt(), llama(), latent(), mixture()}; }

BOOST_AUTO_TEST_CASE(whatever_runs_again_a_step_gives_back_what_it_takes) {
  for (const TransformerShape& t : shapes())
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::bf16_pure})
      for (const Compile compile : {Compile::none, Compile::whole}) {
        const Model model = compiled(transformer_model(t, kTokens), compile);
        check_returns(recomputing(model, {.products = KeptProducts{}}), precision);
        for (std::size_t i = 0; i < recomputed_module_names().size(); ++i) {
          const Recomputation one{.modules = {static_cast<RecomputedModule>(i)}};
          if (missing_module(model, one).empty()) check_returns(recomputing(model, one), precision);
        }
      }
}

// Of a block of Llama's seven products q, v, gate and down stay; k, o and up are made again. So do
// its output and attention's, with a number for each row of scores and the generator's state.
BOOST_AUTO_TEST_CASE(torchtitans_op_keeps_every_second_product) {
  const TransformerShape t = llama();
  const Model model = transformer_model(t, kTokens);
  const double h = 512, kv = 256, f = 1408;
  const double attention = 2 * h * kS + 4 * 16 * kS + 16;
  const double second = kept_by_block(recomputing(model, {.products = KeptProducts{}}));
  check_close(second, 2 * kS * (h + (h + kv + f + h)) + attention);
  const double every = kept_by_block(recomputing(model, {.products = KeptProducts{.every = 0}}));
  check_close(every, 2 * kS * (h + (h + 2 * kv + h + 2 * f + h)) + attention);
}

// Mean and deviation of each row, and the normed activation, of two norms.
BOOST_AUTO_TEST_CASE(recomputed_norms_keep_their_inputs_alone) {
  check_close(saved_by(gpt(), RecomputedModule::layernorm), 2 * (2 * 256 * kS + 2 * 4 * kS));
}

// The first product's output, which GELU reads, and GELU's own; dropout behind it is no part.
BOOST_AUTO_TEST_CASE(a_recomputed_feed_forward_layer_keeps_its_input_alone) {
  check_close(saved_by(gpt(), RecomputedModule::mlp), 2 * 2 * 1024 * kS);
}

// SiLU's output and the product's, of two experts for each token.
BOOST_AUTO_TEST_CASE(moe_act_makes_again_what_stands_between_the_products) {
  check_close(saved_by(mixture(), RecomputedModule::moe_act), 2 * 2 * 2 * 256 * kS);
}

/// FLOPs of a block's backward with what runs again in it.
double backward_flops(const Model& model) {
  double sum = 0;
  for (const Operator& op : model.units.at(2).operators)
    sum += op.backward_flops + (op.recomputed ? op.forward_flops : 0);
  return sum;
}

BOOST_AUTO_TEST_CASE(products_that_are_dropped_are_computed_again) {
  const Model model = transformer_model(llama(), kTokens);
  const double h = 512, kv = 256, f = 1408;
  const double again =
      backward_flops(recomputing(model, {.products = KeptProducts{}})) - backward_flops(model);
  check_close(again, 2 * kS * (h * kv + h * h + h * f));  // k, o and up
}

BOOST_AUTO_TEST_CASE(a_network_lacks_modules_by_name) {
  const Model model = transformer_model(llama(), kTokens);
  BOOST_TEST(missing_module(model, {.modules = {RecomputedModule::moe}}) == "moe");
  BOOST_TEST(missing_module(model, {.modules = {RecomputedModule::mla_up_proj}}) == "mla_up_proj");
  BOOST_TEST(missing_module(model, {.modules = {RecomputedModule::mlp}}).empty());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
