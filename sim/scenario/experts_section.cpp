#include <fmt/format.h>

#include <algorithm>

#include "mesh/pipeline_order.hpp"
#include "scenario/sections.hpp"
#include "strategy/layout/stage_plan.hpp"

namespace rehearse::inline scenario {
namespace {

/// A dispatcher leaves multiprocessors to what computes beside it.
void check_dispatch(const Map& map, const Layout& layout, const Cluster& cluster) {
  if (layout.dispatch_sms == 0) return;
  for (const NodeGroup& group : cluster.groups) {
    const double all = group.node.gpu.multiprocessors();
    if (all == 0 || layout.dispatch_sms < all) continue;
    Map copy = map;
    Map experts = copy.require("experts").as_map();
    (experts.has("num_sms") ? experts.require("num_sms") : experts.where())
        .fail(fmt::format("{} has {:.0f} multiprocessors, and what computes beside needs some",
                          group.node.gpu.name, all),
              "20 is DeepEP's own default, 16 Megatron-LM's for HybridEP");
  }
}

/// That it hides something where it is asked for.
void check_expert_comm(const Map& map, const Strategy& strategy) {
  const Layout& layout = *strategy.layout;
  if (!layout.expert_comm_overlap.value_or(false)) return;
  const auto has_pair = [&](const std::vector<PipelineAction>& order) {
    return std::ranges::count(beside_next(strategy, order), true) > 0;
  };
  if (std::ranges::any_of(order_of(layout).order, has_pair)) return;
  Map copy = map;
  copy.require("experts")
      .as_map()
      .at_key("overlap_moe_expert_parallel_comm")
      .fail("no backward has another micro-batch's forward behind it",
            "more micro-batches, 1f1b or interleaved_1f1b, or remove it");
}

/// Ranks that share tables are ranks of one stage, in whole groups.
void check_tables(const Map& map, const Layout& layout, const Cluster& cluster) {
  const Mesh mesh = *mesh_on(layout, cluster.gpu_count());
  if (!layout.shares_tables || experts_fit(mesh)) return;
  const int ranks = mesh.tensor * mesh.context * mesh.data;
  Map copy = map;
  copy.require("embedding_parallel")
      .fail(
          fmt::format("a stage of {} ranks does not divide into groups of {}", ranks, mesh.expert),
          "a divisor of them, or another number of nodes");
}

}  // namespace

void check_experts(const Map& map, const Strategy& strategy, const Cluster& cluster) {
  check_tables(map, *strategy.layout, cluster);
  check_dispatch(map, *strategy.layout, cluster);
  check_expert_comm(map, strategy);
}

}  // namespace rehearse::inline scenario
