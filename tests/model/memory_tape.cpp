// A tape is played as a step is: forward, then backward from the last unit.
#include "model/memory_tape.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "kept.hpp"
#include "model/adaptation.hpp"
#include "shares.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(memory_tape_test)
namespace {

BOOST_DATA_TEST_CASE(nothing_but_parameter_gradients_is_left,
                     boost::unit_test::data::make(architecture_names()), name) {
  const Model model = build_architecture(name, {});
  const MemoryTape tape = memory_tape(model, {.precision = Precision::bf16, .batch = 2});
  std::vector<int> taken(tape.tensors.size()), returned(tape.tensors.size());
  const auto play = [&](const std::vector<TapeEvent>& events) {
    for (const TapeEvent& event : events) {
      ++(event.takes ? taken : returned).at(event.tensor);
      BOOST_TEST(taken[event.tensor] >= returned[event.tensor]);
    }
  };
  for (const UnitTape& unit : tape.units) play(unit.forward);
  for (std::size_t u = tape.units.size(); u-- > 0;) play(tape.units[u].backward);
  for (std::size_t t = 0; t < tape.tensors.size(); ++t) {
    BOOST_TEST(taken[t] == 1);
    BOOST_TEST(returned[t] == (tape.tensors[t].role == TensorRole::parameter_gradient ? 0 : 1));
  }
}

BOOST_AUTO_TEST_CASE(attention_that_keeps_its_probabilities_takes_more) {
  const auto taken = [](bool flash) {
    const Model model = build_architecture("bert_large", {.flash_attention = flash});
    Bytes sum;
    for (const TapeTensor& tensor : memory_tape(model, {.precision = Precision::fp16}).tensors)
      if (tensor.role == TensorRole::activation) sum += tensor.size;
    return sum;
  };
  // 24 layers, 16 heads of 128 x 128 pairs: at least the probabilities, in 16 bits.
  BOOST_TEST((taken(false) - taken(true)).value() > 24.0 * 16 * 128 * 128 * 2);
}

BOOST_DATA_TEST_CASE(each_parameter_gets_one_gradient_of_its_size,
                     boost::unit_test::data::make(architecture_names()), name) {
  const Model model = build_architecture(name, {});
  const MemoryTape tape = memory_tape(model, {.precision = Precision::bf16, .batch = 2});
  std::vector<std::vector<double>> sizes(model.units.size());
  for (std::size_t u = 0; u < sizes.size(); ++u) sizes[u].resize(model.units[u].tensors.size());
  for (const TapeTensor& tensor : tape.tensors) {
    if (tensor.role != TensorRole::parameter_gradient) continue;
    sizes.at(tensor.unit).at(tensor.parameter) += tensor.size.value();
  }
  for (std::size_t u = 0; u < sizes.size(); ++u) {
    for (std::size_t p = 0; p < sizes[u].size(); ++p) {
      BOOST_TEST(sizes[u][p] == 4.0 * static_cast<double>(model.units[u].tensors[p]));
    }
  }
}

// The ReLUs work in place; the logits go when the loss is there; loss and total weight are numbers.
BOOST_DATA_TEST_CASE(a_perceptron_keeps_its_activations_and_the_logarithms,
                     boost::unit_test::data::make({1, 2, 7}), batch) {
  const Model model = build_architecture("small_mlp", {});
  for (const TapeDevice device : {TapeDevice::cpu, TapeDevice::cuda}) {
    const MemoryTape tape =
        memory_tape(model, {.precision = Precision::fp32, .batch = batch, .device = device});
    BOOST_TEST(kept(tape) == 4.0 * (batch * (128 + 64 + 10) + 2));
  }
}

/// With more tensor ranks than key-value heads, too, and where one product makes all heads.
BOOST_DATA_TEST_CASE(each_share_of_heads_that_are_normed_has_a_tape,
                     boost::unit_test::data::make({1, 8, 16}), tensor) {
  for (const HeadNorm norm : {HeadNorm::each_head, HeadNorm::all_heads}) {
    for (const bool fused : {false, true}) {
      TransformerShape shape = llama();
      shape.head_norm = norm;
      shape.fused_qkv = fused;
      for (const Compile compile : {Compile::none, Compile::whole}) {
        Model model = share_of(shape, {.sequence = 16}, {.tensor = tensor});
        const MemoryTape tape =
            memory_tape(compiled(std::move(model), compile), {.precision = Precision::bf16_pure});
        BOOST_TEST(tape.tensors.size() > 0U);
      }
    }
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
