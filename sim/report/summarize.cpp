#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/peak.hpp"
#include "report/anatomy.hpp"
#include "report/basis.hpp"
#include "report/measures.hpp"
#include "report/paced_updates.hpp"
#include "report/prediction_interval.hpp"

namespace rehearse {
namespace {

void add_identity(const Basis& basis, Report& report) {
  const Scenario& scenario = basis.facts.scenario;
  report.scenario = scenario.file;
  report.description = scenario.description;
  report.model = scenario.model.name;
  report.cluster = scenario.cluster.name;
  report.strategy = strategy_name(scenario.strategy);
  report.precision = to_string(scenario.precision);
  report.batch_per_gpu = scenario.batch_per_gpu;
  report.global_batch = global_batch(basis);
  report.ranks = static_cast<std::size_t>(basis.ranks);
  report.nodes = scenario.cluster.node_count();
  report.fidelity = basis.facts.fidelity;
  report.seed = scenario.run.seed;
}

void add_times(const Basis& basis, Report& report) {
  const std::vector<Seconds> steps = measured_steps(basis);
  report.step_time = percentile(steps, 0.5);
  report.step_time_spread = {percentile(steps, 0.05), percentile(steps, 0.95)};
  report.samples_per_s = samples_per_s(basis, report.step_time);
  const Train& train = basis.facts.scenario.train;
  if (!train.samples_per_epoch) return;
  report.epoch_time = Seconds(static_cast<double>(*train.samples_per_epoch) / report.samples_per_s);
  if (train.epochs) report.train_time = *report.epoch_time * *train.epochs;
}

/// Model FLOPs per second over the GPUs' peak; nothing where times are given or the model is a
/// profile's, for then the FLOPs of its operators are not known.
std::optional<double> mfu(const Basis& basis, const Report& report) {
  const Scenario& scenario = basis.facts.scenario;
  const auto given = [](const Unit& unit) { return unit.forward || unit.backward; };
  if (std::ranges::any_of(scenario.model.units, given)) return std::nullopt;
  if (scenario.model.flops_per_sample() == 0) return std::nullopt;
  FlopsPerSecond peak;
  for (const RankId rank : basis.workers) {
    const Place& place = basis.facts.schedule.ranks[rank.index()].place;
    peak += peak_for(scenario.model, scenario.cluster.node(place.node).gpu, scenario.precision);
  }
  peak *= basis.ranks / static_cast<double>(basis.workers.size());
  if (peak <= FlopsPerSecond(0)) return std::nullopt;
  return scenario.model.flops_per_sample() * report.samples_per_s / peak.value();
}

/// Of the whole training, on all GPUs of the cluster; no price unless every group of nodes has one.
std::optional<CostReport> cost_of(const Cluster& cluster,
                                  const std::optional<Seconds>& train_time) {
  if (!train_time) return std::nullopt;
  const double hours = train_time->value() / 3600;
  CostReport cost{.gpu_hours = static_cast<double>(cluster.gpu_count()) * hours, .usd = 0.0};
  for (const NodeGroup& group : cluster.groups) {
    if (!group.node.usd_per_hour) {
      cost.usd.reset();
      break;
    }
    *cost.usd += *group.node.usd_per_hour * group.nodes * hours;
  }
  return cost;
}

void add_assumptions(const Basis& basis, Report& report) {
  report.assumptions = basis.facts.scenario.assumptions;
  const auto add = [&](const std::string& assumption) {
    if (std::ranges::find(report.assumptions, assumption) == report.assumptions.end()) {
      report.assumptions.push_back(assumption);
    }
  };
  for (const std::string& assumption : basis.facts.assumptions) add(assumption);
  if (const int steps = local_steps(basis.facts.scenario.strategy); steps > 1)
    add(fmt::format("a step = {} local steps and what is exchanged after them", steps));
  if (report.memory && report.memory->context > Bytes(0)) {
    add(fmt::format("CUDA context and libraries outside the allocator = {}",
                    format(report.memory->context)));
  }
  if (report.memory && report.memory->communicators > Bytes(0)) {
    add(fmt::format("NCCL's buffers outside the allocator = {}",
                    format(report.memory->communicators)));
  }
}

}  // namespace

Report summarize(const RunFacts& facts) {
  const Basis basis = basis_of(facts);
  Report report;
  add_identity(basis, report);
  add_times(basis, report);

  const Anatomy anatomy = dissect(facts.schedule, facts.trace, basis.first, basis.last);
  report.breakdown = anatomy.breakdown;
  report.gpu_utilization = anatomy.breakdown.compute / anatomy.step;
  report.mfu = mfu(basis, report);
  report.bottleneck = bottleneck_sentence(anatomy, basis.parameter_server);

  report.memory = memory_report(facts);
  report.staleness = staleness_of(basis.updates, basis.first, basis.common_end);
  report.accuracy = accuracy_of(basis, report);
  report.cost = cost_of(facts.scenario.cluster, report.train_time);
  report.intervals = intervals_of(report, facts, sampling_of(basis));

  report.provenance = facts.provenance;
  report.outside_calibration = facts.outside_calibration;
  if (report.accuracy) {
    for (const std::string& reason : report.accuracy->outside_calibration)
      report.outside_calibration.push_back("accuracy: " + reason);
  }
  add_assumptions(basis, report);
  report.versions = facts.versions;
  report.versions["rehearse"] = REHEARSE_VERSION;
  return report;
}

}  // namespace rehearse
