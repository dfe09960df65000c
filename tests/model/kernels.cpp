// Kernels that the tape writes down beside memory.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>

#include "model/adaptation.hpp"
#include "model/captured/played.hpp"
#include "model/captured/work.hpp"
#include "model/memory_tape.hpp"
#include "model/tape/autograd.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(kernels_test)
namespace {

constexpr std::int64_t kBatch = 3;

Model small_llama() { return build_architecture("llama_7b", {.sequence = 64}); }

std::vector<captured::UnitCalls> calls(const Model& model, Precision precision) {
  return captured::calls_of(model, {.precision = precision, .batch = kBatch});
}

double flops(const std::vector<captured::UnitCalls>& units, bool backward) {
  double sum = 0;
  for (const captured::UnitCalls& unit : units)
    for (const captured::Kernel& one : backward ? unit.backward : unit.forward)
      sum += one.calls * captured::work_of(one, kBatch).flops;
  return sum;
}

std::size_t count(const MemoryTape& tape, const std::function<bool(const Kernel&)>& is_one) {
  std::size_t found = 0;
  for (const UnitKernels& unit : tape.kernels)
    for (const auto* pass : {&unit.forward, &unit.backward})
      found += static_cast<std::size_t>(std::ranges::count_if(*pass, is_one));
  return found;
}

MemoryTape recorded(const Model& model, Precision precision) {
  return memory_tape(model, {.precision = precision, .batch = kBatch, .kernels = true});
}

bool makes_weight_gradient(const Kernel& kernel) {
  return kernel.role == KernelRole::weight_gradient && kernel.op == "mm";
}

}  // namespace

// What the layers count for time and what the tape plays are of one network.
BOOST_AUTO_TEST_CASE(kernels_add_up_to_the_models_flops) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::bf16_pure}) {
    const Model model = small_llama();
    const auto units = calls(model, precision);
    const double forward = static_cast<double>(kBatch) * model.forward_flops();
    BOOST_CHECK_CLOSE(flops(units, false), forward, 1e-7);
    BOOST_CHECK_CLOSE(flops(units, true), 2 * forward, 1e-7);
  }
}

BOOST_AUTO_TEST_CASE(memory_is_the_same_whether_kernels_are_asked_for) {
  const Model model = small_llama();
  const MemoryTape with = recorded(model, Precision::bf16);
  const MemoryTape without = memory_tape(model, {.precision = Precision::bf16, .batch = kBatch});
  BOOST_CHECK(with.tensors == without.tensors);
  BOOST_CHECK(without.kernels.empty());
  for (std::size_t unit = 0; unit < with.units.size(); ++unit) {
    BOOST_CHECK(with.units[unit].forward == without.units[unit].forward);
    BOOST_CHECK(with.units[unit].backward == without.units[unit].backward);
  }
}

BOOST_AUTO_TEST_CASE(each_trained_matrix_has_one_product_for_its_gradient) {
  const Model model = small_llama();
  std::size_t matrices = 0;
  for (const Unit& unit : model.units)
    for (const Layer& layer : unit.layers)
      if (layer.kind == LayerKind::linear) matrices += layer.channels.size();
  BOOST_CHECK_EQUAL(count(recorded(model, Precision::bf16_pure), makes_weight_gradient), matrices);
}

BOOST_AUTO_TEST_CASE(frozen_weights_have_no_gradients_and_adapters_have) {
  const Model whole = small_llama();
  const Model adapted = adapt(whole, {.lora = Lora{.rank = 4, .targets = {"q", "v"}}});
  const auto blocks = static_cast<std::size_t>(whole.layers);
  BOOST_CHECK_EQUAL(count(recorded(adapted, Precision::bf16_pure), makes_weight_gradient),
                    4 * blocks);
}

// Nobody trains the image.
BOOST_AUTO_TEST_CASE(the_first_convolution_has_no_gradient_of_its_input) {
  const MemoryTape tape = recorded(build_architecture("vgg16", {}), Precision::fp32);
  const auto has_mask = [](double input) {
    return [input](const Kernel& kernel) {
      return kernel.op == "convolution_backward" && kernel.options.back().second.front() == input;
    };
  };
  BOOST_CHECK_EQUAL(count(tape, has_mask(0)), 1);
  BOOST_CHECK_EQUAL(count(tape, has_mask(1)), 12);
}

// 197 tokens: 6 x 32 and 5 more.
BOOST_AUTO_TEST_CASE(memory_efficient_attention_fills_up_its_rows_of_sums) {
  const MemoryTape tape = recorded(build_architecture("vit_l_16", {}), Precision::fp32);
  const auto attends = [](const Kernel& kernel) {
    return kernel.op == "_scaled_dot_product_efficient_attention" &&
           kernel.writes.at(1).sizes == Sizes{kBatch, 16, 224};
  };
  BOOST_CHECK_EQUAL(count(tape, attends), 24);
}

// nn.MultiheadAttention has tokens before samples: its first product copies what it reads, and so
// does the second one's backward. Queries, keys and values are one packed product.
BOOST_AUTO_TEST_CASE(multi_head_attention_computes_with_tokens_first) {
  const MemoryTape tape = recorded(build_architecture("vit_l_16", {}), Precision::bf16_pure);
  const auto copies = [](const Sizes& sizes) {
    return [sizes](const Kernel& kernel) {
      return kernel.op == "clone" && kernel.reads.at(0).sizes == sizes &&
             kernel.reads.at(0).layout == MemoryLayout::strided;
    };
  };
  BOOST_CHECK_EQUAL(count(tape, copies({197, kBatch, 1024})), 2 * 24);
  BOOST_CHECK_EQUAL(count(tape, copies({3, 197, kBatch, 1024})), 24);
  BOOST_CHECK_EQUAL(count(tape, copies({197, kBatch, 3, 1024})), 24);
}

// torch.nn.Linear of a transposed view has to copy it; of the view that undoes it, it does not.
BOOST_AUTO_TEST_CASE(strides_say_where_elements_lie) {
  const tape::Shape plain{2, 16, 128, 64};
  const tape::Shape heads({2, 16, 128, 64}, {131072, 64, 1024, 1});
  BOOST_CHECK(plain.contiguous() && !heads.contiguous());
  BOOST_CHECK(plain.dense() && heads.dense());
  const tape::Shape table{1, 1, 128, 64};
  BOOST_CHECK(tape::broadcast({&heads, &table}).strides == heads.strides);
  BOOST_CHECK(tape::broadcast({&plain, &heads}).strides == plain.strides);
  const tape::Shape column{2, 16, 128, 1};
  BOOST_CHECK(tape::broadcast({&column, &heads}).sizes == heads.sizes);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
