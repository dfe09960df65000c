#pragma once

#include <boost/test/unit_test.hpp>
#include <string>

#include "model/transformer.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {

/// NCCL's groups have a NIC for each GPU.
inline Cluster nodes_of(int nodes, int gpus = 4) { return star_cluster(nodes, gpus, gpus); }

/// A rank's share of samples of 64 tokens, on a GPU whose host launches in no time.
inline Toy share_on(const TransformerShape& shape, const Layout& layout, const Cluster& cluster) {
  Gpu gpu;
  gpu.name = "plain";
  gpu.fp32 = gpu.tf32 = gpu.fp16 = gpu.bf16 = FlopsPerSecond(20e12);
  gpu.memory_bandwidth = BytesPerSecond(1e12);
  Toy toy;
  toy.model = share_of(shape, {.sequence = 64}, parallel_of(layout, cluster));
  toy.costs = step_costs(toy.model, gpu, Precision::fp32, 1, {}, {.host_launch = Seconds(0)});
  return toy;
}

/// Blocks with 16 experts, of which a token goes to two, and a shared one.
inline TransformerShape mixture(int layers) {
  TransformerShape t;
  t.name = "mixture";
  t.layers = layers;
  t.hidden = 256;
  t.heads = t.kv_heads = 8;
  t.head_width = 32;
  t.feed_forward = 512;
  t.vocabulary = 1024;
  t.experts = Experts{.count = 16, .active = 2, .width = 128, .shared_width = 128};
  return t;
}

/// A layout of two micro-batches whose ranks share experts.
inline Layout expert_layout(int expert, int tensor = 1, int expert_tensor = 1) {
  Layout layout;
  layout.mesh.tensor = tensor;
  layout.mesh.expert = expert;
  layout.mesh.expert_tensor = expert_tensor;
  layout.sequence_parallel = tensor > 1;
  layout.micro_batches = 2;
  return layout;
}

/// The folded schedule has so many ranks, and ends when the whole one does.
inline void check_folds(const Schedule& whole, const Cluster& cluster, std::size_t ranks) {
  std::string why_not;
  const auto folded = fold(whole, cluster, why_not);
  BOOST_REQUIRE_MESSAGE(folded, why_not);
  BOOST_TEST(folded->schedule.ranks.size() == ranks);
  validate(folded->schedule);
  BOOST_CHECK_CLOSE(play(folded->schedule, folded->cluster).end.value(),
                    play(whole, cluster).end.value(), kPercent);
}

}  // namespace rehearse
