#include <fmt/format.h>

#include <algorithm>

#include "economy/energy.hpp"
#include "economy/price.hpp"
#include "report/economy.hpp"

namespace rehearse::inline report {
namespace {

double hours(Seconds time) { return time.value() / 3600; }

// --- energy

std::size_t group_index(const Cluster& cluster, NodeId node) {
  return static_cast<std::size_t>(&cluster.group_of(node) - cluster.groups.data());
}

/// Of one node group's GPUs that train.
struct GroupActivity {
  double training = 0;                    ///< ranks that compute
  double recorded = 0;                    ///< of them
  double compute = 0, communication = 0;  ///< summed shares of the recorded ones
};

/// The groups' order is the cluster's. Ranks that were not recorded do as those of their group that
/// were, or as all where none was.
std::vector<GroupActivity> activity_of(const Basis& basis) {
  const Scenario& scenario = basis.facts.scenario;
  const Schedule& schedule = basis.facts.schedule;
  std::vector<GroupActivity> groups(scenario.cluster.groups.size());
  const auto group_of = [&](RankId rank) -> GroupActivity& {
    return groups[group_index(scenario.cluster, schedule.ranks[rank.index()].place.node)];
  };
  for (const RankId rank : basis.workers) group_of(rank).training += 1;
  // Folded ranks stand for more of their only group.
  const double folded = basis.ranks / static_cast<double>(basis.workers.size());
  for (GroupActivity& group : groups) group.training *= folded;
  for (const RankAnatomy& one : dissect_ranks(schedule, basis.facts.trace, basis.iterations)) {
    GroupActivity& group = group_of(one.rank);
    group.recorded += 1;
    group.compute += one.anatomy.breakdown.compute / one.anatomy.step;
    group.communication += one.anatomy.breakdown.exposed_communication / one.anatomy.step;
  }
  return groups;
}

/// Those that train, and by themselves those that do not.
std::vector<GpuLoad> loads_of(const Basis& basis, const Breakdown& mean) {
  const Cluster& cluster = basis.facts.scenario.cluster;
  const std::vector<GroupActivity> groups = activity_of(basis);
  const Seconds step = mean.compute + mean.exposed_communication + mean.idle;
  std::vector<GpuLoad> loads;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Node& node = cluster.groups[g].node;
    if (node.gpus == 0) continue;
    const GroupActivity& group = groups[g];
    const bool seen = group.recorded > 0;
    loads.push_back({.gpus = group.training,
                     .tdp = *node.gpu.tdp,
                     .compute = seen ? group.compute / group.recorded : mean.compute / step,
                     .communication = seen ? group.communication / group.recorded
                                           : mean.exposed_communication / step});
    const double all = static_cast<double>(node.gpus) * cluster.groups[g].nodes;
    loads.push_back({.gpus = all - group.training, .tdp = *node.gpu.tdp});
  }
  return loads;
}

Watts host_of(const Node& node, const EnergyOptions& energy) {
  if (energy.host) return *energy.host;
  return host_power(node.gpus > 0 ? *node.gpu.tdp * node.gpus : Watts(0));
}

Watts hosts_of(const Cluster& cluster, const EnergyOptions& energy) {
  Watts sum;
  for (const NodeGroup& group : cluster.groups) sum += host_of(group.node, energy) * group.nodes;
  return sum;
}

/// A node that does nothing, before the building's share.
Watts idle_node(const Node& node, const EnergyOptions& energy) {
  const Watts gpus = node.gpus > 0 ? *node.gpu.tdp * node.gpus * energy.idle : Watts(0);
  return gpus + host_of(node, energy);
}

void add_power_lines(const Cluster& cluster, const EnergyOptions& energy,
                     std::vector<std::string>& lines) {
  for (const NodeGroup& group : cluster.groups) {
    const Node& node = group.node;
    if (node.gpus > 0) {
      lines.push_back(fmt::format(
          "energy: {} draws {} computing, {} while it waits for what is "
          "sent, {} idle",
          node.gpu.name, format(*node.gpu.tdp * energy.compute),
          format(*node.gpu.tdp * energy.communication), format(*node.gpu.tdp * energy.idle)));
    }
    if (!energy.host) {
      lines.push_back(fmt::format("energy.host = {} for a node of {} GPU{}",
                                  format(host_of(node, energy)), node.gpus,
                                  node.gpus == 1 ? "" : "s"));
    }
  }
}

// --- money

/// The kind of node that spares are.
const Node& gpu_node(const Cluster& cluster) {
  return std::ranges::find_if(cluster.groups, [](const NodeGroup& g) { return g.node.gpus > 0; })
      ->node;
}

void add_market_lines(const Scenario& scenario, std::vector<std::string>& lines) {
  const Market market = scenario.train.market;
  for (const NodeGroup& group : scenario.cluster.groups) {
    if (!group.node.prices.any() || group.node.prices.in(market)) continue;
    lines.push_back(fmt::format("train.market: {} has no {} price: on demand{}", group.name,
                                to_string(market),
                                market == Market::spot ? ", never taken away" : ""));
  }
}

/// Whole clusters' time, by what is paid for it.
struct PaidTime {
  Seconds training{}, failures{}, start{};
  Seconds spares{};  ///< of one node
};

PaidTime paid_time(const Report& report, const Course& course) {
  const auto nodes = static_cast<double>(report.nodes);
  PaidTime time{.training = *report.train_time};
  if (course.start) time.start = course.start->mean_wait;
  if (course.job) {
    time.failures = course.goodput.mean.node_time / nodes - *report.train_time;
    time.spares = course.goodput.mean.total * course.job->spares;
  }
  return time;
}

/// Of all that is paid for: training and what is lost at a step's power, the rest at rest.
double energy_kwh(const Scenario& scenario, const Report& report, const Course& course,
                  const PaidTime& paid) {
  const EnergyOptions& energy = *scenario.energy;
  const Cluster& cluster = scenario.cluster;
  const TrainingTimes& mean = course.goodput.mean;
  const double present =
      mean.node_time / (mean.total * static_cast<double>(report.nodes));  // of the nodes
  const Seconds still = mean.checkpoints + mean.recovery + mean.waiting;
  Watts idle;
  for (const NodeGroup& group : cluster.groups) idle += idle_node(group.node, energy) * group.nodes;
  const Watts spare = idle_node(gpu_node(cluster), energy);
  return kilowatt_hours(Watts(report.energy->power_w), (mean.total - still) * present) +
         energy.pue * (kilowatt_hours(idle, still * present + paid.start) +
                       kilowatt_hours(spare, paid.spares));
}

}  // namespace

std::optional<EnergyReport> energy_report(const Basis& basis, const Report& report,
                                          std::vector<std::string>& lines) {
  const Scenario& scenario = basis.facts.scenario;
  if (!scenario.energy) return std::nullopt;
  const EnergyOptions& energy = *scenario.energy;
  const Watts gpus = gpu_power(energy, loads_of(basis, report.breakdown));
  const Watts hosts = hosts_of(scenario.cluster, energy);
  add_power_lines(scenario.cluster, energy, lines);
  const Watts all = (gpus + hosts) * energy.pue;
  return EnergyReport{.power_w = all.value(),
                      .gpus_w = gpus.value(),
                      .hosts_w = hosts.value(),
                      .pue_w = (all - gpus - hosts).value(),
                      .step_j = all.value() * report.step_time.value()};
}

std::optional<CostReport> cost_report(const Scenario& scenario, const Report& report,
                                      const Course& course, std::vector<std::string>& lines) {
  if (!report.train_time) return std::nullopt;
  const PaidTime paid = paid_time(report, course);
  CostReport cost{.gpu_hours = static_cast<double>(scenario.cluster.gpu_count()) *
                               hours(paid.training + paid.failures + paid.start)};
  if (scenario.energy) {
    cost.energy_kwh = energy_kwh(scenario, report, course, paid);
    const auto& grid = scenario.energy->grid_gco2_per_kwh;
    if (grid) cost.co2_kg = *cost.energy_kwh * *grid / 1000;
  }
  const std::optional<double> price = usd_per_hour(scenario.cluster, scenario.train.market);
  cost.prices = price_words(scenario.cluster, scenario.train.market);
  if (!price) return cost;
  const Node& spare = gpu_node(scenario.cluster);
  const double spare_price = usd_per_hour(spare, scenario.train.market).value_or(0);
  const double bill =
      scenario.energy ? scenario.energy->usd_per_kwh.value_or(0) * *cost.energy_kwh : 0;
  cost.usd_by_part =
      CostParts{.training = *price * hours(paid.training),
                .failures = *price * hours(paid.failures) + spare_price * hours(paid.spares),
                .start = *price * hours(paid.start),
                .energy = bill};
  const CostParts& parts = *cost.usd_by_part;
  cost.usd = parts.training + parts.failures + parts.start + parts.energy;
  add_market_lines(scenario, lines);
  return cost;
}

}  // namespace rehearse::inline report
