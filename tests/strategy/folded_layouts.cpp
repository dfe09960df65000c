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
  layout.data = Zero1{Ddp{.algorithm = CollectiveAlgorithm::ring}};
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

Schedule schedule_on(const Degrees& of, const Cluster& cluster) {
  const Layout layout = layout_of(of);
  return schedule_of(layout, share_on(eight_layers(), layout, cluster), cluster, 2);
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
  const Schedule whole = schedule_of(layout, share_on(eight_layers(), layout, cluster), cluster, 2);
  check_folds(whole, cluster, of.kept);
}

/// Ranks of one node, or a part of them, share the parameters.
const Degrees kHybrids[] = {
    {1, 1, 1, 4, 8, 16}, {2, 1, 1, 4, 8, 8}, {2, 2, 1, 4, 8, 8}, {4, 1, 2, 8, 8, 8}};

BOOST_DATA_TEST_CASE(so_they_do_where_they_shard_in_groups, data::make(kHybrids), of) {
  const Cluster cluster = nodes_of(of.nodes, of.gpus);
  for (const int group : {0, 2}) {
    Layout layout = layout_of(of);
    layout.data = Fsdp{.sharding = Fsdp::Sharding::hybrid_shard,
                       .shard_group = group,
                       .algorithm = CollectiveAlgorithm::ring};
    const Schedule whole =
        schedule_of(layout, share_on(eight_layers(), layout, cluster), cluster, 2);
    check_folds(whole, cluster, of.kept);
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

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
