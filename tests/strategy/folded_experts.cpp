// Layouts whose ranks share experts: a few of them stand for all.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "model/mixers.hpp"
#include "strategy/layouts.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(folded_experts_test)
namespace {

namespace data = boost::unit_test::data;

void check_folds(const Layout& layout, const Cluster& cluster, std::size_t ranks,
                 const Strategy::Kind& sync = kRingMegatron) {
  check_folds(schedule_of({sync, layout}, share_on(mixture(2), layout, cluster), cluster), cluster,
              ranks);
}

BOOST_AUTO_TEST_CASE(replicas_of_experts_on_one_node_fold) {
  check_folds(expert_layout(4), nodes_of(8), 4);
}

BOOST_AUTO_TEST_CASE(several_that_share_experts_on_a_node_fold) {
  check_folds(expert_layout(4), nodes_of(2, 8), 8);
  check_folds(expert_layout(2), nodes_of(4, 8), 8);
}

BOOST_AUTO_TEST_CASE(ranks_that_share_experts_on_many_nodes_fold) {
  check_folds(expert_layout(16), nodes_of(8), 8);
  check_folds(expert_layout(16), nodes_of(4), 4);
}

BOOST_AUTO_TEST_CASE(experts_across_tensor_ranks_fold) {
  check_folds(expert_layout(16, 2, 1), nodes_of(8), 16);
  check_folds(expert_layout(8, 2, 2), nodes_of(8), 16);
}

BOOST_AUTO_TEST_CASE(experts_across_a_sequences_ranks_fold) {
  Layout layout = expert_layout(16);
  layout.mesh.context = 2;
  layout.context_method = ContextMethod::all_gather;
  check_folds(layout, nodes_of(8), 8);
}

BOOST_DATA_TEST_CASE(every_dispatch_folds,
                     data::make({"all_to_all", "hierarchical", "deepep", "all_gather"}), name) {
  Layout layout = expert_layout(16);
  const auto& names = expert_dispatch_names();
  layout.dispatch = static_cast<ExpertDispatch>(std::ranges::find(names, name) - names.begin());
  check_folds(layout, nodes_of(8), 8);
}

BOOST_AUTO_TEST_CASE(stages_of_experts_fold) {
  Layout layout = expert_layout(8);
  layout.mesh.pipeline = 2;
  layout.micro_batches = 4;
  check_folds(layout, nodes_of(8), 16, zero_1(kMegatronDdp));
}

BOOST_AUTO_TEST_CASE(heads_that_a_sequences_ranks_exchange_fold) {
  TransformerShape t = mixture(2);
  t.parts = {
      {mixer(
          LinearAttention{.key_heads = 8, .key_width = 32, .value_heads = 16, .value_width = 16})},
      {mixer(StateSpace{.heads = 16, .head_width = 16, .state = 16, .groups = 8, .chunk = 16})}};
  Layout layout = expert_layout(16);
  layout.mesh.context = 2;
  const Cluster cluster = nodes_of(8);
  const Schedule schedule =
      schedule_of({kRingMegatron, layout}, share_on(t, layout, cluster), cluster);
  BOOST_TEST(std::ranges::any_of(schedule.program_of(RankId(0)).ops, [](const Op& op) {
    const auto* sent = std::get_if<Collective>(&op.work);
    return sent && sent->kind == CollectiveKind::all_to_all;
  }));
  check_folds(schedule, cluster, 8);
}

BOOST_AUTO_TEST_CASE(sharded_experts_fold) {
  Layout layout = expert_layout(8);
  layout.micro_batches = 1;
  check_folds(layout, nodes_of(8), 8, TorchFsdp2{});
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
