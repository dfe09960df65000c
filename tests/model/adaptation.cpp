// Adapters, frozen and quantized weights, losses in pieces, compiled networks: what is trained, and
// what the tape keeps, beside PEFT's own networks (tests/model/measure_with_peft).
#include "model/adaptation.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "base/data_folder.hpp"
#include "kept.hpp"
#include "model/hugging_face/hugging_face.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(adaptation_test)
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 32;

TransformerShape shape_of(const std::string& name) {
  return read_hugging_face(data_folder() / "tests/model/tiny" / (name + ".json")).shape;
}

Model small(const LossParts& parts = {}) {
  return build_transformer(shape_of("Llama-3.1-8B"), {.sequence = kTokens, .loss_parts = parts});
}

double kept_of(const Model& model, Precision precision = Precision::fp32) {
  return kept(memory_tape(model, {.precision = precision, .batch = kBatch}));
}

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

BOOST_AUTO_TEST_CASE(adapters_train_and_keep_what_pefts_do) {
  std::ifstream file(data_folder() / "tests/model/measured_peft.txt");
  std::string name, targets;
  double dropout = 0, trained = 0, saved = 0;
  int lines = 0;
  for (; file >> name >> targets >> dropout >> trained >> saved; ++lines) {
    const Model plain =
        build_transformer(shape_of(name), {.sequence = kTokens, .loss = Loss::cross_entropy_fp32});
    const Lora lora{.rank = 4, .targets = names_in(targets), .dropout = dropout > 0};
    const Model model = adapt(plain, {.lora = lora});
    const MemoryTape tape = memory_tape(
        model, {.precision = Precision::fp32, .batch = kBatch, .device = TapeDevice::cpu});
    const double off = kept(tape) / saved - 1;
    BOOST_TEST(static_cast<double>(model.trainable_parameters()) == trained);
    BOOST_TEST(std::abs(off) < 0.02,
               name << " " << targets << " " << dropout << ": " << kept(tape) << " of " << saved);
  }
  BOOST_TEST(lines == 6);
}

BOOST_AUTO_TEST_CASE(a_frozen_network_keeps_less_and_multiplies_two_thirds) {
  const Model all = small();
  const Model adapted = adapt(all, {.lora = Lora{.rank = 1, .targets = {"q"}}});
  BOOST_TEST(kept_of(adapted) < kept_of(all));
  BOOST_TEST(adapted.flops_per_sample() < 0.8 * all.flops_per_sample());
  BOOST_TEST(adapted.trainable_parameters() == 2 * (64 + 64));
  BOOST_TEST(adapted.parameters() == all.parameters() + 2 * (64 + 64));
}

BOOST_AUTO_TEST_CASE(units_before_the_first_trained_one_have_no_backward) {
  Model model = small();
  std::vector<bool> frozen(model.units.size(), true);
  frozen.back() = false;
  model = adapt(std::move(model), {.frozen = frozen});
  for (const Operator& op : model.units[1].operators) BOOST_TEST(op.backward_flops == 0);
  const MemoryTape tape = memory_tape(model, {.precision = Precision::fp32, .batch = kBatch});
  BOOST_TEST(tape.units[1].backward.empty());
}

BOOST_AUTO_TEST_CASE(quantized_weights_are_4_bits_and_their_scales) {
  const Adaptation how{.lora = Lora{.rank = 1, .targets = {"q"}}, .linear = StoredAs::nf4};
  const Model model = adapt(small(), how);
  const Unit& block = model.units[1];
  const Layer& queries = *std::ranges::find(block.layers, LayerKind::linear, &Layer::kind);
  const double weight = static_cast<double>(block.tensors[queries.parameter]);
  BOOST_TEST(stored_bytes(block, queries.parameter, Precision::bf16_pure).value() ==
             weight * (0.5 + 4.0 / 64));
  BOOST_TEST(stored_element(StoredAs::nf4_double, Precision::bf16_pure).value() ==
             0.5 + 1.0 / 64 + 4.0 / (64 * 256));
  BOOST_TEST(stored_element(StoredAs::int8, Precision::bf16_pure).value() == 1 + 4.0 / 4096);
}

BOOST_AUTO_TEST_CASE(old_bitsandbytes_saves_inputs_of_frozen_products) {
  Adaptation how{.lora = Lora{.rank = 1, .targets = {"q"}}, .linear = StoredAs::nf4};
  const double now = kept_of(adapt(small(), how), Precision::bf16_pure);
  how.keeps_inputs = true;
  BOOST_TEST(kept_of(adapt(small(), how), Precision::bf16_pure) > now);
}

// Of bitsandbytes 0.50.2, PEFT 0.21.2 and transformers 5.17 under torch.autocast, after
// prepare_model_for_kbit_training: storages that a layer more saves. On the CPU, where attention's
// output is copied once more for o; on CUDA the state of its generator stands beside it.
BOOST_AUTO_TEST_CASE(quantized_products_return_what_fp32_norms_gave_them) {
  constexpr double kSaved = 2622464, kCopied = 128 * 256 * 2, kState = 2 * 8;
  Adaptation how{.lora = Lora{.rank = 16, .targets = {"all_linear"}, .storage = StoredAs::fp32},
                 .linear = StoredAs::nf4,
                 .others = StoredAs::fp32};
  const auto saved = [&](std::int64_t layers) {
    const TransformerShape shape{.layers = layers,
                                 .hidden = 256,
                                 .heads = 8,
                                 .kv_heads = 2,
                                 .head_width = 32,
                                 .feed_forward = 896,
                                 .vocabulary = 512};
    const Model model = adapt(build_transformer(shape, {.sequence = 128}), how);
    return kept(memory_tape(model, {.precision = Precision::bf16_pure_autocast, .batch = 1}));
  };
  BOOST_TEST(saved(3) - saved(2) == kSaved - kCopied + kState);
  how.others = StoredAs::model;
  BOOST_TEST(saved(3) - saved(2) < 0.8 * kSaved);
}

BOOST_AUTO_TEST_CASE(beside_fp32_norms_quantized_products_convert) {
  Adaptation how{.lora = Lora{.rank = 1, .targets = {"q"}, .storage = StoredAs::fp32},
                 .linear = StoredAs::nf4};
  const auto converted = [&] {
    double elements = 0;
    for (const Operator& op : adapt(small(), how).units[1].operators)
      if (op.kind == OperatorKind::cast && op.always_fp32) elements += op.forward_elements;
    return elements;
  };
  const double narrow = converted();  // the adapter's input and output
  how.others = StoredAs::fp32;
  const TransformerShape t = shape_of("Llama-3.1-8B");
  const auto hidden = static_cast<double>(t.hidden), wide = static_cast<double>(t.feed_forward);
  const double keys = hidden * static_cast<double>(t.kv_heads) / static_cast<double>(t.heads);
  // Inputs of all but o, their outputs, and what attention reads; the adapter's input alone.
  const double inputs = 5 * hidden + wide, outputs = 2 * hidden + 2 * keys + 2 * wide;
  BOOST_TEST(converted() == narrow + kTokens * (inputs + outputs + hidden + 2 * keys - hidden));
  for (const Operator& op : adapt(small(), how).units[1].operators)
    if (op.kind == OperatorKind::normalization) BOOST_TEST(op.always_fp32);
}

// PEFT clones what a quantized product returned, in front of the adapter's sum.
BOOST_AUTO_TEST_CASE(what_a_quantized_product_returned_is_copied) {
  Adaptation how{.lora = Lora{.rank = 1, .targets = {"q"}}};
  const auto moved = [&] {
    double elements = 0;
    for (const Operator& op : adapt(small(), how).units[1].operators)
      if (op.kind == OperatorKind::elementwise) elements += op.forward_elements;
    return elements;
  };
  const double plain = moved();
  how.linear = StoredAs::nf4;
  BOOST_TEST(moved() == plain + 2.0 * kTokens * 64);
}

BOOST_AUTO_TEST_CASE(llm_int8_keeps_inputs) {
  Adaptation how{.lora = Lora{.rank = 1, .targets = {"q"}}, .linear = StoredAs::nf4};
  const double nf4 = kept_of(adapt(small(), how), Precision::bf16_pure);
  how.linear = StoredAs::int8;
  BOOST_TEST(kept_of(adapt(small(), how), Precision::bf16_pure) > nf4);
}

BOOST_AUTO_TEST_CASE(parts_of_a_fused_product_have_one_adapter_that_pads) {
  TransformerShape t = shape_of("Llama-3.1-8B");
  t.fused_qkv = true;
  const Model plain = build_transformer(t, {.sequence = kTokens});
  const Model model = adapt(plain, {.lora = Lora{.rank = 4, .targets = {"q", "v"}}});
  // A: 8 x 64; B: 4 columns for the 64 channels of q and the 32 of v; two blocks.
  BOOST_TEST(model.trainable_parameters() == 2 * (8 * 64 + 4 * (64 + 32)));
}

BOOST_AUTO_TEST_CASE(a_loss_in_chunks_keeps_as_much_and_peaks_lower) {
  const double whole = kept_of(small()), chunks = kept_of(small({.chunks = 4}));
  BOOST_TEST(std::abs(chunks / whole - 1) < 0.01);
}

BOOST_AUTO_TEST_CASE(a_fused_loss_keeps_gradients_of_its_input_and_weight_instead_of_logits) {
  const double logits = 4.0 * kBatch * kTokens * 200, hidden = 4.0 * kBatch * kTokens * 64;
  const double weight = 4.0 * 200 * 64;
  // The plain loss keeps log-softmax and the product's input; the fused one two gradients.
  BOOST_TEST(std::abs(kept_of(small()) - logits - (kept_of(small({.fused = true})) - weight)) <
             hidden + 1000);
}

BOOST_AUTO_TEST_CASE(forward_takes_no_parameters_gradient) {
  const MemoryTape tape =
      memory_tape(small({.fused = true}), {.precision = Precision::bf16_pure, .batch = kBatch});
  for (const UnitTape& unit : tape.units)
    for (const TapeEvent& event : unit.forward)
      BOOST_TEST((tape.tensors[event.tensor].role != TensorRole::parameter_gradient));
}

BOOST_AUTO_TEST_CASE(a_compiled_network_keeps_less) {
  BOOST_TEST(kept_of(compiled(small())) < 0.9 * kept_of(small()));
  BOOST_TEST(compiled(small()).units[1].operators.size() < small().units[1].operators.size());
}

BOOST_AUTO_TEST_CASE(blocks_are_compiled_alone) {
  const Model plain = small(), blocks = compiled(small(), Compile::blocks);
  const auto operators = [](const Model& model, std::size_t unit) {
    return model.units[unit].operators.size();
  };
  BOOST_TEST(!blocks.is_compiled(0));
  BOOST_TEST(operators(blocks, 0) == operators(plain, 0));
  BOOST_TEST(blocks.is_compiled(1));
  BOOST_TEST(operators(blocks, 1) == operators(compiled(small()), 1));
  BOOST_TEST(operators(blocks, plain.units.size() - 1) == operators(plain, plain.units.size() - 1));
  // What the loss keeps is kept, what blocks keep between kernels is not.
  BOOST_TEST(kept_of(compiled(small())) < kept_of(blocks));
  BOOST_TEST(kept_of(blocks) < kept_of(plain));
  BOOST_TEST(compiled(small(), Compile::none).units[1].operators.size() == operators(plain, 1));
}

// Each module is one kernel each way, so that it keeps what a fused one does. Nothing else joins:
// no operator is gone, and what autograd adds up between modules is added as before.
BOOST_AUTO_TEST_CASE(modules_are_fused_each_by_itself) {
  const Model plain = small(), modules = compiled(small(), Compile::modules);
  const auto blocks = compiled(small(), Compile::blocks);
  BOOST_TEST(modules.is_fused(1));
  BOOST_TEST(!modules.is_compiled(1));
  BOOST_TEST(!modules.is_fused(0));
  BOOST_TEST(!modules.is_fused(plain.units.size() - 1));
  double sums = 0;
  for (std::size_t i = 0; i < plain.units[1].operators.size(); ++i) {
    const Operator& before = plain.units[1].operators[i];
    const Operator& after = modules.units[1].operators[i];
    BOOST_TEST(after.forward_elements == before.forward_elements);
    if (before.forward_elements > 0) BOOST_TEST(after.eager_forward.kernels == 0);
    if (before.kind == OperatorKind::elementwise && before.forward_elements == 0) {
      BOOST_TEST(after.eager_backward.kernels == before.eager_backward.kernels);
      sums += after.eager_backward.kernels;
    }
  }
  BOOST_TEST(sums > 0);
  BOOST_TEST(modules.units[1].operators.size() == plain.units[1].operators.size());
  BOOST_TEST(kept_of(modules) == kept_of(blocks));
}

// What pointwise kernels made is made again for the casts in backward: both norms' outputs, and the
// activation's. Attention keeps its own output, which o reads.
BOOST_AUTO_TEST_CASE(compiled_float8_keeps_no_inputs) {
  const TransformerShape t = shape_of("Llama-3.1-8B");
  const auto inputs = static_cast<double>(2 * t.hidden + t.feed_forward);
  const double spared = static_cast<double>(t.layers * kBatch * kTokens) * inputs * 2;
  const Model narrow = compiled(with_float8(small(), Float8::tensorwise), Compile::blocks);
  BOOST_TEST(kept_of(compiled(small(), Compile::blocks), Precision::bf16_pure) - spared ==
             kept_of(narrow, Precision::bf16_pure));
  for (const Operator& op : narrow.units[1].operators)
    BOOST_TEST(op.runs_narrow(Precision::bf16_pure) == (op.kind == OperatorKind::matmul));
  for (const Operator& op : narrow.units.back().operators)
    BOOST_TEST(!op.runs_narrow(Precision::bf16_pure));
}

// Of the rows that are sent: gathered, masked and put back by 3 and 5 kernels of strided or
// broadcast operands; of what experts compute 4 and 5. Megatron-LM's have none of them, nor do
// compiled ones, whose products are one kernel still.
BOOST_AUTO_TEST_CASE(eager_experts_mask_and_index_as_transformers_do) {
  const TransformerShape t = shape_of("Mixtral-8x7B-v0.1");
  const auto written = [](const Model& model) {
    std::pair<double, double> sums;
    for (const Operator& op : model.units[1].operators)
      if (op.eager_forward.plain > 0) {
        sums.first += op.eager_forward.written;
        sums.second += op.eager_backward.written;
      }
    return sums;
  };
  const auto together = [](const Model& model) {
    return std::ranges::count_if(model.units[1].operators,
                                 [](const Operator& op) { return op.product.together; });
  };
  const Model hugging_face = build_transformer(t, {.sequence = kTokens});
  const Model megatron = build_transformer(t, {.sequence = kTokens, .grouped_experts = false});
  const double sent = 2.0 * kTokens * static_cast<double>(t.hidden);
  const double wide = 2.0 * kTokens * static_cast<double>(t.experts->width);
  BOOST_TEST(written(hugging_face).first - written(megatron).first == 3 * sent + 4 * wide);
  BOOST_TEST(written(hugging_face).second - written(megatron).second == 5 * sent + 5 * wide);
  BOOST_TEST(written(compiled(hugging_face)).first == 0);
  BOOST_TEST(together(hugging_face) == 2);
  BOOST_TEST(together(compiled(hugging_face)) == 2);
  BOOST_TEST(together(megatron) == 0);
}

// torchao converts nn.Linear, and experts are parameters of three dimensions.
BOOST_AUTO_TEST_CASE(experts_do_not_run_in_float8) {
  const Model plain = build_transformer(shape_of("Mixtral-8x7B-v0.1"), {.sequence = kTokens});
  const Model narrow = with_float8(plain, Float8::rowwise);
  int experts = 0, others = 0;
  for (const Operator& op : narrow.units[1].operators)
    if (op.narrows) {
      BOOST_TEST(op.runs_narrow(Precision::bf16_pure) == (op.product.weights == 0));
      ++(op.product.weights > 0 ? experts : others);
    }
  BOOST_TEST((experts == 2 && others == 4));
}

BOOST_AUTO_TEST_CASE(a_compiled_product_is_padded_and_its_loss_reads_what_it_wrote) {
  const auto head = [](const Model& model) {
    const std::vector<Operator>& all = model.units.back().operators;
    return std::pair(*(all.end() - 2), all.back());
  };
  TransformerShape t = shape_of("Llama-3.1-8B");
  t.vocabulary = 203;
  const Model plain = build_transformer(t, {.sequence = kTokens});
  const auto [product, loss] = head(compiled(plain));
  BOOST_TEST(product.product.columns == 208);
  BOOST_TEST(!loss.wide);
  BOOST_TEST(loss.forward_elements == plain.units.back().operators.back().forward_elements);
  BOOST_TEST(2 * loss.backward_elements == plain.units.back().operators.back().backward_elements);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_adapted_is_refused) {
  const auto message = [](const Adaptation& how) -> std::string {
    try {
      adapt(small(), how);
    } catch (const std::invalid_argument& wrong) {
      return wrong.what();
    }
    return "";
  };
  BOOST_TEST(message({.lora = Lora{.targets = {"query"}}}) ==
             "Llama-3.1-8B has no linear layer \"query\": it has q, k, v, o, gate, up, down, "
             "lm_head");
  BOOST_TEST(message({.frozen = std::vector<bool>(4, true)}) ==
             "every parameter is frozen: nothing is left to train");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
