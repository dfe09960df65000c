// Shares of a network of which a run was recorded.
#include "model/recorded/recorded.hpp"

#include <boost/test/unit_test.hpp>

#include "model/stages.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(recorded_test)
namespace {

using recorded::Operator;
using recorded::Split;

Operator product(double inner, double columns) {
  return {.name = "linear", .rows = 16, .inner = inner, .columns = columns, .bias = true};
}

/// A block of attention of 4 heads and a feed-forward layer, and logits of 100 words.
Model network() {
  Unit block{.name = "layers.0", .tensors = {8, 192, 24, 64, 8, 256, 32, 256, 8}, .operators = {}};
  block.recorded = {{.name = "layer_norm"},
                    product(8, 24),
                    {.name = "scaled_dot_product_attention", .heads = 4, .kv_heads = 4},
                    product(8, 8),
                    {.name = "add", .sum = true},
                    product(8, 32),
                    {.name = "gelu"},
                    product(32, 8),
                    {.name = "add", .sum = true}};
  block.handed = Bytes(512);
  Unit logits{.name = "end", .tensors = {800, 100}, .operators = {}};
  logits.recorded = {product(8, 100), {.name = "cross_entropy_loss"}};
  Model model;
  model.name = "recorded";
  model.units = {{.name = "start", .tensors = {800}, .operators = {}}, block, logits};
  return model;
}

std::string refused(const Model& model, int ranks) {
  try {
    recorded::rank_of(model, ranks);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

BOOST_AUTO_TEST_CASE(products_up_to_a_sum_are_split_by_columns_and_the_last_one_by_rows) {
  const Model share = recorded::rank_of(network(), 2);
  const std::vector<Split> expected{Split::whole,   Split::columns, Split::between,
                                    Split::rows,    Split::whole,   Split::columns,
                                    Split::between, Split::rows,    Split::whole};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Operator& one = share.units[1].recorded[i];
    BOOST_TEST((one.split == expected[i]), one.name);
    BOOST_TEST(one.ranks == (expected[i] == Split::whole ? 1 : 2));
  }
}

// A rank's weights by Shoeybi et al. 2019: halves, and whole biases of what ranks add up.
BOOST_AUTO_TEST_CASE(weights_are_halves_and_biases_of_sums_are_whole) {
  const Model share = recorded::rank_of(network(), 2);
  BOOST_TEST(share.units[0].tensors == std::vector<std::int64_t>{800},
             boost::test_tools::per_element());
  BOOST_TEST(
      share.units[1].tensors == (std::vector<std::int64_t>{8, 96, 12, 32, 8, 128, 16, 128, 8}),
      boost::test_tools::per_element());
  BOOST_TEST(share.units[2].tensors == (std::vector<std::int64_t>{400, 50}),
             boost::test_tools::per_element());
  BOOST_TEST((share.units[1].shares[7] == ParameterShare::sharded));
  BOOST_TEST((share.units[1].shares[8] == ParameterShare::replicated));
}

BOOST_AUTO_TEST_CASE(a_group_adds_up_once_each_way_and_logits_are_gathered) {
  const Model share = recorded::rank_of(network(), 2);
  const std::vector<Exchange>& block = share.units[1].exchanges;
  BOOST_TEST_REQUIRE(block.size() == 4U);
  for (const Exchange& one : block) {
    BOOST_TEST((one.kind == ExchangeKind::all_reduce));
    BOOST_TEST(one.elements == 16.0 * 8);
  }
  BOOST_TEST(block[0].issued.before_operator == 4U);
  BOOST_TEST(block[1].issued.before_operator == 8U);
  BOOST_TEST(block[2].issued.before_operator == 5U);
  BOOST_TEST(block[3].issued.before_operator == 1U);
  const std::vector<Exchange>& logits = share.units[2].exchanges;
  BOOST_TEST_REQUIRE(logits.size() == 2U);
  BOOST_TEST((logits[0].kind == ExchangeKind::all_gather));
  BOOST_TEST(logits[0].elements == 16.0 * 100);
  BOOST_TEST(logits[1].elements == 16.0 * 8);
}

BOOST_AUTO_TEST_CASE(what_a_record_does_not_tell_is_refused) {
  BOOST_TEST(refused(network(), 3) == "layers.0's 4 heads do not divide over 3 ranks");
  BOOST_TEST(refused(network(), 8) == "layers.0's 4 heads do not divide over 8 ranks");
  Model routed = network();
  routed.units[1].recorded[6].name = "topk";
  BOOST_TEST(refused(routed, 2).starts_with("layers.0 routes tokens to experts"));
  Model without = network();
  for (Unit& unit : without.units) unit.recorded.clear();
  BOOST_TEST(refused(without, 2).starts_with("its profile has no operators"));
  Model plain = network();
  plain.units.pop_back();
  std::erase_if(plain.units[1].recorded, [](const Operator& one) { return one.is_product(); });
  BOOST_TEST(refused(plain, 2).starts_with("no two products were recorded"));
}

BOOST_AUTO_TEST_CASE(stages_begin_where_one_tensor_was_seen_to_be_handed_on) {
  std::string why_not;
  BOOST_TEST((split_into_stages(network(), 1, {}, why_not) == std::vector<UnitRange>{{0, 3}}));
  Model two = network();
  two.units.insert(two.units.begin() + 2, two.units[1]);
  two.units[2].name = "layers.1";
  BOOST_TEST((split_into_stages(two, 2, {}, why_not) == std::vector<UnitRange>{{0, 2}, {2, 4}}));
  two.units[2].handed = Bytes(0);
  BOOST_TEST(split_into_stages(two, 2, {}, why_not).empty());
  BOOST_TEST(why_not.starts_with("the profile does not say that layers.1 reads one tensor"));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
