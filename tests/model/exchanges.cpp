// What ranks that share a transformer send each other, in closed forms of the papers.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "model/adaptation.hpp"
#include "shares.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(exchanges_test)
namespace {

namespace data = boost::unit_test::data;

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
BOOST_DATA_TEST_CASE(a_block_sends_four_all_reduces_of_its_activation, data::make(kDegrees),
                     ranks) {
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

// core/transformer/attention.py: a rank of 16 makes half a key-value head of 8.
BOOST_AUTO_TEST_CASE(more_ranks_than_key_value_heads_gather_queries_keys_and_values) {
  const double tokens = 256, all = (16 + 2 * 8) * 32;
  const double left = sent(share(llama(), {.tensor = 16}).units[1], ExchangeAxis::tensor, 16) -
                      4 * 2 * tokens * 512 * 15 / 16;
  check_close(left, 2 * tokens * all * 15 / 16);  // an all_gather, and a reduce_scatter backward
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
  const auto forward =
      exchanges_of(share(llama(), {.context = 4, .context_method = ContextMethod::ulysses}),
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
  const ModelParallel parallel{
      .tensor = 2, .sequence_parallel = true, .expert = 4, .expert_tensor = 2};
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

// Of a block's products for columns, attention's and the feed-forward's, backward waits for the
// gradient of the input and, of split tokens, for the input.
BOOST_AUTO_TEST_CASE(backward_waits_for_tensor_ranks_that_are_not_asynchronous) {
  ModelParallel parallel{.tensor = 2};
  const auto beside_products = [&] {
    const Model share = share_of(llama(), {.sequence = 128}, parallel);
    return std::ranges::count_if(share.units[1].exchanges, &Exchange::overlappable);
  };
  BOOST_TEST(beside_products() == 2);
  parallel.sequence_parallel = true;
  BOOST_TEST(beside_products() == 4);
  parallel.tensor_async = false;
  BOOST_TEST(beside_products() == 0);
}

/// Backward and forward exchanges of a block of one kind, and elements that its copies move.
struct Traffic {
  int gathers = 0, scatters = 0, exposed = 0, of_bytes = 0;
  double forward = 0, backward = 0;
};

Traffic traffic_of(const Unit& block) {
  Traffic sum;
  for (const Exchange& one : block.exchanges) {
    (one.kind == ExchangeKind::all_gather ? sum.gathers : sum.scatters) += 1;
    sum.exposed += one.overlappable() ? 0 : 1;
    sum.of_bytes += one.float8 ? 1 : 0;
  }
  for (const Operator& op : block.operators) {
    if (op.kind != OperatorKind::elementwise || !op.library) continue;
    sum.forward += op.forward_elements;
    sum.backward += op.backward_elements;
  }
  return sum;
}

// Two gathers and two scatters each way, where Megatron's ranks gather inputs twice more. Of what
// is gathered and of what is scattered each element is read and written once.
BOOST_AUTO_TEST_CASE(dtensors_are_saved_once_gathered_and_copied_along_tokens) {
  ModelParallel parallel{.tensor = 2, .sequence_parallel = true, .tensor_async = false};
  parallel.dtensor = true;
  const TransformerShape t = llama();
  const double tokens = 128, whole = tokens * static_cast<double>(t.hidden);
  const Model share = share_of(t, {.sequence = 128}, parallel);
  const Traffic plain = traffic_of(share.units[1]);
  BOOST_TEST(plain.gathers == 4);
  BOOST_TEST(plain.scatters == 4);
  BOOST_TEST(plain.exposed == 8);
  BOOST_TEST(plain.of_bytes == 0);
  BOOST_TEST(plain.forward == 4 * 2 * whole);
  BOOST_TEST(plain.backward == 4 * 2 * whole);
  // Tensor-wise casts stand in front of the four gathers, rows' behind them.
  const Traffic bytes = traffic_of(with_float8(share, Float8::tensorwise).units[1]);
  BOOST_TEST(bytes.of_bytes == 4);
  BOOST_TEST(bytes.forward == (2 * 2 + 2 * 1) * whole);
  BOOST_TEST(bytes.backward == (2 * 2 + 2 * 1) * whole);
  BOOST_TEST(traffic_of(with_float8(share, Float8::rowwise).units[1]).of_bytes == 0);
}

// Each block adds up gradients of several products in front of its two scatters, which nothing
// takes apart then.
BOOST_AUTO_TEST_CASE(symmetric_memory_takes_single_products_apart) {
  ModelParallel parallel{.tensor = 2, .sequence_parallel = true, .tensor_overlap = true};
  parallel.dtensor = true;
  const TransformerShape t = llama();
  const double whole = 128 * static_cast<double>(t.hidden), part = whole / 2;
  const Traffic sum = traffic_of(share_of(t, {.sequence = 128}, parallel).units[1]);
  BOOST_TEST(sum.exposed == 2);
  BOOST_TEST(sum.forward == 2 * (2 * part) + 2 * (whole + part));
  BOOST_TEST(sum.backward == 2 * (2 * whole) + 2 * (2 * part));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
