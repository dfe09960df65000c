// A rank's share of a transformer, in closed forms of the papers.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "kept.hpp"
#include "model/adaptation.hpp"
#include "model/parallel.hpp"
#include "model/transformer.hpp"

namespace rehearse {
namespace {

namespace data = boost::unit_test::data;

void check_close(double value, double expected) {
  BOOST_TEST(std::abs(value - expected) <= 1e-9 * std::abs(expected),
             value << " is not " << expected);
}

/// GPT as Megatron-LM trains it; 2,048 divides by 128 times any degree up to 16.
TransformerShape gpt(double dropout = 0.1) {
  TransformerShape t;
  t.name = "gpt";
  t.layers = 3;
  t.hidden = 256;
  t.heads = t.kv_heads = 16;
  t.head_width = 16;
  t.feed_forward = 1024;
  t.vocabulary = 2048;
  t.norm = NormKind::layer_norm;
  t.position = PositionKind::learned;
  t.position_rows = 512;
  t.activation = ActivationKind::gelu;
  t.gated = false;
  t.fused_qkv = t.qkv_bias = t.output_bias = t.feed_forward_bias = true;
  t.dropout = dropout;
  return t;
}

/// Grouped queries, SwiGLU, no biases.
TransformerShape llama() {
  TransformerShape t;
  t.name = "llama";
  t.layers = 3;
  t.hidden = 512;
  t.heads = 16;
  t.kv_heads = 8;
  t.head_width = 32;
  t.feed_forward = 1408;
  t.vocabulary = 4096;
  return t;
}

TransformerShape mixture() {
  TransformerShape t = llama();
  t.experts = Experts{.count = 8, .active = 2, .width = 256, .shared_width = 128};
  return t;
}

TransformerShape latent() {
  TransformerShape t = llama();
  t.kv_heads = 16;
  t.latent = LatentAttention{.query_rank = 128, .key_rank = 64, .plain_width = 32,
                             .rotated_width = 16, .value_width = 32};
  return t;
}

constexpr ModelShape kTokens{.sequence = 256};

Model share(const TransformerShape& t, const ModelParallel& parallel) {
  return share_of(t, kTokens, parallel);
}

const std::vector<int> kDegrees = {2, 4, 8};

/// All ranks' different parameters, by what the share says of each.
double different_parameters(const Model& model, const ModelParallel& parallel) {
  double sum = 0;
  for (const Unit& unit : model.units) {
    BOOST_TEST_REQUIRE(unit.shares.size() == unit.tensors.size());
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      double ranks = 1;
      if (unit.shares[i] == ParameterShare::sharded) ranks = parallel.tensor;
      if (unit.shares[i] == ParameterShare::expert)
        ranks = parallel.expert * parallel.expert_tensor;
      sum += ranks * static_cast<double>(unit.tensors[i]);
    }
  }
  return sum;
}

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
  for (const TransformerShape& t : {gpt(), llama(), latent(), mixture()}) {
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

BOOST_AUTO_TEST_CASE(key_value_heads_are_replicated_where_there_are_fewer_than_ranks) {
  const TransformerShape t = share_of(llama(), ModelParallel{.tensor = 16});
  BOOST_TEST(t.kv_heads == 1);
  BOOST_TEST(t.heads == 1);
}

BOOST_DATA_TEST_CASE(flops_of_all_ranks_are_the_models,
                     data::make(kDegrees) * data::make({1, 2, 4}), tensor, context) {
  for (const ContextMethod method :
       {ContextMethod::ring, ContextMethod::all_gather, ContextMethod::ulysses}) {
    for (const TransformerShape& t : {gpt(0), llama(), latent(), mixture()}) {
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

/// Elements that a rank's port sends each way in the exchanges of an axis, of a unit.
double sent(const Unit& unit, ExchangeAxis axis, int ranks) {
  double sum = 0;
  for (const Exchange& exchange : unit.exchanges) {
    if (exchange.axis != axis || exchange.wide) continue;
    const bool twice = exchange.kind == ExchangeKind::all_reduce;
    const bool all = exchange.kind == ExchangeKind::send_recv;
    sum += exchange.elements * (twice ? 2 : 1) * (all ? 1 : (ranks - 1.0) / ranks);
  }
  return sum;
}

// Shoeybi et al. 2019, section 3: four all_reduces a block, two each way, of b s h.
BOOST_DATA_TEST_CASE(a_block_sends_four_all_reduces_of_its_activation, data::make(kDegrees), ranks) {
  const Model model = share(gpt(), {.tensor = ranks});
  const double activation = 256.0 * 256.0;
  for (std::size_t block = 1; block <= 3; ++block) {
    BOOST_TEST(model.units[block].exchanges.size() == 4);
    check_close(sent(model.units[block], ExchangeAxis::tensor, ranks),
                4 * 2 * activation * (ranks - 1) / ranks);
  }
}

// Korthikanti et al. 2022, section 4.2.2: reduce_scatter and all_gather send as much; Megatron-LM
// gathers the inputs of two products once more.
BOOST_DATA_TEST_CASE(sequence_parallelism_sends_as_much_and_two_all_gathers, data::make(kDegrees),
                     ranks) {
  const Model model = share(gpt(), {.tensor = ranks, .sequence_parallel = true});
  const double activation = 256.0 * 256.0;
  const Unit& block = model.units[1];
  check_close(sent(block, ExchangeAxis::tensor, ranks), 10 * activation * (ranks - 1) / ranks);
  std::size_t forward = 0, waited = 0;
  for (const Exchange& exchange : block.exchanges) {
    if (exchange.pass == Direction::forward) ++forward;
    if (!exchange.overlappable()) ++waited;
  }
  BOOST_TEST(forward == 4);
  BOOST_TEST(block.exchanges.size() == 10);
  BOOST_TEST(waited == 6);  // backward: the gradients' gathers alone
}

BOOST_AUTO_TEST_CASE(embeddings_and_loss_exchange_what_other_ranks_rows_give) {
  const Model model = share(llama(), {.tensor = 4, .sequence_parallel = true});
  const Unit& table = model.units.front();
  BOOST_TEST_REQUIRE(table.exchanges.size() == 2);
  BOOST_TEST((table.exchanges[0].kind == ExchangeKind::reduce_scatter));
  BOOST_TEST((table.exchanges[1].kind == ExchangeKind::all_gather));
  check_close(table.exchanges[0].elements, 256 * 512);
  const Unit& head = model.units.back();
  std::size_t wide = 0;
  for (const Exchange& exchange : head.exchanges) {
    if (!exchange.wide) continue;
    ++wide;
    check_close(exchange.elements, 256);
  }
  BOOST_TEST(wide == 3);
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
    return memory_tape(share_of(t, {.sequence = 256, .flash_sinks = fused}, {}),
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

std::vector<Exchange> exchanges_of(const Model& model, ExchangeAxis axis, Direction pass) {
  std::vector<Exchange> found;
  for (const Exchange& exchange : model.units[1].exchanges) {
    if (exchange.axis == axis && exchange.pass == pass) found.push_back(exchange);
  }
  return found;
}

BOOST_AUTO_TEST_CASE(a_ring_sends_keys_and_values_beside_all_steps_but_the_last) {
  const Model model = share(llama(), {.tensor = 2, .context = 4});
  // 4 key-value heads of 32 channels, twice, of 64 tokens.
  const double keys = 2 * 4 * 32 * 64;
  const auto forward = exchanges_of(model, ExchangeAxis::context, Direction::forward);
  BOOST_TEST_REQUIRE(forward.size() == 3);
  const auto backward = exchanges_of(model, ExchangeAxis::context, Direction::backward);
  BOOST_TEST(backward.size() == 6);  // and their gradients
  for (const auto* pass : {&forward, &backward}) {
    for (const Exchange& exchange : *pass) {
      check_close(exchange.elements, keys);
      BOOST_TEST(exchange.overlappable());
      BOOST_TEST((exchange.kind == ExchangeKind::send_recv));
      BOOST_TEST(comes_before(exchange.issued, exchange.awaited, exchange.pass));
    }
  }
}

BOOST_AUTO_TEST_CASE(ulysses_exchanges_queries_keys_values_and_what_attention_makes) {
  const auto forward = exchanges_of(
      share(llama(), {.context = 4, .context_method = ContextMethod::ulysses}),
      ExchangeAxis::context, Direction::forward);
  BOOST_TEST_REQUIRE(forward.size() == 2);
  check_close(forward[0].elements, 64 * (16 + 2 * 8) * 32);
  check_close(forward[1].elements, 64 * 16 * 32);
}

BOOST_AUTO_TEST_CASE(gathered_keys_are_gathered_once_more_and_their_gradients_scattered) {
  const Model model = share(llama(), {.context = 4, .context_method = ContextMethod::all_gather});
  const auto backward = exchanges_of(model, ExchangeAxis::context, Direction::backward);
  BOOST_TEST_REQUIRE(backward.size() == 2);
  BOOST_TEST((backward[0].kind == ExchangeKind::all_gather));
  BOOST_TEST((backward[1].kind == ExchangeKind::reduce_scatter));
  check_close(backward[0].elements, 256 * 2 * 8 * 32);
}

BOOST_AUTO_TEST_CASE(experts_send_each_token_to_those_that_it_chose_and_back) {
  const ModelParallel parallel{.tensor = 2, .sequence_parallel = true, .expert = 4,
                               .expert_tensor = 2};
  const Model model = share(mixture(), parallel);
  const double sent_elements = 128.0 * 2 * 512;  // tokens of a rank, experts, channels
  for (const Direction pass : {Direction::forward, Direction::backward}) {
    std::size_t all_to_all = 0;
    for (const Exchange& exchange : exchanges_of(model, ExchangeAxis::expert, pass)) {
      if (exchange.kind != ExchangeKind::all_to_all) continue;
      ++all_to_all;
      check_close(exchange.elements, sent_elements);
    }
    BOOST_TEST(all_to_all == 2);
    const auto among = exchanges_of(model, ExchangeAxis::expert_tensor, pass);
    BOOST_TEST_REQUIRE(among.size() == 2);
    check_close(among[0].elements, 2 * sent_elements);
  }
  check_close(different_parameters(model, parallel),
              static_cast<double>(transformer_model(mixture(), kTokens).parameters()));
  // Each rank's experts compute as much as the whole model's share of them.
  check_close(model.forward_flops() * 2, transformer_model(mixture(), kTokens).forward_flops());
}

BOOST_AUTO_TEST_CASE(exchanges_stand_in_the_order_of_their_pass) {
  for (const TransformerShape& t : {gpt(), latent(), mixture()}) {
    const Model model = share(t, {.tensor = 2, .sequence_parallel = true, .context = 2});
    for (const Unit& unit : model.units) {
      for (std::size_t i = 1; i < unit.exchanges.size(); ++i) {
        const Exchange &left = unit.exchanges[i - 1], &right = unit.exchanges[i];
        if (left.pass != right.pass) continue;
        BOOST_TEST(!comes_before(right.issued, left.issued, left.pass));
      }
      for (const Exchange& exchange : unit.exchanges)
        BOOST_TEST(exchange.awaited.before_operator <= unit.operators.size());
    }
  }
}

double kept_by_block(const Model& model, Precision precision) {
  return kept_by(memory_tape(model, {.precision = precision, .batch = 2}), 1);
}

// Of a block's four products the inputs are saved in one byte more beside what norms, the activation
// and attention keep themselves.
BOOST_AUTO_TEST_CASE(products_in_8_bits_save_their_inputs_in_a_byte) {
  const Model model = transformer_model(llama(), {.sequence = 128});
  const double tokens = 2 * 128;
  const double before = kept_by_block(model, Precision::bf16_pure);
  const double after = kept_by_block(model, Precision::fp8);
  // What products alone keep of 16 bits: the attention's norm, the block's second, SwiGLU's output;
  // attention keeps its own output.
  check_close(after - before, tokens * (512 + 512 + 512 + 1408 - 2 * (512 + 512 + 1408)));
}

BOOST_AUTO_TEST_CASE(recomputed_attention_keeps_no_scores) {
  TransformerShape shape = gpt(0);
  const ModelShape eager{.sequence = 128, .flash_attention = false, .fused_softmax = true};
  const Model model = transformer_model(shape, eager);
  const double scores = 2.0 * 16 * 128 * 128;
  const double before = kept_by_block(model, Precision::bf16_pure);
  const double after = kept_by_block(recomputing_attention(model), Precision::bf16_pure);
  const double values = 2 * 128 * 256;  // a copy, head by head
  check_close(before - after, 2 * (scores + values));
}

BOOST_AUTO_TEST_CASE(compiled_shares_exchange_around_the_same_products) {
  const ModelParallel parallel{.tensor = 2, .sequence_parallel = true};
  const Model share = share_of(llama(), {.sequence = 128}, parallel);
  const Model fused = compiled(share);
  const auto multiplies = [](const Unit& unit, const Cut& cut) {
    return cut.before_operator < unit.operators.size() &&
           unit.operators[cut.before_operator].kind == OperatorKind::matmul;
  };
  int products = 0;
  for (std::size_t u = 0; u < share.units.size(); ++u) {
    const Unit &before = share.units[u], &after = fused.units[u];
    BOOST_TEST(after.operators.size() <= before.operators.size());
    BOOST_TEST_REQUIRE(after.exchanges.size() == before.exchanges.size());
    for (std::size_t e = 0; e < before.exchanges.size(); ++e) {
      const Cut &issued = before.exchanges[e].issued, &now = after.exchanges[e].issued;
      BOOST_TEST(multiplies(before, issued) == multiplies(after, now));
      products += multiplies(after, now) ? 1 : 0;
    }
  }
  BOOST_TEST(fused.units[1].operators.size() < share.units[1].operators.size());
  BOOST_TEST(products > 0);
}

// TransformerEngine's user buffers: what a product reads and makes travels beside it.
BOOST_AUTO_TEST_CASE(overlapped_exchanges_run_beside_their_products) {
  ModelParallel parallel{.tensor = 2, .sequence_parallel = true};
  const auto waited_for = [&] {
    int exposed = 0;
    const Model share = share_of(llama(), {.sequence = 128}, parallel);
    for (const Exchange& one : share.units[1].exchanges) exposed += one.overlappable() ? 0 : 1;
    return exposed;
  };
  BOOST_TEST(waited_for() == 6);  // two all_gathers, two reduce_scatters, and two backward
  parallel.tensor_overlap = true;
  BOOST_TEST(waited_for() == 0);
}

}  // namespace
}  // namespace rehearse
