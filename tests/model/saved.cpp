// What autograd keeps from forward to backward, by hand.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "model/layers.hpp"

namespace rehearse {
namespace {

namespace data = boost::unit_test::data;

/// Bytes that a unit keeps per sample where every element has two bytes.
double bytes_in_16_bits(const Unit& unit) {
  return 2 * (unit.saved_elements + unit.saved_wide_elements) + unit.saved_bytes;
}

/// Layers on an inner activation of 8 channels, 4x4.
Layers inner_layers() {
  Layers layers({.channels = 8, .height = 4, .width = 4});
  layers.unit("unit");
  return layers;
}
constexpr double kInner = 8 * 4 * 4;

BOOST_AUTO_TEST_CASE(convolution_keeps_its_input) {
  Layers layers = inner_layers();
  layers.convolution({.channels = 16, .kernel = 3, .stride = 2, .padding = 1});
  BOOST_TEST(layers.current().elements() == 16 * 2 * 2);
  BOOST_TEST(layers.take().at(0).saved_elements == kInner);
}

BOOST_AUTO_TEST_CASE(in_place_relu_and_the_next_convolution_share_one_tensor) {
  Layers layers = inner_layers();
  layers.batch_norm();                  // keeps its input
  layers.relu();                        // keeps its output ...
  layers.convolution({.channels = 8});  // ... which is the convolution's input
  BOOST_TEST(layers.take().at(0).saved_elements == 2 * kInner);
}

BOOST_AUTO_TEST_CASE(in_place_silu_keeps_a_clone_beside_the_next_input) {
  Layers layers = inner_layers();
  layers.silu();
  layers.convolution({.channels = 8});
  BOOST_TEST(layers.take().at(0).saved_elements == 2 * kInner);
}

BOOST_AUTO_TEST_CASE(max_pool_keeps_eight_bytes_per_index) {
  Layers layers = inner_layers();
  layers.relu();
  layers.max_pool({});
  const Unit unit = layers.take().at(0);
  BOOST_TEST(unit.saved_elements == kInner);  // relu's output is pool's input
  BOOST_TEST(unit.saved_bytes == 8 * kInner / 4);
}

BOOST_AUTO_TEST_CASE(dropout_keeps_one_byte_per_element) {
  Layers layers = inner_layers();
  layers.dropout();
  const Unit unit = layers.take().at(0);
  BOOST_TEST(unit.saved_elements == 0);
  BOOST_TEST(unit.saved_bytes == kInner);
}

BOOST_AUTO_TEST_CASE(layer_norm_keeps_its_input_in_fp32_under_autocast) {
  Layers layers = inner_layers();
  layers.layer_norm();
  const Unit unit = layers.take().at(0);
  BOOST_TEST(unit.saved_elements == 0);
  BOOST_TEST(unit.saved_wide_elements == kInner);
  BOOST_TEST(unit.saved_bytes == 2 * 4 * 16);  // mean and reciprocal deviation of 16 positions
}

BOOST_AUTO_TEST_CASE(branches_keep_their_common_input_once) {
  Layers layers = inner_layers();
  const Activation input = layers.current();
  layers.convolution({.channels = 8});
  const Activation main = layers.current();
  layers.resume(input);
  layers.convolution({.channels = 8});
  const Activation shortcut = layers.current();
  layers.resume(main);
  layers.add(shortcut);
  BOOST_TEST(layers.take().at(0).saved_elements == kInner);
}

BOOST_AUTO_TEST_CASE(cross_entropy_keeps_log_softmax_in_fp32_and_the_targets) {
  Layers layers({.channels = 1000});
  layers.unit("unit");
  layers.cross_entropy();
  const Unit unit = layers.take().at(0);
  BOOST_TEST(unit.saved_wide_elements == 1000);
  BOOST_TEST(unit.saved_bytes == 8);
}

BOOST_AUTO_TEST_CASE(layers_side_by_side_keep_a_copy_each_under_autocast_alone) {
  Layers layers({.channels = 8, .height = 4, .wide = true});
  layers.unit("unit");
  layers.linear({8, 8, 8});
  const Unit unit = layers.take().at(0);
  BOOST_TEST(unit.saved_elements == 32);
  BOOST_TEST(unit.saved_autocast_elements == 2 * 32);
}

BOOST_AUTO_TEST_CASE(inner_resnet_bottleneck_keeps_six_tensors) {
  // Three inputs of batch norms and three outputs of ReLUs; the block's own input is the last
  // ReLU's output.
  const Unit block = build_architecture("resnet50", {}).units.at(2);
  BOOST_TEST(block.saved_elements == 56 * 56 * 2 * (64 + 64 + 256));
  BOOST_TEST(block.saved_bytes == 0);
}

BOOST_AUTO_TEST_CASE(dense_layer_keeps_its_concatenation_and_does_not_share_it) {
  // Inputs of two norms and outputs of two ReLUs; the third layer concatenates 64 + 2 * 32
  // channels.
  const Unit layer = build_architecture("densenet121", {}).units.at(3);
  BOOST_TEST(layer.saved_elements == 56 * 56 * 2 * (128 + 128));
}

/// Operators of a kind in a unit.
std::size_t count(const Unit& unit, OperatorKind kind) {
  std::size_t found = 0;
  for (const Operator& op : unit.operators) found += op.kind == kind ? 1 : 0;
  return found;
}

BOOST_AUTO_TEST_CASE(contiguous_images_are_converted_around_each_full_convolution) {
  const auto conversions = [](const std::string& name, bool channels_last) {
    std::size_t found = 0;
    for (const Unit& unit : build_architecture(name, {.channels_last = channels_last}).units) {
      found += count(unit, OperatorKind::layout);
    }
    return found;
  };
  BOOST_TEST(conversions("resnet50", false) == 53);
  BOOST_TEST(conversions("resnet50", true) == 0);
  BOOST_TEST(conversions("convnext_large", false) ==
             1);  // its layer norms permute to channels-last
}

BOOST_AUTO_TEST_CASE(a_conversion_reads_and_writes_what_the_convolution_touches) {
  Layers layers({.channels = 8, .height = 4, .width = 4, .channels_last = false});
  layers.unit("unit");
  layers.convolution({.channels = 16});
  const Operator conversion = layers.take().at(0).operators.at(1);
  BOOST_TEST((conversion.kind == OperatorKind::layout));
  BOOST_TEST(conversion.forward_elements == 2 * (8 + 16) * 16);
  BOOST_TEST(conversion.backward_elements == 4 * (8 + 16) * 16);
}

constexpr double kHidden = 768;
constexpr double kHeads = 12;
constexpr double kNormStatistics = 2 * 2 * 4;  // per token: two layer norms

// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
// arXiv:2205.05198, equation 1: s h (34 + 5 a s / h) bytes per layer and sequence, to which they
// add no statistics.
BOOST_DATA_TEST_CASE(transformer_block_keeps_34_s_h_and_5_a_s_s_bytes, data::make({64, 512, 1024}),
                     tokens) {
  const Model model = build_architecture("gpt2", {.sequence = tokens, .flash_attention = false});
  const double s = tokens;
  BOOST_TEST(bytes_in_16_bits(model.units.at(1)) ==
             34 * s * kHidden + 5 * kHeads * s * s + kNormStatistics * s);
}

BOOST_DATA_TEST_CASE(flash_attention_keeps_a_logarithm_per_row_instead, data::make({64, 512, 1024}),
                     tokens) {
  const Model model = build_architecture("gpt2", {.sequence = tokens});
  const double s = tokens;
  BOOST_TEST(bytes_in_16_bits(model.units.at(1)) ==
             34 * s * kHidden + 4 * kHeads * s + kNormStatistics * s);
}

BOOST_AUTO_TEST_CASE(bert_layer_keeps_as_much_as_gpt2s) {
  const Model model = build_architecture("bert_large", {.sequence = 128});
  BOOST_TEST(bytes_in_16_bits(model.units.at(1)) == 128 * (34 * 1024 + 4 * 16 + kNormStatistics));
}

BOOST_AUTO_TEST_CASE(llama_block_keeps_its_gate_twice) {
  // Two norm inputs, two product inputs, q, k, v and the attention's output; gate, up, SiLU(gate)
  // and their product.
  const double h = 4096;
  const double f = 11008;
  const Model model = build_architecture("llama_7b", {.sequence = 2048});
  BOOST_TEST(bytes_in_16_bits(model.units.at(1)) ==
             2048 * (2 * (2 * h + 2 * h + 4 * h + 4 * f) + 4 * 32 + 2 * 4));
}

}  // namespace
}  // namespace rehearse
