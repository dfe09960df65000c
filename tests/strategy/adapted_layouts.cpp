// Adapters in networks that ranks share.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "model/adaptation.hpp"
#include "model/parallel.hpp"
#include "strategy/layouts.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(adapted_layouts_test)
namespace {

namespace data = boost::unit_test::data;

constexpr int kTokens = 64, kHidden = 256, kTensor = 2;

TransformerShape four_layers() {
  TransformerShape shape;
  shape.name = "four layers";
  shape.layers = 4;
  shape.hidden = kHidden;
  shape.heads = 8;
  shape.kv_heads = 4;
  shape.head_width = 32;
  shape.feed_forward = 512;
  shape.vocabulary = 1024;
  return shape;
}

const std::string kTargets[] = {"q", "k", "v", "o", "gate", "up", "down", "all_linear"};

// Each tensor rank sends its share of the tokens, or of the channels, in 4 bytes.
BOOST_DATA_TEST_CASE(stages_pass_on_what_they_do_without_adapters,
                     data::make(kTargets) * data::make({false, true}) * data::make({false, true}),
                     target, sequences, dropout) {
  const Cluster cluster = nodes_of(1);
  Layout layout;
  layout.mesh.tensor = kTensor;
  layout.mesh.pipeline = 2;
  layout.sequence_parallel = sequences;
  layout.micro_batches = 2;
  Toy toy = share_on(four_layers(), layout, cluster);
  toy.model = adapt(toy.model, {.lora = Lora{.rank = 4, .targets = {target}, .dropout = dropout}});
  const Schedule schedule = schedule_of({kRingMegatron, layout}, toy, cluster, 2);
  std::size_t messages = 0;
  for (const Program& program : schedule.programs)
    for (const Op& op : program.ops) {
      const auto* const collective = std::get_if<Collective>(&op.work);
      if (collective == nullptr || collective->kind != CollectiveKind::send_recv) continue;
      ++messages;
      BOOST_TEST(collective->size.value() == 4.0 * kTokens * kHidden / kTensor);
    }
  BOOST_TEST(messages > 0u);
}

// Of an adapter's two matrices a rank has its part of the one that stands at the side which the
// product splits. The other is whole, with the gradient of the rank's part: summed over tensor
// ranks.
BOOST_DATA_TEST_CASE(adapters_are_split_as_their_products, data::make(kTargets), target) {
  Layout layout;
  layout.mesh.tensor = kTensor;
  const Cluster cluster = nodes_of(1);
  const Toy toy = share_on(four_layers(), layout, cluster);
  const Model model = adapt(toy.model, {.lora = Lora{.rank = 4, .targets = {target}}});
  double summed = 0;
  for (const Unit& unit : model.units) {
    BOOST_REQUIRE_EQUAL(unit.shares.size(), unit.tensors.size());
    for (const Layer& layer : unit.layers)
      for (const Adapter& adapter : layer.adapters) {
        const bool rows = layer.names[adapter.side] == "o" || layer.names[adapter.side] == "down";
        const ParameterShare down = unit.shares[adapter.parameter];
        const ParameterShare up = unit.shares[adapter.parameter + 1];
        BOOST_TEST((down == (rows ? ParameterShare::sharded : ParameterShare::summed)));
        BOOST_TEST((up == (rows ? ParameterShare::summed : ParameterShare::sharded)));
        summed += static_cast<double>(unit.tensors[adapter.parameter + (rows ? 1 : 0)]);
      }
  }
  BOOST_TEST(summed > 0);
  BOOST_TEST(summed_elements(model) == summed);  // and of no norm, which is frozen
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
