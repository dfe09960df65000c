#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/peak.hpp"
#include "report/anatomy.hpp"
#include "report/measures.hpp"

namespace rehearse {
namespace {

/// What every part of the report is computed from.
struct Basis {
  const RunFacts& facts;
  std::uint32_t first = 0, last = 0;  ///< the measured iterations: [first, last)
  std::vector<RankId> workers;        ///< simulated ranks that compute
  double ranks = 0;                   ///< workers of the job, folded ones included
  std::vector<Update> updates;
  bool parameter_server = false;
};

Basis basis_of(const RunFacts& facts) {
  const Schedule& schedule = facts.schedule;
  Basis basis{.facts = facts, .workers = computing_ranks(schedule), .updates = {}};
  check(!basis.workers.empty() && schedule.iterations > 0,
        "a report of a run in which nothing is computed");
  basis.last = schedule.iterations;
  basis.first = std::min(facts.scenario.run.warmup_steps, basis.last - 1);
  basis.parameter_server = has_parameter_server(schedule);
  if (basis.parameter_server) basis.updates = update_log(schedule, facts.trace);
  // A parameter server's ranks are never folded, and some GPUs may serve; otherwise every GPU
  // trains.
  basis.ranks = basis.parameter_server ? static_cast<double>(basis.workers.size())
                                       : static_cast<double>(facts.scenario.cluster.gpu_count());
  return basis;
}

Seconds end_of(const std::vector<Seconds>& ends, std::uint32_t iteration) {
  return iteration == 0 ? Seconds(0) : ends[iteration - 1];
}

/// When the last rank had ended each iteration.
std::vector<Seconds> slowest_ends(const Basis& basis) {
  std::vector<Seconds> ends(basis.last);
  for (const RankId rank : basis.workers) {
    const std::vector<Seconds>& own = basis.facts.trace.iteration_end[rank.index()];
    for (std::uint32_t k = 0; k < basis.last; ++k) ends[k] = std::max(ends[k], own[k]);
  }
  return ends;
}

void append_steps(const Basis& basis, const std::vector<Seconds>& ends,
                  std::vector<Seconds>& steps) {
  for (std::uint32_t k = basis.first; k < basis.last; ++k)
    steps.push_back(ends[k] - end_of(ends, k));
}

/// Measured steps, sorted: of the whole job, or of each worker of a parameter server.
std::vector<Seconds> measured_steps(const Basis& basis) {
  std::vector<Seconds> steps;
  if (basis.parameter_server) {
    for (const RankId rank : basis.workers) {
      append_steps(basis, basis.facts.trace.iteration_end[rank.index()], steps);
    }
  } else {
    append_steps(basis, slowest_ends(basis), steps);
  }
  std::ranges::sort(steps);
  return steps;
}

std::int64_t accumulation(const Strategy& strategy) {
  if (const auto* ddp = std::get_if<Ddp>(&strategy)) return ddp->gradient_accumulation;
  if (const auto* fsdp = std::get_if<Fsdp>(&strategy)) return fsdp->gradient_accumulation;
  if (const auto* zero = std::get_if<Zero1>(&strategy)) return zero->ddp.gradient_accumulation;
  return 1;
}

/// Workers whose gradients count: backup workers' are dropped.
double contributing_ranks(const Basis& basis) {
  const auto* server = std::get_if<ParameterServer>(&basis.facts.scenario.strategy);
  return basis.ranks - (server ? server->backup_workers : 0);
}

/// Iterations per second of one worker while all workers still run (until `common_end`): the last
/// ones to finish have the server to themselves. A worker too slow to end one by then counts by all
/// its measured iterations.
double worker_rate(const Basis& basis, RankId rank, Seconds common_end) {
  const std::vector<Seconds>& ends = basis.facts.trace.iteration_end[rank.index()];
  const Seconds begin = end_of(ends, basis.first);
  std::uint32_t last = basis.last;
  while (last > basis.first && ends[last - 1] > common_end) --last;
  if (last == basis.first) last = basis.last;
  return (last - basis.first) / (ends[last - 1] - begin).value();
}

/// Synchronous form: one update per iteration, applied by the servers.
double group_update_rate(const Basis& basis) {
  const std::vector<Update>& updates = basis.updates;
  const Seconds begin = basis.first == 0 ? Seconds(0) : updates[basis.first - 1].applied;
  return (basis.last - basis.first) / (updates[basis.last - 1].applied - begin).value();
}

/// Gradients that enter an update, per second, times the samples behind each.
double parameter_server_samples_per_s(const Basis& basis) {
  const double batch = static_cast<double>(basis.facts.scenario.batch_per_gpu);
  const bool by_group =
      basis.updates.size() == basis.last &&
      std::ranges::find(basis.workers, basis.updates.front().worker) == basis.workers.end();
  if (by_group) return contributing_ranks(basis) * batch * group_update_rate(basis);

  Seconds common_end{std::numeric_limits<double>::infinity()};
  for (const RankId rank : basis.workers) {
    common_end =
        std::min(common_end, basis.facts.trace.iteration_end[rank.index()][basis.last - 1]);
  }
  double rate = 0;
  for (const RankId rank : basis.workers) rate += worker_rate(basis, rank, common_end);
  return rate * batch;
}

void add_identity(const Basis& basis, Report& report) {
  const Scenario& scenario = basis.facts.scenario;
  report.scenario = scenario.file;
  report.description = scenario.description;
  report.model = scenario.model.name;
  report.cluster = scenario.cluster.name;
  report.strategy = strategy_name(scenario.strategy);
  report.precision = to_string(scenario.precision);
  report.batch_per_gpu = scenario.batch_per_gpu;
  report.global_batch = static_cast<std::int64_t>(contributing_ranks(basis)) *
                        scenario.batch_per_gpu * accumulation(scenario.strategy);
  report.ranks = static_cast<std::size_t>(basis.ranks);
  report.nodes = scenario.cluster.node_count();
  report.fidelity = basis.facts.fidelity;
  report.seed = scenario.run.seed;
}

void add_times(const Basis& basis, Report& report) {
  const std::vector<Seconds> steps = measured_steps(basis);
  report.step_time = percentile(steps, 0.5);
  report.step_time_interval = {percentile(steps, 0.05), percentile(steps, 0.95)};
  report.samples_per_s = basis.parameter_server
                             ? parameter_server_samples_per_s(basis)
                             : static_cast<double>(report.global_batch) / report.step_time.value();
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
  if (report.memory && report.memory->context > Bytes(0)) {
    add(fmt::format("CUDA context and libraries outside the allocator = {}",
                    format(report.memory->context)));
  }
}

}  // namespace

Seconds percentile(const std::vector<Seconds>& sorted, double share) {
  check(!sorted.empty(), "a percentile of nothing");
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (position - std::floor(position));
}

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
  report.staleness = staleness_of(basis.updates, basis.first);
  report.cost = cost_of(facts.scenario.cluster, report.train_time);

  report.provenance = facts.provenance;
  report.outside_calibration = facts.outside_calibration;
  add_assumptions(basis, report);
  report.versions = facts.versions;
  report.versions["rehearse"] = REHEARSE_VERSION;
  return report;
}

}  // namespace rehearse
