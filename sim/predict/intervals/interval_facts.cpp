#include "predict/intervals/interval_facts.hpp"

#include <algorithm>

#include "cluster/cluster.hpp"

namespace rehearse::inline prediction {

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

}  // namespace rehearse::inline prediction
