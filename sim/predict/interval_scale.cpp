#include "predict/interval_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

bool splits_a_model(const Group& group) {
  return group.ranks > 1 && group.axis && *group.axis != MeshAxis::data;
}

/// Whether GPUs exchange over NVLink and nodes over RDMA, as those of the measured rows do.
bool has_fast_links(const Cluster& cluster) {
  if (cluster.gpu_count() == 1) return true;
  return std::ranges::all_of(cluster.groups, [&](const NodeGroup& group) {
    const bool inside = group.node.gpus < 2 || group.node.nvlink;
    const bool between =
        cluster.node_count() < 2 || group.node.transport.kind == NicTransport::Kind::rdma;
    return inside && between;
  });
}

const char* work_of(const Scenario& scenario, const Schedule& schedule) {
  if (has_updates(schedule)) return "servers";
  if (scenario.model.active_parameters() < scenario.model.parameters()) return "experts";
  if (std::ranges::any_of(schedule.groups, splits_a_model)) return "layouts";
  if (scenario.cluster.gpu_count() == 1) return "one GPU";
  return scenario.cluster.node_count() == 1 ? "replicas in a node" : "replicas on nodes";
}

/// Names what is known of the kernels, of the GPU of which the least is known.
const char* kernels_of(const Cluster& cluster) {
  bool all_own = true;
  for (const NodeGroup& group : cluster.groups) {
    const Gpu& gpu = group.node.gpu;
    if (!gpu.kernels) return "no kernels";
    all_own = all_own && gpu.curves && gpu.kernels->relative.empty();
  }
  return all_own ? "own kernels" : "a relative's kernels";
}

Seconds moved(Seconds end, Seconds best, double factor) {
  return best * std::pow(end / best, factor);
}

Headline moved(Headline end, const Headline& best, double factor) {
  end.step_time = moved(end.step_time, best.step_time, factor);
  end.samples_per_s = best.samples_per_s * std::pow(end.samples_per_s / best.samples_per_s, factor);
  if (end.worker_step_time && best.worker_step_time)
    end.worker_step_time = moved(*end.worker_step_time, *best.worker_step_time, factor);
  return end;
}

}  // namespace

std::optional<IntervalBasis> time_basis(const Scenario& scenario, const Schedule& schedule,
                                        const std::vector<StepCosts>& costs) {
  if (!is_computed(costs) || scenario.run.efficiency.matrix) return std::nullopt;
  const Cluster& cluster = scenario.cluster;
  return basis_of(fmt::format("{}{}, {}", work_of(scenario, schedule),
                              has_fast_links(cluster) ? "" : " over PCIe or TCP",
                              kernels_of(cluster)));
}

std::optional<IntervalBasis> memory_basis(const Scenario& scenario,
                                          const std::vector<StepCosts>& costs) {
  if (!is_computed(costs)) return std::nullopt;
  const bool adapters = 2 * scenario.model.trainable_parameters() < scenario.model.parameters();
  return basis_of(fmt::format("memory of {}, {}", adapters ? "adapters" : "all parameters",
                              scenario.cluster.gpu_count() > 1 ? "many GPUs" : "one GPU"));
}

std::optional<IntervalBasis> used_memory_basis(const std::vector<StepCosts>& costs) {
  if (!is_computed(costs)) return std::nullopt;
  return basis_of("used memory");
}

std::vector<ErrorSource> scaled(std::vector<ErrorSource> sources, double factor) {
  for (ErrorSource& source : sources) {
    source.low = moved(source.low, source.best, factor);
    source.high = moved(source.high, source.best, factor);
  }
  return sources;
}

}  // namespace rehearse::inline prediction
