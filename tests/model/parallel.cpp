// A rank's share of a transformer, in closed forms of the papers.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "kept.hpp"
#include "model/adaptation.hpp"
#include "shares.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(parallel_test)
namespace {

namespace data = boost::unit_test::data;

BOOST_AUTO_TEST_CASE(the_share_of_one_rank_is_the_model) {
  const Model whole = transformer_model(llama(), kTokens);
  for (const Unit& unit : whole.units) {
    BOOST_TEST(unit.exchanges.empty());
    BOOST_TEST(unit.shares.empty());
  }
  BOOST_TEST(whole.variant.empty());
  BOOST_TEST(share(llama(), {}).parameters() == whole.parameters());
}

BOOST_DATA_TEST_CASE(shares_and_one_copy_of_what_is_replicated_make_the_model,
                     data::make(kDegrees) * data::make({false, true}), tensor, sequence) {
  for (const TransformerShape& t :
       {gpt(), llama(), latent(), mixture(), delta_net(), kimi_delta(), state_spaces()}) {
    const ModelParallel parallel{.tensor = tensor, .sequence_parallel = sequence};
    const double whole = static_cast<double>(transformer_model(t, kTokens).parameters());
    check_close(different_parameters(share(t, parallel), parallel), whole);
  }
}

BOOST_AUTO_TEST_CASE(replicated_parameters_are_norms_and_biases_behind_sums) {
  // Two norms of 2 h and two biases of h a block, the last norm, the table of positions.
  const Model model = share(gpt(), {.tensor = 4, .sequence_parallel = true});
  double replicated = 0;
  for (const Unit& unit : model.units) {
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      if (unit.shares[i] == ParameterShare::replicated)
        replicated += static_cast<double>(unit.tensors[i]);
  }
  check_close(replicated, 512 * 256);
  check_close(summed_elements(model), 3 * 6 * 256 + 2 * 256);
  check_close(summed_elements(share(gpt(), {.tensor = 4})), 0.0);
}

BOOST_AUTO_TEST_CASE(a_vocabulary_is_padded_to_128_rows_a_rank) {
  // Megatron-LM's make_vocab_size_divisible_by, of GPT-2's and Llama 3's.
  BOOST_TEST(padded_vocabulary(50257, {.tensor = 8}) == 51200);
  BOOST_TEST(padded_vocabulary(50257, {.tensor = 2}) == 50432);
  BOOST_TEST(padded_vocabulary(50257, {}) == 50257);
  BOOST_TEST(padded_vocabulary(128256, {.tensor = 8}) == 129024);
}

BOOST_DATA_TEST_CASE(more_ranks_than_key_value_heads_hold_and_compute_no_more_than_the_model,
                     data::make({false, true}), sequence) {
  const ModelParallel parallel{.tensor = 16, .sequence_parallel = sequence};
  const TransformerShape t = share_of(llama(), parallel);
  BOOST_TEST(t.kv_heads == 1);
  BOOST_TEST(t.kv_ranks == 2);
  BOOST_TEST(t.heads == 1);
  const Model whole = transformer_model(llama(), kTokens);
  const Model one = share(llama(), parallel);
  check_close(different_parameters(one, parallel), static_cast<double>(whole.parameters()));
  check_close(16 * one.forward_flops(), whole.forward_flops());
}

BOOST_DATA_TEST_CASE(flops_of_all_ranks_are_the_models,
                     data::make(kDegrees) * data::make({1, 2, 4}), tensor, context) {
  for (const ContextMethod method :
       {ContextMethod::ring, ContextMethod::all_gather, ContextMethod::ulysses}) {
    for (const TransformerShape& t :
         {gpt(0), llama(), latent(), mixture(), delta_net(), state_spaces()}) {
      if (method == ContextMethod::ulysses && tensor * context > t.kv_heads) continue;
      const ModelParallel parallel{.tensor = tensor,
                                   .sequence_parallel = true,
                                   .context = context,
                                   .context_method = method};
      const Model whole = transformer_model(t, kTokens);
      const Model one = share(t, parallel);
      check_close(one.forward_flops() * tensor * context, whole.forward_flops());
      check_close(one.flops_per_sample() * tensor * context, whole.flops_per_sample());
      BOOST_TEST(one.tokens_per_sample * context == whole.tokens_per_sample);
    }
  }
}

// DTensor's Replicate() behind the head: one all_gather of all logits in forward, none in backward,
// and the loss of a rank that has no others. Of parts: three sums of a number a token.
BOOST_DATA_TEST_CASE(gathered_logits_are_sent_once, data::make({2, 4, 8}), ranks) {
  const ModelParallel parts{.tensor = ranks}, whole{.tensor = ranks, .gather_logits = true};
  const auto sent = [](const Model& model, ExchangeKind kind) {
    double sum = 0;
    for (const Exchange& exchange : model.units.back().exchanges)
      if (exchange.pass == Direction::forward && exchange.kind == kind) sum += exchange.elements;
    return sum;
  };
  const Model of_parts = share(gpt(), parts), of_all = share(gpt(), whole);
  const double tokens = static_cast<double>(of_all.tokens_per_sample);
  BOOST_TEST(sent(of_parts, ExchangeKind::all_gather) == 0);
  BOOST_TEST(sent(of_parts, ExchangeKind::all_reduce) - sent(of_all, ExchangeKind::all_reduce) ==
             3 * tokens);
  BOOST_TEST(sent(of_all, ExchangeKind::all_gather) == 2048 * tokens);
  check_close(of_all.flops_per_sample(), of_parts.flops_per_sample());
  // The peak is the loss's: the logits, their log-softmax and gradients of both.
  const TapeOptions options{.precision = Precision::bf16_pure};
  const double more = 2048 * tokens * (1 - 1.0 / ranks);
  BOOST_TEST(live_peak(memory_tape(of_all, options)) - live_peak(memory_tape(of_parts, options)) >=
             3 * 2 * more);
}

// Korthikanti et al. 2022, equations 1 to 4, in 16 bits: s b h (10 + 24/t + 5 a s / (h t)) a block,
// with sequence parallelism all of it over t. PyTorch's math path keeps scaled queries and keys,
// too (4 s h / t), and a norm two fp32 numbers per token.
BOOST_DATA_TEST_CASE(a_block_keeps_what_korthikanti_et_al_say, data::make(kDegrees), ranks) {
  const double s = 256, h = 256, a = 16;
  const ModelShape eager{.sequence = 256, .flash_attention = false};
  const TapeOptions options{.precision = Precision::fp16_pure};
  const double own = 4 * s * h / ranks;
  const MemoryTape plain = memory_tape(share_of(gpt(), eager, {.tensor = ranks}), options);
  check_close(kept_by(plain, 2),
              s * h * (10 + 24.0 / ranks + 5 * a * s / (h * ranks)) + own + 16 * s);
  const MemoryTape split =
      memory_tape(share_of(gpt(), eager, {.tensor = ranks, .sequence_parallel = true}), options);
  check_close(kept_by(split, 2), s * h / ranks * (34 + 5 * a * s / h) + own + 16 * s / ranks);
}

// With Megatron-LM's fused softmax it is theirs alone.
BOOST_DATA_TEST_CASE(a_block_with_a_fused_softmax_keeps_no_more, data::make(kDegrees), ranks) {
  const double s = 256, h = 256, a = 16;
  const ModelShape fused{.sequence = 256, .flash_attention = false, .fused_softmax = true};
  const MemoryTape tape =
      memory_tape(share_of(gpt(), fused, {.tensor = ranks, .sequence_parallel = true}),
                  {.precision = Precision::fp16_pure});
  check_close(kept_by(tape, 2), s * h / ranks * (34 + 5 * a * s / h) + 16 * s / ranks);
}

// With fused attention, as with their selective recomputation, 34 s b h / t: and a number per query
// and head, and the generator's state.
BOOST_DATA_TEST_CASE(fused_attention_keeps_34_sbh_over_t, data::make(kDegrees), ranks) {
  const double s = 256, h = 256, a = 16;
  const MemoryTape tape = memory_tape(share(gpt(), {.tensor = ranks, .sequence_parallel = true}),
                                      {.precision = Precision::fp16_pure});
  check_close(kept_by(tape, 2), 34 * s * h / ranks + 4 * a * s / ranks + 16 + 16 * s / ranks);
}

BOOST_AUTO_TEST_CASE(tapes_of_shares_give_back_what_they_take) {
  for (const TransformerShape& t : {gpt(), llama(), latent(), mixture()}) {
    for (const bool expert : {false, true}) {
      const ModelParallel parallel{.tensor = 2,
                                   .sequence_parallel = true,
                                   .context = 2,
                                   .expert = expert && t.experts ? 4 : 1,
                                   .expert_tensor = expert && t.experts ? 2 : 1};
      const MemoryTape tape = memory_tape(share(t, parallel), {.precision = Precision::bf16_pure});
      double left = 0, gradients = 0;
      for (const UnitTape& unit : tape.units) {
        for (const auto* events : {&unit.forward, &unit.backward}) {
          for (const TapeEvent& event : *events) {
            const TapeTensor& tensor = tape.tensors[event.tensor];
            left += (event.takes ? 1 : -1) * tensor.size.value();
            if (tensor.role == TensorRole::parameter_gradient && event.takes)
              gradients += tensor.size.value();
          }
        }
      }
      check_close(left, gradients);
    }
  }
}

// FlexAttention's and FlashAttention-3's sinks: a trained number per head, and no scores kept.
BOOST_AUTO_TEST_CASE(fused_attention_with_sinks_keeps_no_scores_and_trains_them) {
  TransformerShape t = llama();
  t.sinks = true;
  const auto tape_of = [&](bool fused) {
    return memory_tape(share_of(t, {.sequence = 256, .library_attention = fused}, {}),
                       {.precision = Precision::bf16_pure});
  };
  const auto gradients = [](const MemoryTape& tape) {
    double sum = 0;
    for (const TapeTensor& tensor : tape.tensors)
      if (tensor.role == TensorRole::parameter_gradient) sum += tensor.size.value();
    return sum;
  };
  const MemoryTape fused = tape_of(true), eager = tape_of(false);
  check_close(gradients(fused), gradients(eager));
  // But for a number and more of each row of scores.
  BOOST_TEST(kept_by(fused, 2) < kept_by(eager, 2) - 2 * 16 * 256 * (256 - 4));
}

// Llama's code makes fp32 of the scores' softmax, and 16 bits again: 4 + 2 bytes of each score. All
// else that a block keeps grows as its tokens.
BOOST_AUTO_TEST_CASE(eager_attention_of_llama_keeps_its_softmax_in_fp32) {
  const TransformerShape t = llama();
  const auto kept = [&](std::int64_t tokens, bool flash) {
    const Model share = share_of(t, {.sequence = tokens, .flash_attention = flash}, {});
    return kept_by(memory_tape(share, {.precision = Precision::bf16_pure}), 2);
  };
  const double scores = static_cast<double>(t.heads) * 256 * 256;
  check_close(kept(512, false) - 2 * kept(256, false), 2 * (4 + 2) * scores);
  BOOST_TEST(std::abs(kept(512, true) - 2 * kept(256, true)) < 1e3);
}

double kept_by_block(const Model& model, Precision precision) {
  return kept_by(memory_tape(model, {.precision = precision, .batch = 2}), 1);
}

BOOST_AUTO_TEST_CASE(blocks_at_the_ends_of_a_stack_stay_wide) {
  const auto narrow = [](std::int64_t first, std::int64_t last) {
    ModelShape shape = kTokens;
    shape.wide_at_start = first;
    shape.wide_at_end = last;
    return share_of(llama(), shape, {.tensor = 2}).narrow_parameters();
  };
  const double block = narrow(0, 0) / static_cast<double>(llama().layers);
  BOOST_TEST(narrow(1, 0) == narrow(0, 0) - block);
  BOOST_TEST(narrow(1, 1) == narrow(0, 0) - 2 * block);
  BOOST_TEST(narrow(llama().layers, 0) == 0);
}

// Of a block's four products the inputs are saved once more, narrow, beside what norms, the
// activation and attention keep themselves.
BOOST_DATA_TEST_CASE(narrow_products_save_their_inputs_narrow,
                     data::make({"fp8", "mxfp8", "nvfp4"}) ^
                         data::make({1.0, 1 + 1.0 / 32, 0.5 + 1.0 / 16}),
                     precision, element) {
  const Model model = transformer_model(llama(), {.sequence = 128});
  const double tokens = 2 * 128;
  const double before = kept_by_block(model, Precision::bf16_pure);
  const double after = kept_by_block(model, parse_precision(precision));
  // What products alone keep of 16 bits: the attention's norm, the block's second, SwiGLU's output;
  // attention keeps its own output.
  check_close(after - before,
              tokens * (element * (512 + 512 + 512 + 1408) - 2 * (512 + 512 + 1408)));
}

BOOST_AUTO_TEST_CASE(recomputed_attention_keeps_no_scores) {
  TransformerShape shape = gpt(0);
  const ModelShape eager{.sequence = 128, .flash_attention = false, .fused_softmax = true};
  const Model model = transformer_model(shape, eager);
  const double scores = 2.0 * 16 * 128 * 128;
  const double before = kept_by_block(model, Precision::bf16_pure);
  const double after = kept_by_block(recomputing_attention(model), Precision::bf16_pure);
  check_close(before - after, 2 * scores);  // Megatron-LM's values are views
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
