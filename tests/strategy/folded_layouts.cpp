// Layouts whose replicas, and whose tensor ranks, stand for all: folded they end when the whole
// ones do.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "strategy/layouts.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(folded_layouts_test)
namespace {

namespace data = boost::unit_test::data;

struct Degrees {
  int tensor = 1, context = 1, pipeline = 1, nodes = 1, gpus = 8;
  std::size_t kept = 1;  ///< ranks of the folded schedule
};
std::ostream& operator<<(std::ostream& out, const Degrees& of) {
  return out << "tp" << of.tensor << " cp" << of.context << " pp" << of.pipeline << " on "
             << of.nodes << " x " << of.gpus;
}

Layout layout_of(const Degrees& of) {
  Layout layout;
  layout.mesh = {.pipeline = of.pipeline, .context = of.context, .tensor = of.tensor};
  layout.sequence_parallel = of.tensor > 1;
  layout.context_method = ContextMethod::all_gather;
  layout.micro_batches = 2 * of.pipeline;
  return layout;
}

TransformerShape eight_layers() {
  TransformerShape shape;
  shape.name = "eight layers";
  shape.layers = 8;
  shape.hidden = 256;
  shape.heads = shape.kv_heads = 8;
  shape.head_width = 32;
  shape.feed_forward = 512;
  shape.vocabulary = 1024;
  return shape;
}

Schedule schedule_on(const Layout& layout, const Cluster& cluster,
                     const Strategy::Kind& sync = zero_1(kRingMegatron)) {
  return schedule_of({sync, layout}, share_on(eight_layers(), layout, cluster), cluster, 2);
}
Schedule schedule_on(const Degrees& of, const Cluster& cluster) {
  return schedule_on(layout_of(of), cluster);
}

/// Tensor parallelism that fills a node, leaves room for contexts or for stages on the same switch.
const Degrees kLayouts[] = {{8, 1, 1, 4, 8, 2}, {8, 2, 1, 8, 8, 4}, {8, 1, 4, 16, 8, 8},
                            {4, 2, 1, 4, 8, 4}, {4, 1, 2, 8, 8, 8}, {2, 2, 1, 4, 8, 8},
                            {2, 1, 1, 3, 2, 2}, {8, 2, 2, 16, 8, 8}};

BOOST_DATA_TEST_CASE(two_replicas_of_a_tensor_rank_stand_for_all, data::make(kLayouts), of) {
  const Cluster cluster = nodes_of(of.nodes, of.gpus);
  check_folds(schedule_on(of, cluster), cluster, of.kept);
}

/// NCCL's model, which may choose trees and others than rings.
BOOST_DATA_TEST_CASE(so_they_do_where_nccl_chooses, data::make(kLayouts), of) {
  Cluster cluster = nodes_of(of.nodes, of.gpus);
  cluster.collectives = CollectiveModel::nccl;
  Layout layout = layout_of(of);
  layout.sequence_parallel = false;  // all_reduces
  check_folds(schedule_on(layout, cluster), cluster, of.kept);
}

/// Ranks of one node, or a part of them, share the parameters.
const Degrees kHybrids[] = {
    {1, 1, 1, 4, 8, 16}, {2, 1, 1, 4, 8, 8}, {2, 2, 1, 4, 8, 8}, {4, 1, 2, 8, 8, 8}};

BOOST_DATA_TEST_CASE(so_they_do_where_they_shard_in_groups, data::make(kHybrids), of) {
  const Cluster cluster = nodes_of(of.nodes, of.gpus);
  for (const int group : {0, 2}) {
    const TorchFsdp1 hybrid{.sharding = TorchFsdp1::Sharding::hybrid_shard,
                            .shard_group = group,
                            .algorithm = CollectiveAlgorithm::ring};
    check_folds(schedule_on(layout_of(of), cluster, hybrid), cluster, of.kept);
  }
}

BOOST_AUTO_TEST_CASE(the_slowest_rank_of_a_tensor_group_paces_it) {
  const Degrees of{8, 1, 2, 8, 8, 4};
  const Cluster cluster = nodes_of(of.nodes, of.gpus);
  Schedule whole = schedule_on(of, cluster);
  for (RankSpec& rank : whole.ranks)
    if (rank.place.gpu == 5) rank.slowdown = 1.2;
  check_folds(whole, cluster, of.kept);
}

/// One replica, or two on nodes of their own: only tensor ranks stand for others.
const Degrees kFewReplicas[] = {{8, 1, 4, 4, 8, 4}, {8, 1, 1, 2, 8, 2}, {4, 1, 4, 4, 8, 8}};

BOOST_DATA_TEST_CASE(a_tensor_rank_stands_for_its_group_where_replicas_are_few,
                     data::make(kFewReplicas), of) {
  const Cluster cluster = nodes_of(of.nodes, of.gpus);
  check_folds(schedule_on(of, cluster), cluster, of.kept);
}

BOOST_AUTO_TEST_CASE(two_replicas_without_tensor_ranks_stand_for_nobody_else) {
  const Degrees of{1, 1, 2, 4, 1};
  const Cluster cluster = nodes_of(of.nodes, of.gpus);
  std::string why_not;
  BOOST_TEST(!fold(schedule_on(of, cluster), cluster, why_not));
  BOOST_TEST(why_not ==
             "there are no more than two replicas on nodes of their own, and no tensor groups "
             "whose GPUs are alike");
}

/// When a rank began its last backward.
double last_backward(const Schedule& schedule, const Trace& trace, RankId rank) {
  double last = 0;
  for (const Span& span : trace.spans)
    if (span.rank == rank && schedule.program_of(rank).ops[span.op.index()].verb == Verb::backward)
      last = std::max(last, span.start.value());
  return last;
}

/// Replicas meet at the step's end. Up to 5 % apart the faster one goes at the slower one's pace,
/// so that not all of its micro-batches are played; further apart, all of them are.
BOOST_DATA_TEST_CASE(replicas_nearly_at_one_pace_take_the_slower_ones, data::make({1.03, 1.2}),
                     slowdown) {
  const Degrees of{2, 1, 2, 2, 4};
  const Cluster cluster = nodes_of(of.nodes, of.gpus);
  Layout layout = layout_of(of);
  layout.micro_batches = 40;
  Schedule schedule = schedule_on(layout, cluster);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    if (coordinates(*schedule.mesh, rank)[static_cast<std::size_t>(MeshAxis::data)] == 1)
      schedule.ranks[rank].slowdown = slowdown;
  Machine machine{.schedule = schedule, .cluster = cluster};
  const Trace few = play(machine);
  machine.play_all = true;
  const Trace all = play(machine);
  BOOST_CHECK_CLOSE(few.end.value(), all.end.value(), kPercent);
  const double put_off =
      last_backward(schedule, few, RankId(0)) / last_backward(schedule, all, RankId(0));
  BOOST_TEST((put_off > 1.005) == (slowdown < 1.05), put_off);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
