// Gated delta net and state spaces in closed forms: parameters, FLOPs, what ranks exchange, what is
// kept for backward.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "kept.hpp"
#include "model/mixers.hpp"
#include "shares.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(mixers_test)
namespace {

namespace data = boost::unit_test::data;

const Unit& unit_of(const Model& model, const std::string& name) {
  for (const Unit& unit : model.units)
    if (unit.name == name) return unit;
  BOOST_FAIL("no unit " << name);
  return model.units.front();
}

double flops_of(const Unit& unit) {
  double sum = 0;
  for (const Operator& op : unit.operators) sum += op.forward_flops;
  return sum;
}

BOOST_AUTO_TEST_CASE(parameters_of_a_delta_net_are_its_published_shapes) {
  // Qwen3-Next: in_proj_qkvz, in_proj_ba, conv1d, dt_bias, A_log, norm, out_proj; two norms; 512
  // experts, the shared one and its gate, the router.
  const Model model = transformer_model(*built_in_shape("qwen3_next_80b_a3b"), {.sequence = 64});
  const std::int64_t h = 2048;
  const std::int64_t mixer = h * 12288 + h * 64 + 8192 * 4 + 32 + 32 + 128 + 4096 * h;
  const std::int64_t experts = 512 * 3 * h * 512 + 3 * h * 512 + h + 512 * h;
  BOOST_TEST(unit_of(model, "layers.0").parameters() == mixer + experts + 2 * h);
  const std::int64_t attention = h * 8192 + 2 * h * 512 + 4096 * h + 2 * 256;
  BOOST_TEST(unit_of(model, "layers.3").parameters() == attention + experts + 2 * h);
  BOOST_TEST(model.parameters() == 79674391296);
}

BOOST_AUTO_TEST_CASE(parameters_of_a_state_space_are_its_published_shapes) {
  // Nemotron 3 Nano: in_proj, conv1d with its bias, dt_bias, A_log, D, norm, out_proj; one norm.
  const Model model =
      transformer_model(*built_in_shape("nemotron_3_nano_30b_a3b"), {.sequence = 64});
  const std::int64_t h = 2688;
  BOOST_TEST(unit_of(model, "layers.0").parameters() ==
             h * 10304 + 6144 * 5 + 3 * 64 + 4096 + 4096 * h + h);
  BOOST_TEST(unit_of(model, "layers.1").parameters() ==
             128 * 2 * 1856 * h + 2 * 3712 * h + 128 * h + h);
  BOOST_TEST(unit_of(model, "layers.5").parameters() == h * (4096 + 2 * 256) + 4096 * h + h);
  BOOST_TEST(model.parameters() == 31577937344);
}

// Per token, of channels, state and chunk of 4096, 128 and 128, in eight groups: forward two
// products of a state, one of a chunk's pairs and one of C by B; backward five, three and three.
BOOST_AUTO_TEST_CASE(a_scan_computes_backward_what_its_kernels_do) {
  const Model model =
      transformer_model(*built_in_shape("nemotron_3_nano_30b_a3b"), {.sequence = 64});
  const double state = 4096 * 128, pairs = 4096 * 128, across = 8 * 128 * 128;
  double forward = 0, backward = 0;
  for (const Operator& op : unit_of(model, "layers.0").operators) {
    if (op.kind != OperatorKind::scan) continue;
    forward += op.forward_flops;
    backward += op.backward_flops;
  }
  check_close(backward / forward,
              (5 * state + 3 * pairs + 3 * across) / (2 * state + pairs + across));
}

BOOST_AUTO_TEST_CASE(latent_experts_have_two_products_more_and_fewer_channels) {
  // Nemotron 3 Super, whose published count this is; the order of its blocks changes none.
  TransformerShape t = *built_in_shape("nemotron_3_nano_30b_a3b");
  t.layers = 88;
  t.hidden = 4096;
  t.experts =
      Experts{.count = 512, .active = 22, .width = 2688, .shared_width = 5376, .latent = 1024};
  std::string pattern;
  for (int i = 0; i < 8; ++i) pattern += "MEMEMEMEME*";
  BOOST_TEST(set_hybrid_pattern(pattern, mixer(StateSpace{.heads = 128}), t) == "");
  const Model model = transformer_model(t, {.sequence = 64});
  BOOST_TEST(model.parameters() == 120668687360);
  const std::int64_t h = 4096;
  const std::int64_t own = 22 * 2 * 1024 * 2688 + 2 * 5376 * h + 2 * 1024 * h + 512 * h;
  const Unit& unit = unit_of(model, "layers.1");
  BOOST_TEST(unit.parameters() - unit.idle_parameters == own + h);
  check_close(flops_of(unit), 64.0 * 2 * static_cast<double>(own));
}

BOOST_AUTO_TEST_CASE(flops_grow_as_the_tokens_do) {
  for (const auto& [t, name, once] :
       {std::tuple(delta_net(), "layers.0",
                   2.0 * 512 * (2 * 512 + 2 * 512 + 64) + 2.0 * 512 * 512 + 8.0 * 32 * 32 * 16),
        std::tuple(kimi_delta(), "layers.0",
                   2.0 * 512 * (3 * 512 + 2 * 32 + 16) + 2 * 2.0 * 32 * 512 + 2.0 * 512 * 512 +
                       8.0 * 16 * 32 * 32),
        std::tuple(state_spaces(), "layers.0",
                   2.0 * 512 * (2 * 512 + 2 * 16 * 32 + 32) + 2.0 * 512 * 512 + 7.0 * 512 * 32)}) {
    const Model model = transformer_model(t, {.sequence = 256});
    double own = flops_of(unit_of(model, name));
    if (t.has_experts(0)) {  // besides
      own -= 256 * (2.0 * 512 * 8 + 2.0 * 2 * 3 * 512 * 256 + 2.0 * 3 * 512 * 128);
    }
    check_close(own, 256 * once);
  }
}

BOOST_DATA_TEST_CASE(context_ranks_exchange_heads_for_tokens, data::make({2, 4}), ranks) {
  // All that the products made, and back what is left of it: each way in both passes.
  for (const auto& [t, in, out] : {std::tuple(delta_net(), 4 * 512 + 64, 512),
                                   std::tuple(kimi_delta(), 3 * 512 + 16 + 2 * 32, 512),
                                   std::tuple(state_spaces(), 2 * 512 + 2 * 16 * 32 + 32, 512)}) {
    const Model model = share_of(t, {.sequence = 256}, {.context = ranks});
    std::vector<double> sent;
    for (const Exchange& one : unit_of(model, "layers.0").exchanges)
      if (one.axis == ExchangeAxis::context) {
        BOOST_TEST((one.kind == ExchangeKind::all_to_all));
        sent.push_back(one.elements);
      }
    const double tokens = 256.0 / ranks;
    BOOST_TEST(sent == (std::vector<double>{in * tokens, out * tokens, out * tokens, in * tokens}));
  }
}

BOOST_AUTO_TEST_CASE(a_state_space_keeps_its_input_and_what_it_gives) {
  // Bytes per token: a norm's input in fp32, its deviation, and two of its results; then what the
  // first product makes, the sums over states and their deviations, what the last product reads.
  const Model model = transformer_model(state_spaces(), {.sequence = 256});
  const MemoryTape tape = memory_tape(model, {.precision = Precision::bf16_pure});
  const double made = 2 * 512 + 2 * 16 * 32 + 32;
  const double norm = 4 * 512 + 4 + 2 * 2 * 512;
  check_close(kept_by(tape, 1), 256 * (norm + 2 * (made + 512) + 4 * 16 + 2 * 512));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
