// HybridEP sends maps and probabilities besides tokens.
#include <boost/test/unit_test.hpp>

#include "strategy/layouts.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(hybridep_test)
namespace {

/// The exchanges of a block, whose 16 experts lie on 16 ranks of four nodes.
std::vector<Exchange> exchanges_by(ExpertDispatch dispatch) {
  Layout layout = expert_layout(16);
  layout.dispatch = dispatch;
  const Toy toy = share_on(mixture(1), layout, nodes_of(4));
  for (const Unit& unit : toy.model.units)
    if (!unit.exchanges.empty()) return unit.exchanges;
  return {};
}

// A node has four of the experts, and a token of 256 channels carries as many probabilities.
BOOST_AUTO_TEST_CASE(tokens_carry_the_probabilities_of_a_nodes_experts) {
  const std::vector<Exchange> plain = exchanges_by(ExpertDispatch::deepep);
  const std::vector<Exchange> all = exchanges_by(ExpertDispatch::hybridep);
  BOOST_REQUIRE(all.size() == plain.size());
  int carry = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    BOOST_TEST(plain[i].wide_beside == 0);
    if (all[i].kind != ExchangeKind::all_to_all) continue;
    BOOST_TEST(all[i].elements == plain[i].elements);
    if (all[i].wide_beside == 0) continue;
    BOOST_CHECK_CLOSE(all[i].wide_beside, all[i].elements / 256 * 4, 1e-6);
    ++carry;
  }
  BOOST_TEST(carry == 4);  // inside and across, of dispatch and of its gradient
}

BOOST_AUTO_TEST_CASE(ranks_gather_a_byte_of_each_token_and_expert) {
  for (const Exchange& one : exchanges_by(ExpertDispatch::hybridep)) {
    if (one.kind != ExchangeKind::all_gather) continue;
    BOOST_TEST(one.float8);
    BOOST_TEST(one.elements == 64 * 16 * 16);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
