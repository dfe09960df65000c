// Models that Python's capture wrote: sizes by the batch, FLOPs, tapes whole and of a pipeline's
// parts.
#include "model/captured/captured.hpp"

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>

#include "../scratch.hpp"
#include "base/error.hpp"
#include "model/captured/work.hpp"
#include "model/stages.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(captured_models)

namespace {

/// Two linear layers without bias, 16 -> 32 -> 4, in bf16: y = (x A) B, loss = sum(y).
const std::string kTwoLayers = R"({
"schema": "rehearse.captured/1", "name": "two", "precision": "bf16_pure", "torch": "2.13.0",
"batch": null, "length": null, "lengths": false, "inputs": [["bf16", [[0, 1], 16]]],
"units": [
 {"name": "layers.0", "parameters": [["a", [32, 16], "bf16", true]], "buffers": 0,
  "forward": [[0, 1]], "backward": [[3, 1]], "tape": [[0], [4, -4]], "enters": []},
 {"name": "layers.1", "parameters": [["b", [4, 32], "bf16", true]], "buffers": 8,
  "forward": [[1, 1]], "backward": [[2, 1], [4, 1]], "tape": [[1], [5, 2, 3, -2, -1, -6]],
  "enters": [0]}],
"kernels": [
 {"op": "mm", "reads": [["bf16", [[0, 1], 16]], ["bf16", [16, 32], "strided"]],
  "writes": [["bf16", [[0, 1], 32]]]},
 {"op": "mm", "reads": [["bf16", [[0, 1], 32]], ["bf16", [32, 4], "strided"]],
  "writes": [["bf16", [[0, 1], 4]]]},
 {"op": "mm", "reads": [["bf16", [4, [0, 1]], "strided"], ["bf16", [[0, 1], 32]]],
  "writes": [["bf16", [4, 32]]]},
 {"op": "mm", "reads": [["bf16", [32, [0, 1]], "strided"], ["bf16", [[0, 1], 16]]],
  "writes": [["bf16", [32, 16]]]},
 {"op": "mm", "reads": [["bf16", [[0, 1], 4]], ["bf16", [4, 32]]],
  "writes": [["bf16", [[0, 1], 32]]], "same_node": true}],
"kinds": [["bf16", [[0, 1], 32]], ["bf16", [[0, 1], 4]], ["bf16", [4, 32]], ["bf16", [32, 16]]],
"tensors": [0, 1, 2, 0, 3, 1], "copies": [], "gradients": [[2, 1, 0], [4, 0, 0]]})";

Model read_text(const std::string& text) {
  const Scratch scratch;
  return captured::read_captured(scratch.write("two.model.json", text), 0);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  BOOST_REQUIRE(place != std::string::npos);
  return text.replace(place, from.size(), to);
}

/// How often each tensor is taken, less how often it is given back.
std::map<std::uint32_t, int> balance(const MemoryTape& tape) {
  std::map<std::uint32_t, int> left;
  for (const UnitTape& unit : tape.units)
    for (const auto* events : {&unit.forward, &unit.backward})
      for (const TapeEvent& event : *events) left[event.tensor] += event.takes ? 1 : -1;
  return left;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_captured_models_parameters_and_flops_are_its_products) {
  const auto read = read_text(kTwoLayers);
  BOOST_TEST(read.parameters() == 16 * 32 + 32 * 4);
  BOOST_TEST((read.captured->precision == Precision::bf16_pure));
  const double forward = 2 * (16 * 32 + 32 * 4);
  const double backward = 2 * (2 * 32 * 4 + 32 * 16);  // the batch needs no gradient
  BOOST_TEST(read.forward_flops() == forward);
  BOOST_TEST(read.flops_per_sample() == forward + backward);
  BOOST_TEST(read.units[1].buffer_elements == 8);
}

BOOST_AUTO_TEST_CASE(a_gradients_product_has_the_batch_inside) {
  const auto read = read_text(kTwoLayers);
  const auto work = captured::work_of(*read.units[0].operators[1].kernel, 7);
  BOOST_REQUIRE(work.products.size() == 1U);
  BOOST_TEST(work.products[0].rows == 32);
  BOOST_TEST(work.products[0].inner == 7);
  BOOST_TEST((work.products[0].role == captured::Product::Role::weight_gradient));
}

BOOST_AUTO_TEST_CASE(a_capture_at_one_batch_has_the_flops_of_one_that_holds_at_any) {
  std::string at_ten = replaced(kTwoLayers, "\"batch\": null", "\"batch\": 10");
  for (const char* before : {"[\"bf16\", [", "[\"bf16\", [4, ", "[\"bf16\", [32, "})
    for (const std::string varied = std::string(before) + "[0, 1]";
         at_ten.find(varied) != std::string::npos;)
      at_ten = replaced(at_ten, varied, std::string(before) + "10");
  const auto any = read_text(kTwoLayers), one = read_text(at_ten);
  BOOST_TEST(one.flops_per_sample() == any.flops_per_sample());
  BOOST_TEST(one.input_elements == any.input_elements);
  BOOST_TEST(one.sample == any.sample);
  const auto gradients = captured::work_of(*one.units[0].operators[1].kernel, 10);
  BOOST_TEST((gradients.products[0].role == captured::Product::Role::weight_gradient));
  const auto input = captured::work_of(*one.units[1].operators[2].kernel, 10);
  BOOST_TEST((input.products[0].role == captured::Product::Role::input_gradient));
}

BOOST_AUTO_TEST_CASE(a_convolution_has_a_kernel_for_its_bias_and_one_for_each_gradient) {
  const captured::Tensor x{"bf16", {{0, 1}, {3}, {8}, {8}}}, w{"bf16", {{4}, {3}, {3}, {3}}},
      y{"bf16", {{0, 1}, {4}, {6}, {6}}}, b{"bf16", {{4}}};
  captured::Kernel forward{.name = "convolution", .reads = {x, w, b}, .writes = {y}};
  const auto added = captured::work_of(forward, 5);
  BOOST_TEST(added.operators == 2);
  BOOST_TEST(added.moved.value() == 2 * 5 * 4 * 36 * 2);
  forward.reads.pop_back();
  BOOST_TEST(captured::work_of(forward, 5).operators == 1);
  BOOST_TEST(captured::work_of(forward, 5).moved.value() == 0);
  captured::Kernel backward{.name = "convolution_backward",
                            .reads = {y, x, w},
                            .writes = {x, w, b},
                            .options = {{"output_mask", {1, 1, 1}}},
                            .backward = true};
  BOOST_TEST(captured::work_of(backward, 5).operators == 3);
  BOOST_TEST(captured::work_of(backward, 5).moved.value() == 5 * 4 * 36 * 2);
  backward.options["output_mask"] = {0, 1, 0};
  BOOST_TEST(captured::work_of(backward, 5).operators == 1);
}

// A norm's second kernel reads dy and x once more.
BOOST_AUTO_TEST_CASE(kernels_within_an_operator_read_again) {
  const captured::Tensor x{"fp32", {{0, 1}, {4}}}, scale{"fp32", {{4}}};
  captured::Kernel norm{.name = "native_layer_norm_backward",
                        .reads = {x, x},
                        .writes = {x, scale, scale},
                        .backward = true};
  const double trained = captured::work_of(norm, 5).moved.value();
  norm.writes = {x};
  BOOST_TEST(captured::work_of(norm, 5).moved.value() == 3 * 5 * 4 * 4);
  BOOST_TEST(trained == (5 * 5 * 4 + 2 * 4) * 4);
}

// Operands that lie alike are read in vectors, however they lie.
BOOST_AUTO_TEST_CASE(a_copy_of_another_layout_is_made_one_by_one) {
  const captured::Tensor plain{"bf16", {{0, 1}, {4}}};
  captured::Tensor turned = plain;
  turned.strided = true;
  const auto made_one_by_one = [](const captured::Tensor& from, const captured::Tensor& to) {
    return captured::work_of({.name = "clone", .reads = {from}, .writes = {to}}, 5).one_by_one;
  };
  BOOST_TEST(made_one_by_one(plain, plain) == 0);
  BOOST_TEST(made_one_by_one(turned, turned) == 0);
  BOOST_TEST(made_one_by_one(turned, plain) == 5 * 4);
}

namespace {

captured::Tensor of(const std::string& format, const std::vector<double>& sizes) {
  captured::Tensor tensor{.format = format};
  for (const double size : sizes) tensor.shape.push_back({.constant = size});
  return tensor;
}

captured::Tensor strided(captured::Tensor tensor) {
  tensor.strided = true;
  return tensor;
}

captured::Work work_of(const std::string& name, const std::vector<captured::Tensor>& reads,
                       const captured::Tensor& write) {
  return captured::work_of({.name = name, .reads = reads, .writes = {write}}, 1);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_dense_embeddings_gradient_is_bound_by_its_bytes) {
  const auto work = work_of("embedding_dense_backward", {of("bf16", {8, 16}), of("int64", {8})},
                            of("bf16", {1000, 16}));
  BOOST_TEST(work.one_by_one == 0);
  BOOST_TEST(work.moved.value() == 2 * 8 * 16 + 8 * 8 + 2 * 1000 * 16);
}

BOOST_AUTO_TEST_CASE(the_losss_gradient_clears_the_logits_and_writes_one_of_each_row) {
  const auto work =
      work_of("nll_loss_backward", {of("fp32", {}), of("fp32", {8, 1000}), of("int64", {8})},
              of("fp32", {8, 1000}));
  BOOST_TEST(work.one_by_one == 0);
  BOOST_TEST(!work.by_row);
  BOOST_TEST(work.known);
}

BOOST_AUTO_TEST_CASE(operands_of_two_types_are_converted_each) {
  const auto sides = [](const char* left, const char* right) {
    return work_of("add", {of(left, {8, 16}), of(right, {8, 16})}, of("fp32", {8, 16})).mixed;
  };
  BOOST_TEST(sides("bf16", "fp32"));
  BOOST_TEST(!sides("fp32", "fp32"));
  BOOST_TEST(!work_of("mul", {of("bf16", {8, 16}), of("fp32", {})}, of("bf16", {8, 16})).mixed);
}

BOOST_AUTO_TEST_CASE(a_sum_of_rows_into_one_clears_counters_and_adds_up_blocks) {
  BOOST_TEST(work_of("sum", {of("bf16", {64, 16})}, of("bf16", {1, 16})).launches == 3);
  BOOST_TEST(work_of("sum", {of("bf16", {4, 64, 16})}, of("bf16", {1, 1, 16})).launches == 3);
  BOOST_TEST(work_of("sum", {of("bf16", {64, 16})}, of("bf16", {64, 1})).launches == 1);
}

BOOST_AUTO_TEST_CASE(a_part_is_copied_into_zeros_of_the_whole) {
  const captured::Tensor whole = of("bf16", {4, 8, 16});
  const auto halves = work_of("slice_backward", {of("bf16", {4, 8, 8})}, whole);
  BOOST_TEST(halves.filled.value() == 2 * 4 * 8 * 16);
  BOOST_TEST(halves.moved.value() == 2 * 2 * 4 * 8 * 8);
  BOOST_TEST(halves.one_by_one == 4 * 8 * 8);
  BOOST_TEST(halves.launches == 2);
  BOOST_TEST(work_of("slice_backward", {of("bf16", {2, 8, 16})}, whole).one_by_one == 0);
  BOOST_TEST(work_of("select_backward", {of("bf16", {8, 16})}, whole).one_by_one == 0);
  BOOST_TEST(work_of("select_backward", {of("bf16", {4, 16})}, whole).one_by_one == 4 * 16);
}

BOOST_AUTO_TEST_CASE(halves_that_lie_apart_are_put_together_one_by_one) {
  const captured::Tensor half = of("bf16", {4, 8, 8}), whole = of("bf16", {4, 8, 16});
  BOOST_TEST(work_of("cat", {strided(half), strided(half)}, whole).one_by_one == 4 * 8 * 16);
  BOOST_TEST(work_of("cat", {half, half}, whole).one_by_one == 0);
}

BOOST_AUTO_TEST_CASE(a_tape_is_as_large_as_its_batch) {
  const auto read = read_text(kTwoLayers);
  const MemoryTape tape = memory_tape(read, {.precision = Precision::bf16_pure, .batch = 10});
  BOOST_TEST(tape.tensors[0].size.value() == 10 * 32 * 2);
  for (const auto& [tensor, left] : balance(tape)) {
    const bool gradient = tape.tensors[tensor].role == TensorRole::parameter_gradient;
    BOOST_TEST(left == (gradient ? 1 : 0));
  }
}

BOOST_AUTO_TEST_CASE(a_pipelines_parts_hand_over_what_crosses_their_cut) {
  const auto read = read_text(kTwoLayers);
  BOOST_TEST(captured::can_cut_before(read, 1));
  const Model first = stage_of(read, {{0, 1}}), second = stage_of(read, {{1, 2}});
  const MemoryTape one = memory_tape(first, {.batch = 3}), two = memory_tape(second, {.batch = 3});
  const ChunkTape &begins = one.chunks.at(0), &ends = two.chunks.at(0);
  BOOST_REQUIRE((begins.sent && begins.received_gradient && ends.received && ends.sent_gradient));
  BOOST_TEST(!begins.received.has_value());
  BOOST_TEST(!ends.sent.has_value());
  BOOST_TEST(one.tensors[*begins.sent].size.value() == 3 * 32 * 2);
  BOOST_TEST(two.tensors[*ends.received].size.value() == 3 * 32 * 2);
  for (const auto& [tensor, left] : balance(one)) {
    const bool stays =
        one.tensors[tensor].role == TensorRole::parameter_gradient || tensor == *begins.sent;
    BOOST_TEST(left == (stays ? 1 : 0));
  }
  for (const auto& [tensor, left] : balance(two)) {
    const bool stays =
        two.tensors[tensor].role == TensorRole::parameter_gradient || tensor == *ends.sent_gradient;
    BOOST_TEST(left == (stays ? 1 : 0));
  }
}

/// ReLU saves what it gives: its own backward gives that back, and the next stage gets it all the
/// same.
BOOST_AUTO_TEST_CASE(a_stage_that_saves_what_it_sends_gives_it_back_itself) {
  const std::string saved = replaced(replaced(kTwoLayers, "[[0], [4, -4]]", "[[0], [4, -1, -4]]"),
                                     "[5, 2, 3, -2, -1, -6]", "[5, 2, 3, -2, -6]");
  const auto read = read_text(saved);
  const MemoryTape tape = memory_tape(stage_of(read, {{0, 1}}), {.batch = 3});
  const ChunkTape& sends = tape.chunks.at(0);
  BOOST_REQUIRE(sends.sent.has_value());
  BOOST_TEST(sends.keeps_sent);
  BOOST_TEST(tape.tensors[*sends.sent].size.value() == 3 * 32 * 2);
  for (const auto& [tensor, left] : balance(tape)) {
    const bool stays = tape.tensors[tensor].role == TensorRole::parameter_gradient;
    BOOST_TEST(left == (stays ? 1 : 0));
  }
  BOOST_TEST(!memory_tape(stage_of(read_text(kTwoLayers), {{0, 1}}), {.batch = 3})
                  .chunks.at(0)
                  .keeps_sent);
}

BOOST_AUTO_TEST_CASE(a_file_with_mistakes_says_where) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      read_text(text);
    } catch (const InputError& error) {
      const std::string whole = error.what();
      return whole.substr(whole.find("error: "));
    }
    return "";
  };
  BOOST_TEST(message(replaced(kTwoLayers, "captured/1", "captured/9"))
                 .starts_with("error: schema: expected \"rehearse.captured/1\""));
  BOOST_TEST(message(replaced(kTwoLayers, "[[3, 1]]", "[[9, 1]]"))
                 .starts_with("error: units[0].backward[0][0]: expected one of `kernels`"));
  BOOST_TEST(message(replaced(kTwoLayers, "[4, -4]", "[4, -44]"))
                 .starts_with("error: units[0].tape[1][1]: expected one of `tensors`"));
  BOOST_TEST(message(replaced(kTwoLayers, "[4, 0, 0]", "[4, 0, 5]"))
                 .starts_with("error: gradients[1]: expected a tensor, a unit"));
}

BOOST_AUTO_TEST_SUITE_END()
