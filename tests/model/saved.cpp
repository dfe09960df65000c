// What autograd keeps from forward to backward on the memory tape, by hand.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>

#include "kept.hpp"
#include "model/layers.hpp"
#include "model/stages.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(saved_test)
namespace {

namespace data = boost::unit_test::data;

MemoryTape tape_of(const Model& model, Precision precision) {
  return memory_tape(model, {.precision = precision, .batch = 1});
}

/// What a step keeps of an image of 3 channels, 4x4, that a convolution turns into 8 channels, and
/// of the layers that follow, but for the loss: log-softmax, the sum and the total weight.
double kept_of(Precision precision, const std::function<void(Layers&)>& follow) {
  Layers layers({.channels = 3, .height = 4, .width = 4});
  layers.unit("unit");
  layers.convolution({.channels = 8});
  follow(layers);
  const double loss = 4 * (layers.current().elements() + 2);
  layers.cross_entropy();
  Model model;
  model.input_elements = 3 * 4 * 4;
  model.units = layers.take();
  return kept(tape_of(model, precision)) - loss;
}

/// Of the layers alone.
double kept_by(Precision precision, const std::function<void(Layers&)>& layers) {
  return kept_of(precision, layers) - kept_of(precision, [](Layers&) {});
}
double kept_in_fp32(const std::function<void(Layers&)>& layers) {
  return kept_by(Precision::fp32, layers);
}
constexpr double kInner = 8 * 4 * 4;

BOOST_AUTO_TEST_CASE(convolution_keeps_its_input) {
  BOOST_TEST(kept_in_fp32([](Layers& layers) {
               layers.convolution({.channels = 16, .kernel = 3, .stride = 2, .padding = 1});
               BOOST_TEST(layers.current().elements() == 16 * 2 * 2);
             }) == 4 * kInner);
}

BOOST_AUTO_TEST_CASE(in_place_relu_and_the_next_convolution_share_one_tensor) {
  BOOST_TEST(kept_in_fp32([](Layers& layers) {
               layers.batch_norm();                  // keeps its input, a mean and a deviation ...
               layers.relu();                        // keeps its output ...
               layers.convolution({.channels = 8});  // ... which is the convolution's input
             }) == 4 * (2 * kInner + 2 * 8));
}

BOOST_AUTO_TEST_CASE(in_place_silu_keeps_a_clone_beside_the_next_input) {
  BOOST_TEST(kept_in_fp32([](Layers& layers) {
               layers.silu();
               layers.convolution({.channels = 8});
             }) == 4 * 2 * kInner);
}

BOOST_AUTO_TEST_CASE(max_pool_keeps_eight_bytes_per_index) {
  BOOST_TEST(kept_in_fp32([](Layers& layers) {
               layers.relu();  // its output is the pool's input
               layers.max_pool({});
             }) == 4 * kInner + 8 * kInner / 4);
}

BOOST_AUTO_TEST_CASE(dropout_keeps_one_byte_per_element) {
  BOOST_TEST(kept_in_fp32([](Layers& layers) { layers.dropout(); }) == kInner);
}

BOOST_AUTO_TEST_CASE(layer_norm_keeps_its_input_in_fp32_under_autocast) {
  // Mean and reciprocal deviation of 16 positions.
  BOOST_TEST(kept_by(Precision::bf16, [](Layers& layers) { layers.layer_norm(); }) ==
             4 * kInner + 2 * 4 * 16);
}

BOOST_AUTO_TEST_CASE(branches_keep_their_common_input_once) {
  BOOST_TEST(kept_in_fp32([](Layers& layers) {
               const Activation input = layers.current();
               layers.convolution({.channels = 8});
               const Activation main = layers.current();
               layers.resume(input);
               layers.convolution({.channels = 8});
               const Activation shortcut = layers.current();
               layers.resume(main);
               layers.add(shortcut);
             }) == 4 * kInner);
}

BOOST_AUTO_TEST_CASE(layers_side_by_side_keep_a_copy_each_under_autocast_alone) {
  const auto gate = [](Layers& layers) {
    layers.layer_norm();  // fp32 under autocast
    layers.linear({8, 8}, false);
    layers.swiglu();  // keeps both outputs, and SiLU of the first
  };
  constexpr double kNorm = 4 * kInner + 2 * 4 * 16;
  constexpr double kWeights = 2 * 8 * 8;
  BOOST_TEST(kept_by(Precision::fp32, gate) == kNorm + 4 * (1 + 3) * kInner);
  BOOST_TEST(kept_by(Precision::bf16, gate) == kNorm + 2 * ((2 + 3) * kInner + kWeights));
}

BOOST_AUTO_TEST_CASE(inner_resnet_bottleneck_keeps_six_tensors) {
  // Three inputs of batch norms and three outputs of ReLUs, the last of which is the next block's
  // input; a mean and a deviation per channel.
  const MemoryTape tape = tape_of(build_architecture("resnet50", {}), Precision::fp32);
  BOOST_TEST(kept_by(tape, 2) == 4 * 2 * (56 * 56 + 1) * (64 + 64 + 256));
}

BOOST_AUTO_TEST_CASE(dense_layer_keeps_its_concatenation_and_does_not_share_it) {
  // Inputs of two norms and outputs of two ReLUs; the third layer concatenates 64 + 2 * 32
  // channels. And the 32 that it adds.
  const MemoryTape tape = tape_of(build_architecture("densenet121", {}), Precision::fp32);
  BOOST_TEST(kept_by(tape, 3) == 4 * (2 * (56 * 56 + 1) * (128 + 128) + 56 * 56 * 32));
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
constexpr double kDropoutState = 2 * 8;        // flash attention's seed and offset

/// Bytes that a block keeps where every element has two.
double kept_by_block(const Model& model) {
  return kept_by(tape_of(model, Precision::bf16_pure), 1);
}

// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
// arXiv:2205.05198, equation 1: s h (34 + 5 a s / h) bytes per layer and sequence, to which they
// add no statistics. PyTorch's own attention scales queries and keys before their product, which
// keeps what was scaled, 4 s h; the values are a view of what holds all three.
BOOST_DATA_TEST_CASE(transformer_block_keeps_34_s_h_and_5_a_s_s_bytes, data::make({64, 512, 1024}),
                     tokens) {
  const Model model = build_architecture("gpt2", {.sequence = tokens, .flash_attention = false});
  const double s = tokens;
  BOOST_TEST(kept_by_block(model) ==
             (34 + 4) * s * kHidden + 5 * kHeads * s * s + kNormStatistics * s);
}

BOOST_DATA_TEST_CASE(flash_attention_keeps_a_logarithm_per_row_instead, data::make({64, 512, 1024}),
                     tokens) {
  const Model model = build_architecture("gpt2", {.sequence = tokens});
  const double s = tokens;
  BOOST_TEST(kept_by_block(model) ==
             34 * s * kHidden + 4 * kHeads * s + kNormStatistics * s + kDropoutState);
}

BOOST_AUTO_TEST_CASE(bert_layer_keeps_as_much_as_gpt2s) {
  const Model model = build_architecture("bert_large", {.sequence = 128});
  BOOST_TEST(kept_by_block(model) == 128 * (34 * 1024 + 4 * 16 + kNormStatistics) + kDropoutState);
}

BOOST_AUTO_TEST_CASE(llama_block_keeps_its_gate_twice) {
  const double h = 4096;
  const double f = 11008;
  const double norm = 4 * h + 2 * h + 4;  // the input in fp32, what the scale multiplies, a factor
  const double attention = 2 * (3 * h + 2 * h) + 4 * 32;  // q, k, v, the output and its copy; rows
  const double rotation = 2 * 128;                        // cosines and sines
  const double gate = 2 * 4 * f;                          // gate, up, SiLU(gate) and their product
  const Model model = build_architecture("llama_7b", {.sequence = 2048});
  BOOST_TEST(kept_by_block(model) ==
             2048 * (2 * (norm + 2 * h) + attention + rotation + gate) + kDropoutState);
}

/// What PyTorch 2.13 saved of two samples of 64 tokens, by saved_tensors_hooks on a CPU: the blocks
/// of bf16 parameters keep as much under torch.autocast as without it, and half of what the loss
/// keeps.
BOOST_AUTO_TEST_CASE(autocast_over_bf16_parameters_widens_the_loss_alone) {
  const Model model = build_architecture("small_llama", {.sequence = 64});
  const MemoryTape pure = tape_of(model, Precision::bf16_pure);
  const MemoryTape autocast = tape_of(model, Precision::bf16_pure_autocast);
  for (std::size_t unit = 0; unit + 1 < model.units.size(); ++unit)
    BOOST_TEST(kept_by(autocast, unit) == kept_by(pure, unit), "unit " << unit);
  constexpr double kLogits = 64 * 32000;
  BOOST_TEST(kept_by(autocast, model.units.size() - 1) - kept_by(pure, model.units.size() - 1) ==
             2 * kLogits + 2 * 2);  // log-softmax, the loss and its weight
}

/// Of two samples: 63 positions each in fp32, whatever the precision. PyTorch saved 16129012 bytes,
/// with the targets (8 bytes each, part of the batch here).
BOOST_AUTO_TEST_CASE(hugging_faces_loss_keeps_shifted_logits_in_fp32) {
  const Model plain = build_architecture("small_llama", {.sequence = 64});
  const Model model =
      build_architecture("small_llama", {.sequence = 64, .loss = Loss::huggingface});
  const std::size_t head = model.units.size() - 1;
  const TapeOptions two{.precision = Precision::bf16_pure, .batch = 2};
  const double before_loss = kept_by(memory_tape(plain, two), head) - 2 * 64 * 32000 * 2 - 2 * 2;
  BOOST_TEST(kept_by(memory_tape(model, two), head) - before_loss == 2 * 63 * 32000 * 4 + 2 * 4);
  const Model wide =
      build_architecture("small_llama", {.sequence = 64, .loss = Loss::cross_entropy_fp32});
  BOOST_TEST(kept_by(memory_tape(wide, two), head) - before_loss == 2 * 64 * 32000 * 4 + 2 * 4);
}

/// At the start of backward, of each logit: 4 bytes of Fabric's copy, 4 of log-softmax, 4 of its
/// gradient and 2 of what the product gets, where the plain loss has 2 and 2. In pieces the
/// gradients are one piece's, and the plain loss peaks in forward, at 2 and 2 and a part of the
/// pieces.
BOOST_AUTO_TEST_CASE(fabrics_copy_of_the_logits_is_held_during_backward) {
  const auto peak_of = [](Loss loss, std::int64_t chunks) {
    const Model model = build_architecture(
        "small_llama", {.sequence = 512, .loss = loss, .loss_parts = {.chunks = chunks}});
    return live_peak(memory_tape(model, {.precision = Precision::bf16_pure, .batch = 2}));
  };
  const auto more = [&](std::int64_t chunks) {
    constexpr double kLogits = 2 * 512 * 32000;
    return (peak_of(Loss::lightning_fabric, chunks) - peak_of(Loss::cross_entropy, chunks)) /
           kLogits;
  };
  const auto percent = boost::test_tools::tolerance(0.02);
  BOOST_TEST(more(0) == 10, percent);
  BOOST_TEST(more(8) > 4);
  BOOST_TEST(more(8) < 4 + 6.0 / 8);
}

/// DeepSpeed's and Aleph-Alpha's engines hold what the last layer gave the loss: 2 bytes of each
/// logit beside what an fp32 loss has of them. A kernel that writes gradients over logits has them.
BOOST_AUTO_TEST_CASE(an_engine_holds_the_last_stages_logits_during_backward) {
  constexpr double kLogits = 2 * 512 * 32000;
  const auto more = [&](Loss loss) {
    const Model model = build_architecture("small_llama", {.sequence = 512, .loss = loss});
    Model last = stage_of(model, {{1, model.units.size()}});
    const TapeOptions options{.precision = Precision::bf16_pure, .batch = 2};
    const double without = live_peak(memory_tape(last, options));
    last.chunks.back().holds_output = true;
    return (live_peak(memory_tape(last, options)) - without) / kLogits;
  };
  BOOST_TEST(more(Loss::cross_entropy_fp32) == 2, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(more(Loss::fused_logits) < 0.5);
}

/// A chunk that goes back at once holds its logits, their log-softmax and two gradients, 2 bytes
/// each here; in fp32 the logits are gone, and the others have 4 bytes. Backward keeps none.
BOOST_AUTO_TEST_CASE(chunks_that_go_back_at_once_are_there_one_at_a_time) {
  const auto tape_of = [](Loss loss, std::int64_t chunks) {
    const Model model = build_architecture(
        "small_llama",
        {.sequence = 512, .loss = loss, .loss_parts = {.chunks = chunks, .at_once = true}});
    return memory_tape(model, {.precision = Precision::bf16_pure, .batch = 2});
  };
  constexpr double kLogits = 2 * 512 * 32000;
  const auto less = [&](Loss loss) {
    return (live_peak(tape_of(loss, 2)) - live_peak(tape_of(loss, 4))) / kLogits;
  };
  BOOST_TEST(less(Loss::cross_entropy) == 4 * 2 * 0.25);
  BOOST_TEST(less(Loss::cross_entropy_fp32) == 3 * 4 * 0.25);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
