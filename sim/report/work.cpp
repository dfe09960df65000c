#include "report/work.hpp"

#include <array>

namespace rehearse::inline report {
namespace {

bool splits_a_model(const Strategy& strategy) {
  const Mesh mesh = mesh_of(strategy);
  return mesh.tensor * mesh.pipeline * mesh.context * mesh.expert > 1;
}

}  // namespace

const char* to_string(WorkKind work) {
  static constexpr std::array<const char*, kWorks> kNames = {
      "servers",          "experts", "adapters", "layouts", "one GPU", "replicas in a node",
      "replicas on nodes"};
  return kNames.at(static_cast<std::size_t>(work));
}

bool trains_adapters(const Model& model) {
  return 2 * model.trainable_parameters() < model.parameters();
}

WorkKind work_of(const Scenario& scenario) {
  const Model& model = scenario.model;
  if (server_in(scenario.strategy) != nullptr) return WorkKind::servers;
  if (model.active_parameters() < model.parameters()) return WorkKind::experts;
  if (trains_adapters(model)) return WorkKind::adapters;
  if (splits_a_model(scenario.strategy)) return WorkKind::layouts;
  if (scenario.cluster.gpu_count() == 1) return WorkKind::one_gpu;
  return scenario.cluster.node_count() == 1 ? WorkKind::replicas_in_node
                                            : WorkKind::replicas_on_nodes;
}

}  // namespace rehearse::inline report
