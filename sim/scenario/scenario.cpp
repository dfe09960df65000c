#include "scenario/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "collective/collective_cost.hpp"
#include "kernels/kernel_curves.hpp"
#include "scenario/sections.hpp"
#include "scenario/speed_spread.hpp"
#include "schedule/host_ahead.hpp"

namespace rehearse::inline scenario {
namespace {

/// All GPUs of a node share the bandwidth of its memory.
BytesPerSecond host_rate(const Node& node) {
  if (node.gpus == 0) return node.pcie.bandwidth;
  return std::min(node.pcie.bandwidth, node.pcie.host_bandwidth / node.gpus);
}

/// A worker makes a whole batch at a time. Workers of all of a node's GPUs share its cores.
BatchLoading batch_loading(const DataLoading& loading, const Node& node, std::int64_t batch) {
  const Seconds alone = static_cast<double>(batch) * loading.sample;
  if (loading.workers == 0) return {.each = alone};
  double busy = loading.workers;
  if (node.cores) busy = std::min(busy, static_cast<double>(*node.cores) / node.gpus);
  const auto ahead = static_cast<std::uint32_t>(loading.workers * loading.prefetch_factor);
  return {.each = alone / busy, .ahead = ahead};
}

/// With what is known of the host, where the scenario says nothing of it.
AnalyticEfficiency efficiency_on(const Node& node, AnalyticEfficiency efficiency) {
  if (!efficiency.host_launch) efficiency.host_launch = node.host_launch;
  return efficiency;
}

/// The costs of one node group's GPU for so many samples, before a measured whole step has its say.
StepCosts costs_at(const Scenario& scenario, std::size_t group, std::int64_t batch) {
  const bool sourced = group < scenario.cost_sources.size() && scenario.cost_sources[group];
  const Node& node = scenario.cluster.groups[group].node;
  const Gpu& gpu = node.gpu;
  const AnalyticEfficiency efficiency = efficiency_on(node, scenario.run.efficiency);
  StepCosts costs = step_costs(computed_model(scenario), gpu, compute_precision(scenario), batch,
                               scenario.optimizer, efficiency,
                               sourced ? &*scenario.cost_sources[group] : nullptr);
  if (!scenario.run.efficiency.host_launch && costs.provenance == Provenance::analytic)
    costs.assumptions.push_back(
        fmt::format("run.efficiency.host_launch = {}", format(efficiency.host_operator())));
  costs.host_rate = host_rate(node);
  if (const auto& loading = scenario.run.data_loading) {
    costs.loading = batch_loading(*loading, node, batch);
    costs.assumptions.push_back(fmt::format("run.data_loading: a batch of {} is ready every {}",
                                            batch, format(costs.loading->each)));
  }
  if (costs.provenance == Provenance::given && !scenario.given_at) {
    costs.outside.push_back(
        fmt::format("compute: times given without measured_at, taken for those of batch {} in {} "
                    "on {}",
                    batch, to_string(compute_precision(scenario)), gpu.name));
  }
  if (!scenario.given_at) return costs;
  return scaled_given(
      std::move(costs), *scenario.given_at,
      {scenario.model, gpu, compute_precision(scenario), batch, scenario.run.efficiency});
}

/// Slows the GPUs down, each by its share of the spread. Servers on CPUs stay as they are.
void spread_speeds(Schedule& schedule, const RunOptions& run) {
  std::vector<RankSpec*> gpus;
  for (RankSpec& rank : schedule.ranks) {
    if (rank.place.gpu >= 0) gpus.push_back(&rank);
  }
  const std::vector<double> slowdowns = spread_slowdowns(run.speed_spread, gpus.size(), run.seed);
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i]->slowdown *= slowdowns[i];
}

/// Builds the schedule; what a strategy finds wrong gets the file's name.
Schedule build_at(const Scenario& scenario, const Job& job) {
  try {
    return build_schedule(scenario.strategy, job);
  } catch (const InputError& wrong) {
    throw InputError(fmt::format("{}: error: strategy: {}", scenario.file, wrong.what()));
  }
}

}  // namespace

std::vector<std::optional<CostSource>> find_cost_sources(const Scenario& scenario,
                                                         const CostChoice& choice,
                                                         ProfileLibrary& library) {
  const CostSubject subject{computed_model(scenario), compute_precision(scenario),
                            scenario.batch_per_gpu, scenario.run.efficiency};
  std::vector<std::optional<CostSource>> sources;
  for (const NodeGroup& group : scenario.cluster.groups) {
    sources.push_back(group.node.gpus > 0 ? cost_source(subject, group.node.gpu, choice, library)
                                          : std::nullopt);
  }
  return sources;
}

std::string to_string(FidelityChoice choice) {
  switch (choice) {
    case FidelityChoice::automatic:
      return "auto";
    case FidelityChoice::hop:
      return "hop";
    case FidelityChoice::flow:
      return "flow";
    case FidelityChoice::folded:
      return "folded";
  }
  return "?";
}

Job job_of(const Scenario& scenario, const Cluster& cluster) {
  return {.model = computed_model(scenario),
          .cluster = cluster,
          .precision = scenario.precision,
          .batch_per_gpu = scenario.batch_per_gpu,
          .optimizer = scenario.optimizer,
          .costs = group_costs(scenario),
          .checkpointed = scenario.trains ? scenario.checkpointed : std::vector<bool>(),
          .stops_early = stops_early(scenario),
          .offloads_activations = scenario.trains && scenario.offloads_activations,
          .set_to_none = scenario.run.set_to_none,
          .trains = scenario.trains,
          .device = device_of(scenario)};
}

Scenario read_scenario(const std::filesystem::path& file,
                       const std::vector<std::string>& overrides) {
  const auto document = Document::load(file);
  return read_scenario(overrides.empty() ? *document : *document->with_overrides(overrides));
}

bool stops_early(const Scenario& scenario) {
  const auto* fsdp = sync_in<TorchFsdp1>(scenario.strategy);
  return scenario.early_stop && (fsdp == nullptr || !fsdp->reentrant_checkpoints);
}

const Model& computed_model(const Scenario& scenario) {
  return scenario.share ? *scenario.share : scenario.model;
}

std::optional<double> training_samples(const Scenario& scenario, double per_iteration) {
  const Train& train = scenario.train;
  if (train.steps)
    return static_cast<double>(*train.steps) * per_iteration / local_steps(scenario.strategy);
  if (!train.samples_per_epoch || !train.epochs) return std::nullopt;
  return static_cast<double>(*train.samples_per_epoch) * *train.epochs;
}

Precision compute_precision(const Scenario& scenario) {
  return computes_in(scenario.strategy, scenario.precision);
}

TapeDevice device_of(const Scenario& scenario) {
  if (scenario.device) return *scenario.device;
  const bool cpu = std::ranges::any_of(scenario.cost_sources,
                                       [](const auto& source) {
                                         return source && source->profile->origin.cuda == "none";
                                       }) ||
                   std::ranges::any_of(scenario.cluster.groups, [](const NodeGroup& group) {
                     const auto& curves = group.node.gpu.curves;
                     return curves && curves->device && curves->device->cpu;
                   });
  return cpu ? TapeDevice::cpu : TapeDevice::cuda;
}

std::vector<StepCosts> group_costs(const Scenario& scenario) {
  std::vector<StepCosts> costs;
  for (std::size_t g = 0; g < scenario.cluster.groups.size(); ++g) {
    if (scenario.cluster.groups[g].node.gpus == 0) {
      costs.emplace_back();
      continue;
    }
    costs.push_back(costs_at(scenario, g, scenario.batch_per_gpu));
    if (scenario.whole_step) {
      costs.back() =
          scaled_to(std::move(costs.back()), costs_at(scenario, g, scenario.whole_step->batch),
                    *scenario.whole_step, scenario.checkpointed);
    }
  }
  return costs;
}

Schedule make_schedule(const Scenario& scenario) {
  const Job job = job_of(scenario, scenario.cluster);
  Schedule schedule = build_at(scenario, job);
  const RunOptions& run = scenario.run;
  schedule.iterations = run.steps + run.warmup_steps;
  schedule.jitter = run.jitter;
  schedule.interruptions = run.interruptions;
  if (const auto& busy = scenario.cluster.busy_cores) {
    schedule.jitter.least_spread = busy->spread;
    schedule.jitter.drift = busy->drift;
  }
  schedule.seed = run.seed;
  schedule.overlap_slowdown = run.overlap_slowdown;
  schedule.channels_slow_compute = run.channels_slow_compute;
  for (const Straggler& straggler : run.stragglers) {
    schedule.ranks.at(straggler.rank).slowdown *= straggler.slowdown;
    schedule.ranks.at(straggler.rank).delay = straggler.delay;
  }
  if (run.speed_spread > 0) spread_speeds(schedule, run);
  leave_out_hosts_ahead(schedule);
  return schedule;
}

}  // namespace rehearse::inline scenario
