// Mechanisms of memory that are a framework's or a library's: losses in place, experts that keep
// less, attention that falls back.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "kept.hpp"
#include "model/adaptation.hpp"
#include "shares.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(mechanisms_test)
namespace {

constexpr double kPositions = 2 * 256, kVocabulary = 4096;

MemoryTape tape_of(Loss loss, Precision precision = Precision::bf16_pure) {
  const ModelShape shape{.sequence = 256, .loss = loss};
  return memory_tape(transformer_model(llama(), shape), {.precision = precision, .batch = 2});
}

double kept_by_head(Loss loss) {
  const MemoryTape tape = tape_of(loss);
  return kept_by(tape, tape.units.size() - 1);
}

// Plainly log-softmax is kept in 16 bits, with the loss and its weight.
BOOST_AUTO_TEST_CASE(fused_logits_keep_them_once_and_a_number_for_each_row) {
  const double before = kept_by_head(Loss::cross_entropy) - kPositions * kVocabulary * 2 - 2 * 2;
  check_close(kept_by_head(Loss::fused_logits) - before, kPositions * (kVocabulary * 2 + 2 * 4));
}

BOOST_AUTO_TEST_CASE(their_gradient_is_written_over_them) {
  const MemoryTape tape = tape_of(Loss::fused_logits);
  const std::vector<TapeEvent>& backward = tape.units.back().backward;
  for (const TapeEvent& event : backward) {
    const TapeTensor& tensor = tape.tensors[event.tensor];
    const bool large = tensor.size.value() == kPositions * kVocabulary * 2;
    BOOST_TEST(!(event.takes && large && tensor.role == TensorRole::activation_gradient));
  }
}

// Megatron-LM keeps the softmax in fp32, which becomes the gradient, and that 16 bits.
BOOST_AUTO_TEST_CASE(vocab_parallel_cross_entropy_keeps_a_softmax_in_fp32) {
  const double before = kept_by_head(Loss::cross_entropy) - kPositions * kVocabulary * 2 - 2 * 2;
  check_close(kept_by_head(Loss::vocab_parallel) - before, kPositions * (kVocabulary * 4 + 4));
}

// torch.compile's loss keeps the logits as they are, and its gradient is a tensor of its own.
BOOST_AUTO_TEST_CASE(a_compiled_loss_keeps_16_bit_logits_in_a_network_that_is_not_compiled) {
  const double before = kept_by_head(Loss::cross_entropy) - kPositions * kVocabulary * 2 - 2 * 2;
  check_close(kept_by_head(Loss::compiled) - before, kPositions * kVocabulary * 2 + 4);
}

double largest_of(Loss loss) {
  double largest = 0;
  for (const TapeTensor& tensor : tape_of(loss).tensors)
    largest = std::max(largest, tensor.size.value());
  return largest;
}

// accelerate makes fp32 of what forward returns, and nothing of it stays.
BOOST_AUTO_TEST_CASE(accelerates_logits_are_fp32_for_a_moment) {
  check_close(kept_by_head(Loss::accelerate_fused), kept_by_head(Loss::fused_logits));
  BOOST_TEST(largest_of(Loss::accelerate_fused) == kPositions * kVocabulary * 4);
  BOOST_TEST(largest_of(Loss::fused_logits) == kPositions * kVocabulary * 2);
}

double peak_of_forward(Loss loss) {
  const MemoryTape tape = tape_of(loss);
  double live = 0, most = 0;
  for (const UnitTape& unit : tape.units)
    for (const TapeEvent& event : unit.forward) {
      live += (event.takes ? 1 : -1) * tape.tensors[event.tensor].size.value();
      most = std::max(most, live);
    }
  return most;
}

// From 4.46 on the logits are what forward returns, and stay beside those in fp32.
BOOST_AUTO_TEST_CASE(huggingfaces_later_loss_holds_16_bit_logits_until_forward_returns) {
  check_close(peak_of_forward(Loss::huggingface_4_46) - peak_of_forward(Loss::huggingface),
              kPositions * kVocabulary * 2);
  check_close(kept_by_head(Loss::huggingface_4_46), kept_by_head(Loss::huggingface));
}

// A kernel in the place of CrossEntropyLoss keeps the shifted fp32 copy, and writes over it.
BOOST_AUTO_TEST_CASE(a_fused_loss_of_transformers_keeps_one_fp32_copy) {
  check_close(
      kept_by_head(Loss::huggingface_fused) - kept_by_head(Loss::fused_logits),
      (kPositions - 2) * (kVocabulary * 4 + 2 * 4) - kPositions * (kVocabulary * 2 + 2 * 4));
  check_close(
      peak_of_forward(Loss::huggingface_4_46_fused) - peak_of_forward(Loss::huggingface_fused),
      kPositions * kVocabulary * 2);
  check_close(kept_by_head(Loss::huggingface_4_46_fused), kept_by_head(Loss::huggingface_fused));
}

// The loop's variables hold the last micro-batch's logits until the next are there.
BOOST_AUTO_TEST_CASE(a_loop_that_holds_its_logits_begins_with_them) {
  const auto all = [](const MemoryTape& tape) {
    double bytes = 0;
    for (const TapeTensor& tensor : tape.tensors) bytes += tensor.size.value();
    return bytes;
  };
  const MemoryTape loops = tape_of(Loss::lightning_loop);
  check_close(all(loops) - all(tape_of(Loss::lightning_fabric)), kPositions * kVocabulary * 4);
  const TapeEvent& first = loops.units.front().forward.front();
  BOOST_TEST(first.takes);
  check_close(loops.tensors[first.tensor].size.value(), kPositions * kVocabulary * 4);
  const auto& last = loops.units.back().forward;
  BOOST_TEST(std::ranges::count(last, TapeEvent{first.tensor, false}) == 1);
}

// Backward frees what nodes saved, but not their attributes: bitsandbytes before 0.43 keeps inputs.
BOOST_AUTO_TEST_CASE(inputs_of_4_bit_products_outlive_their_backward_in_such_a_loop) {
  const auto left = [](bool keeps) {
    const ModelShape shape{.sequence = 256, .loss = Loss::lightning_loop};
    const Adaptation how{
        .lora = Lora{.targets = {"q"}}, .linear = StoredAs::nf4, .keeps_inputs = keeps};
    const MemoryTape tape = memory_tape(adapt(transformer_model(llama(), shape), how),
                                        {.precision = Precision::bf16_pure, .batch = 2});
    double bytes = 0;
    for (const TapeEvent& event : tape.units.back().forward)
      if (!event.takes && tape.tensors[event.tensor].unit == 0)
        bytes += tape.tensors[event.tensor].size.value();
    return bytes;
  };
  BOOST_TEST(left(false) >= kPositions * kVocabulary * 4);
  BOOST_TEST(left(true) > left(false));
}

// Under compile a softcap is part of the loss's kernel; eagerly it keeps its tanh.
BOOST_AUTO_TEST_CASE(a_compiled_softcap_is_part_of_the_loss) {
  TransformerShape capped = llama();
  capped.logits_softcap = 30;
  const auto kept = [](const TransformerShape& shape, bool compiles) {
    const Model plain = transformer_model(shape, {.sequence = 256});
    const MemoryTape tape =
        memory_tape(compiles ? compiled(plain) : plain, {.precision = Precision::bf16_pure});
    return kept_by(tape, tape.units.size() - 1);
  };
  check_close(kept(capped, true), kept(llama(), true));
  check_close(kept(capped, false) - kept(llama(), false), 256 * kVocabulary * 2);
}

// With them the residual stream has 16 bits under autocast.
BOOST_AUTO_TEST_CASE(narrow_embeddings_halve_the_residual_stream) {
  const auto first_output = [](bool narrow) {
    const ModelShape shape{.sequence = 256, .narrow_embeddings = narrow};
    const MemoryTape tape =
        memory_tape(transformer_model(llama(), shape), {.precision = Precision::bf16});
    return tape.tensors.front().size.value();
  };
  BOOST_TEST(first_output(true) * 2 == first_output(false));
}

/// The kernels of GPT-OSS' experts beside their products, of one block.
struct BesideProducts {
  double activation = 0, activation_backward = 0;  // elements
  double biases = 0, biases_backward = 0, launches = 0;
  double apart = 0, apart_backward = 0;  // elements that kernels write that are not vectorized
};

const Unit& block_of(const Model& model) {
  return *std::ranges::find(model.units, "layers.0", &Unit::name);
}

BesideProducts beside_products(bool grouped, bool weighs_activation) {
  const ModelShape shape{
      .sequence = 64, .grouped_experts = grouped, .weighs_activation = weighs_activation};
  const Model plain = transformer_model(*built_in_shape("gpt_oss_120b"), shape);
  const Model model = compiled(plain, Compile::library);
  BesideProducts sum;
  for (const Operator& op : block_of(model).operators) {
    sum.apart += op.eager_forward.written;
    sum.apart_backward += op.eager_backward.written;
    if (op.between_experts) {
      sum.activation += op.forward_elements;
      sum.activation_backward += op.backward_elements;
    } else if (op.library && op.eager_forward.kernels > 0) {
      sum.biases += op.forward_elements;
      sum.biases_backward += op.backward_elements;
      sum.launches += op.eager_forward.kernels;
    }
  }
  return sum;
}

BOOST_AUTO_TEST_CASE(megatron_clamps_and_adds_biases_by_kernels_of_their_own) {
  const double sent = 64.0 * 4 * 2880, wide = sent;  // 4 of 128 experts, as wide as the network
  const BesideProducts megatron = beside_products(false, true);
  BOOST_TEST(megatron.activation == (5 + 8) * wide);
  BOOST_TEST(megatron.activation_backward == (8 + 15) * wide);
  BOOST_TEST(megatron.biases == 14 * sent);
  BOOST_TEST(megatron.biases_backward == 20 * sent);
  BOOST_TEST(megatron.launches == 2 * 128 + 2);
  // Two clamps of halves, a product and a sum; five, and a conversion and two products.
  BOOST_TEST(megatron.apart == 2 * wide + 2 * sent);
  BOOST_TEST(megatron.apart_backward == 5 * wide + 3 * sent);
  // TransformerEngine's fused experts have both in their products.
  const BesideProducts fused = beside_products(true, true);
  BOOST_TEST(fused.activation == 5 * wide);
  BOOST_TEST(fused.biases == 0);
  BOOST_TEST(fused.apart == 0);
  BOOST_TEST(beside_products(false, false).biases == 0);
}

// NeMo 2's squared ReLU: a library fuses no ReLU with the power behind it, nor the power's three
// kernels of backward.
BOOST_AUTO_TEST_CASE(a_relu_that_is_squared_apart_stays_two_functions_in_a_library) {
  const auto moved = [](ActivationKind activation) {
    TransformerShape shape = llama();
    shape.gated = false;
    shape.activation = activation;
    const Model model = compiled(transformer_model(shape, {.sequence = 64}), Compile::library);
    double backward = 0;
    for (const Operator& op : block_of(model).operators)
      if (op.library) backward += std::max(op.eager_backward.plain, op.backward_elements);
    return backward / (64.0 * static_cast<double>(shape.feed_forward));
  };
  BOOST_TEST(moved(ActivationKind::relu_then_square) == 3 + 7);
  BOOST_TEST(moved(ActivationKind::relu_squared) == 0);
}

double kept_by_experts(bool weighs_activation) {
  const ModelShape shape{.sequence = 256, .weighs_activation = weighs_activation};
  const Model model = compiled(transformer_model(mixture(), shape));
  return kept_by(memory_tape(model, {.precision = Precision::bf16_pure}), 2);
}

// Megatron-LM since April 2025: of each row what goes in, what stands between the products on both
// sides, and a weight; not what comes out.
BOOST_AUTO_TEST_CASE(weights_in_the_activation_spare_the_experts_outputs) {
  check_close(kept_by_experts(false) - kept_by_experts(true), 2.0 * 2 * 256 * 512);
}

TransformerShape with(PositionKind position) {
  TransformerShape t = llama();
  t.kv_heads = t.heads;
  t.position = position;
  return t;
}

BOOST_AUTO_TEST_CASE(what_a_kernel_does_not_compute_falls_back_and_says_so) {
  TransformerShape capped = llama(), sinks = llama();
  capped.softcap = 50;
  sinks.sinks = true;
  const ModelShape sdpa{.sequence = 256},
      flash2{
          .sequence = 256, .attention_kernel = AttentionKernel::flash2, .library_attention = true};
  const ModelShape layout{.sequence = 256, .library_attention = true};
  BOOST_TEST(eager_because(llama(), sdpa).empty());
  BOOST_TEST(eager_because(capped, sdpa) == "as PyTorch's sdpa caps no scores");
  BOOST_TEST(eager_because(capped, flash2).empty());
  BOOST_TEST(eager_because(sinks, sdpa) == "as PyTorch's sdpa has no sinks");
  BOOST_TEST(eager_because(sinks, layout).empty());
  BOOST_TEST(eager_because(with(PositionKind::alibi), sdpa) ==
             "as PyTorch's sdpa has no slopes for ALiBi");
  BOOST_TEST(eager_because(with(PositionKind::alibi), flash2).empty());
  BOOST_TEST(!fuses_attention(capped, {.sequence = 256, .flash_attention = false}));
}

// Slopes are added to the scores, whose softmax is of fp32: 4 bytes of it, and 2 of its copy.
BOOST_AUTO_TEST_CASE(alibi_keeps_its_softmax_in_fp32) {
  const auto kept = [](std::int64_t tokens) {
    const Model model = transformer_model(with(PositionKind::alibi), {.sequence = tokens});
    return kept_by(memory_tape(model, {.precision = Precision::bf16_pure}), 2);
  };
  check_close(kept(512) - 2 * kept(256), 2.0 * (4 + 2) * 16 * 256 * 256);
}

// Mixtral's in 4 bits: their weights and the router's, half a byte each and an fp32 scale per 64.
BOOST_AUTO_TEST_CASE(quantization_reaches_experts) {
  const Adaptation how{.lora = Lora{.rank = 8, .targets = {"q"}}, .linear = StoredAs::nf4};
  const Model model = adapt(transformer_model(mixture(), {.sequence = 256}), how);
  const Unit& block = model.units.at(2);
  for (const Layer& layer : block.layers) {
    if (layer.kind != LayerKind::experts) continue;
    for (std::uint32_t weight = 0; weight < 3; ++weight)
      BOOST_TEST((block.traits.at(layer.parameter + weight).storage == StoredAs::nf4));
  }
}

// Each of four ranks has a quarter of the experts, all else, and all rows.
BOOST_AUTO_TEST_CASE(replicated_tokens_split_nothing_but_experts) {
  const ModelParallel parallel{.replicated_experts = 4};
  ModelShape shape = kTokens;
  shape.grouped_experts = false;  // transformers' experts are whole on each rank
  const Model whole = transformer_model(mixture(), shape);
  const Model share = share_of(mixture(), shape, parallel);
  const double experts = 3.0 * 8 * 3 * 256 * 512;
  check_close(static_cast<double>(whole.parameters() - share.parameters()), experts * 3 / 4);
  check_close(kept_by(memory_tape(share, {.precision = Precision::bf16_pure}), 2),
              kept_by(memory_tape(whole, {.precision = Precision::bf16_pure}), 2));
  const Unit& block = share.units.at(2);
  BOOST_TEST(std::ranges::count(block.exchanges, ExchangeKind::all_reduce, &Exchange::kind) == 2);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
