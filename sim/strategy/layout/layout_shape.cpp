// What follows from a layout's degrees alone: its mesh on a cluster, a layer's share, and the order
// of a pipeline.
#include <set>

#include "model/token_histogram.hpp"
#include "strategy/side_by_side.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

std::optional<Mesh> mesh_on(const Layout& layout, std::size_t gpus) {
  Mesh mesh = layout.mesh;
  mesh.data = 1;
  const std::size_t replica = mesh.ranks();
  if (gpus == 0 || gpus % replica != 0) return std::nullopt;
  mesh.data = static_cast<int>(gpus / replica);
  return mesh;
}

ModelParallel parallel_of(const Layout& layout, const Cluster& cluster) {
  ModelParallel parallel{.tensor = layout.mesh.tensor,
                         .sequence_parallel = layout.sequence_parallel,
                         .tensor_overlap = layout.tp_comm_overlap,
                         .tensor_async = layout.tensor_async,
                         .dtensor = layout.dtensor,
                         .gather_logits = layout.gather_logits,
                         .context = layout.mesh.context,
                         .context_method = layout.context_method,
                         .expert = layout.mesh.expert,
                         .expert_tensor = layout.mesh.expert_tensor,
                         .dispatch = layout.dispatch,
                         .expert_overlap = layout.expert_overlap,
                         .node_limit = layout.node_limit,
                         .consecutive_experts = layout.fake_balanced_gate,
                         .imbalance = {layout.imbalance.value_or(1)}};
  if (layout.dispatch == ExpertDispatch::replicated) {
    parallel.replicated_experts = parallel.tensor;
    parallel.tensor = parallel.expert_tensor = 1;
    return parallel;
  }
  const auto ranks = static_cast<std::size_t>(parallel.expert);
  if (layout.histogram && layout.histogram->experts() % ranks == 0)
    parallel.imbalance = layout.histogram->imbalance(ranks);
  const auto mesh = mesh_on(layout, cluster.gpu_count());
  if (!mesh || parallel.expert == 1 || !experts_fit(*mesh)) return parallel;
  const std::vector<Place> places = gpu_places(cluster);
  std::set<NodeId> nodes;
  const auto sharing = groups(expert_mesh(*mesh), {MeshAxis::expert});
  for (const std::size_t rank : sharing.front()) nodes.insert(places[rank].node);
  parallel.expert_nodes = static_cast<int>(nodes.size());
  return parallel;
}

PipelineOrder order_of(const Layout& layout) {
  if (layout.order) return *layout.order;
  const int rounds = layout.gradient_accumulation;
  return repeated(pipeline_order(layout.schedule, layout.mesh.pipeline,
                                 layout.micro_batches / rounds, layout.virtual_stages),
                  rounds);
}

namespace {

/// Of sharded parameters a pipeline's ranks keep the whole (torchtitan); others gather them for one
/// micro-batch at a time.
bool keeps_parameters(const Strategy& strategy) {
  return strategy.layout->mesh.pipeline > 1 || !shards_parameters(strategy);
}

}  // namespace

/// It is what DualPipe is for.
std::vector<bool> beside_next(const Strategy& strategy, const std::vector<PipelineAction>& order) {
  const Layout& layout = *strategy.layout;
  if (layout.mesh.expert == 1 || !keeps_parameters(strategy)) return {};
  const bool dual = !layout.order && layout.schedule == PipelineSchedule::dual_pipe_v;
  if (!layout.expert_comm_overlap.value_or(dual)) return {};
  return side_by_side(order, dual);
}

}  // namespace rehearse::inline strategy
