#include "predict/interval_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/data_folder.hpp"
#include "cluster/cluster.hpp"
#include "config/document.hpp"

namespace rehearse::inline prediction {
namespace {

using Factors = std::map<std::string, double>;

Factors read_factors() {
  const auto document = Document::load(platforms_path("intervals.yaml"));
  Map groups = document->root().as_map().require("groups").as_map();
  Factors factors;
  for (const std::string& name : groups.keys())
    factors[name] = groups.require(name).as_map().require("factor").as_positive_number();
  return factors;
}

IntervalBasis basis_of(const std::string& group) {
  static const Factors kFactors = read_factors();
  const auto found = kFactors.find(group);
  return {.group = group, .factor = found == kFactors.end() ? 1 : found->second};
}

}  // namespace

bool is_computed(const std::vector<StepCosts>& costs) {
  const auto has_units = [](const StepCosts& one) { return !one.units.empty(); };
  const auto is_analytic = [&](const StepCosts& one) {
    return !has_units(one) || one.provenance == Provenance::analytic;
  };
  return std::ranges::any_of(costs, has_units) && std::ranges::all_of(costs, is_analytic);
}

bool has_updates(const Schedule& schedule) {
  return std::ranges::any_of(schedule.programs, [](const Program& program) {
    return std::ranges::any_of(program.ops,
                               [](const Op& op) { return op.role != UpdateRole::none; });
  });
}

bool has_fast_links(const Cluster& cluster) {
  if (cluster.gpu_count() == 1) return true;
  return std::ranges::all_of(cluster.groups, [&](const NodeGroup& group) {
    const bool inside = group.node.gpus < 2 || group.node.nvlink;
    const bool between =
        cluster.node_count() < 2 || group.node.transport.kind == NicTransport::Kind::rdma;
    return inside && between;
  });
}

bool trains_adapters(const Model& model) {
  return 2 * model.trainable_parameters() < model.parameters();
}

std::optional<IntervalBasis> memory_basis(const Scenario& scenario,
                                          const std::vector<StepCosts>& costs) {
  if (!is_computed(costs)) return std::nullopt;
  return basis_of(fmt::format("memory of {}, {}",
                              trains_adapters(scenario.model) ? "adapters" : "all parameters",
                              scenario.cluster.gpu_count() > 1 ? "many GPUs" : "one GPU"));
}

std::optional<IntervalBasis> used_memory_basis(const std::vector<StepCosts>& costs) {
  if (!is_computed(costs)) return std::nullopt;
  return basis_of("used memory");
}

}  // namespace rehearse::inline prediction
