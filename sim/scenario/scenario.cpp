#include "scenario/scenario.hpp"
#include "scenario/named_network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "collective/collective_cost.hpp"
#include "config/mistakes.hpp"
#include "kernels/kernel_curves.hpp"
#include "model/adaptation.hpp"
#include "scenario/file_kind.hpp"
#include "scenario/sections.hpp"
#include "scenario/speed_spread.hpp"
#include "scenario/token_keys.hpp"

namespace rehearse::inline scenario {
namespace {

/// Of a cluster that could not be read.
constexpr std::size_t kMostRanks = 1'000'000;

/// The value of a section that may be missing: then the one of a file in which it stands empty, so
/// that its defaults are recorded like any others.
Value section_or_empty(Map& root, Map& empty, const std::string& key) {
  const std::optional<Value> value = root.optional(key);
  return value ? *value : empty.require(key);
}

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

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

/// The costs of one node group's GPU for so many samples, before a measured whole step has its say.
StepCosts costs_at(const Scenario& scenario, std::size_t group, std::int64_t batch) {
  const bool sourced = group < scenario.cost_sources.size() && scenario.cost_sources[group];
  const Gpu& gpu = scenario.cluster.groups[group].node.gpu;
  StepCosts costs = step_costs(computed_model(scenario), gpu, compute_precision(scenario), batch,
                               scenario.optimizer, scenario.run.efficiency,
                               sourced ? &*scenario.cost_sources[group] : nullptr);
  const Node& node = scenario.cluster.groups[group].node;
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

/// GPUs that are trained on side by side. Not those of no real kind, and no cores of a CPU: what
/// these differ by is measured with them.
bool is_fleet(const Scenario& scenario) {
  const Cluster& cluster = scenario.cluster;
  const bool on_sockets = scenario.comm && scenario.comm->transport;
  return cluster.gpu_count() > 1 && !cluster.shared_cores && !on_sockets &&
         device_of(scenario) == TapeDevice::cuda &&
         std::ranges::all_of(cluster.groups, [](const NodeGroup& group) {
           return group.node.gpus == 0 || group.node.gpu.name != "generic";
         });
}

/// What nothing is said of.
void take_usual_fleet(Scenario& scenario) {
  RunOptions& run = scenario.run;
  const bool fleet = is_fleet(scenario);
  if (run.usual_spread && fleet) {
    run.speed_spread = kUsualFleet.speed_spread;
    scenario.assumptions.push_back(fmt::format("run.speed_spread = {:g}", run.speed_spread));
  }
  if (run.usual_jitter && fleet) {
    run.jitter = {.distribution = Jitter::Distribution::lognormal, .cv = kUsualFleet.jitter};
    scenario.assumptions.push_back(
        fmt::format("run.jitter = {{lognormal: {{cv: {:g}}}}}", run.jitter.cv));
  } else if (run.usual_jitter) {
    scenario.assumptions.emplace_back("run.jitter = none");
  }
  run.usual_spread = run.usual_spread && fleet;
  run.usual_jitter = run.usual_jitter && fleet;
}

/// Spread and drift of busy cores are measured jitter.
void say_unused_spread(Scenario& scenario) {
  const auto& busy = scenario.cluster.busy_cores;
  const bool varies = busy && (busy->spread > 0 || busy->drift > 0);
  if (varies && scenario.run.jitter.distribution != Jitter::Distribution::measured)
    scenario.assumptions.emplace_back(
        "cluster.busy_cores: spread and drift count with run.jitter: measured alone");
}

void check_replications(const Document& document, const RunOptions& run) {
  if (!run.replications.several() || run.jitter.distribution != Jitter::Distribution::none) return;
  Map run_section = document.root().as_map().require("run").as_map();
  run_section.require("replications")
      .fail("without jitter every run is the same", "add run.jitter, or leave this out");
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

namespace {

Job job_of(const Scenario& scenario, const Cluster& cluster) {
  return {.model = computed_model(scenario),
          .cluster = cluster,
          .precision = scenario.precision,
          .batch_per_gpu = scenario.batch_per_gpu,
          .optimizer = scenario.optimizer,
          .costs = group_costs(scenario),
          .checkpointed = scenario.checkpointed,
          .offloads_activations = scenario.offloads_activations,
          .set_to_none = scenario.run.set_to_none,
          .device = device_of(scenario)};
}

/// Once costs are known.
void balance_stages(const Value& strategy, Scenario& scenario) {
  const auto* layout = layout_in(scenario.strategy);
  if (layout == nullptr || layout->balance == Layout::Balance::none) return;
  const Cluster cluster = layout_cluster(scenario.strategy, scenario.cluster);
  Job job = job_of(scenario, cluster);
  if (const auto* local = local_sgd_in(scenario.strategy)) {
    std::vector<StepCosts> costs;
    for (const std::size_t group : groups_of_replica(*local, scenario.cluster))
      costs.push_back(job.costs[group]);
    job.costs = std::move(costs);
  }
  apply_balance(strategy, job, scenario);
  apply_recomputed_layers(scenario);
}

Scenario read_whole(const Document& document) {
  Map root = document.root().as_map();
  check_kind(root, FileKind::scenario);
  const auto defaults = Document::parse("{optimizer: {sgd: {}}, train: {}, run: {}}", "defaults");
  Map empty = defaults->root().as_map();

  const std::size_t before = Mistakes::current() == nullptr ? 0 : Mistakes::current()->events();
  Scenario scenario;
  scenario.file = document.name();
  if (const auto description = root.optional("description")) {
    scenario.description = description->as_string();
  }
  ProfileLibrary library;
  const Value model = root.require("model");
  CostChoice choice;
  Map said = root;
  std::optional<Framework> framework;
  const bool has_framework = read_part([&] {
    framework = read_framework(root, said.optional("strategy"));
    framework->check(root);
  });
  if (!framework) framework = Framework::of_strategy(std::nullopt);
  const bool has_model = read_part([&] {
    choice = read_model_section(model, *framework, scenario, library);
    scenario.whole_step = choice.whole_step;
    scenario.given_at = choice.given_at;
  });
  const Value cluster = root.require("cluster");
  const std::optional<Value> shared = root.optional("jobs");
  std::optional<JobsSection> jobs;
  const bool has_cluster = read_part([&] {
    const SoundPart nodes;
    scenario.cluster = read_cluster(cluster);
    nodes.check();
    if (shared) jobs.emplace(*shared, scenario);
    scenario.comm = load_comm_profile(scenario.cluster);
    if (scenario.cluster.gpu_count() == 0) cluster.fail("a cluster without a GPU trains nothing");
  });
  const bool has_machine = has_model && has_cluster;
  check_parts(has_machine, [&] {
    if (scenario.whole_step) check_whole_step(model, scenario);
    if (has_given_times(scenario.model) && !model.as_map().has("measured_at"))
      check_given_times(model, cluster);
  });
  check_parts(has_machine, [&] { check_narrow(model, scenario); });
  check_parts(has_machine, [&] { check_attention(model, scenario); });
  const Value strategy = root.require("strategy");
  const bool has_strategy =
      read_part([&] { scenario.strategy = read_strategy(strategy, *framework); }, has_framework);
  check_parts(has_strategy && has_cluster,
              [&] { check_strategy_section(strategy, choice, scenario); });
  if (!root.has("optimizer")) scenario.assumptions.push_back("optimizer = sgd");
  const bool has_optimizer = read_part(
      [&] {
        scenario.optimizer = read_optimizer_section(section_or_empty(root, empty, "optimizer"),
                                                    *framework, scenario.precision);
      },
      has_framework);
  check_parts(has_machine && has_strategy && has_optimizer, [&] {
    for (std::string& line : numeric_formats(scenario))
      scenario.assumptions.push_back(std::move(line));
  });
  const bool has_train = read_part(
      [&] { scenario.train = read_train_section(section_or_empty(root, empty, "train")); });
  const bool has_all = has_model && has_cluster && has_strategy && has_train;
  check_parts(has_all, [&] {
    apply_micro_batch_size(strategy, scenario);
    if (root.has("train")) {
      const Value train = root.require("train");
      apply_tokens(train, scenario);
      apply_global_batch(train, strategy, scenario);
    }
    if (const auto* fsdp = fsdp_in(scenario.strategy); fsdp && fsdp->param_dtype)
      compute_adapters_in_16_bits(scenario.model);
    apply_layout(strategy, *framework, scenario);
    check_packing(model, scenario);
    apply_recomputed_layers(scenario);
    check_activation_offload(model, scenario);
    if (has_optimizer && root.has("optimizer"))
      check_optimizer(root.require("optimizer"), scenario);
    if (has_optimizer) apply_clipping(*framework, scenario);
    apply_grad_scaler(scenario);
  });
  const std::size_t ranks = has_cluster ? scenario.cluster.gpu_count() : kMostRanks;
  read_part(
      [&] {
        scenario.run = read_run_section(section_or_empty(root, empty, "run"), ranks, *framework,
                                        scenario.comm.get());
      },
      has_cluster);
  read_part([&] {
    if (const auto memory = root.optional("memory")) {
      read_memory_section(*memory, scenario);
    } else {
      scenario.assumptions.emplace_back("memory.allocator = PyTorch's defaults");
    }
  });
  read_part([&] { read_economy_sections(root, scenario); }, has_all);
  read_part([&] {
    if (const auto convergence = root.optional("convergence"))
      scenario.convergence = read_convergence_section(*convergence, has_all ? &scenario : nullptr);
  });
  root.finish();
  const Mistakes* const mistakes = Mistakes::current();
  if (mistakes != nullptr && mistakes->events() > before) return scenario;
  scenario.framework = framework->choice();
  scenario.cost_sources = find_cost_sources(scenario, choice, library);
  balance_stages(strategy, scenario);
  take_usual_fleet(scenario);
  say_unused_spread(scenario);
  check_replications(document, scenario.run);
  if (jobs) jobs->read_others(scenario, choice, strategy, *framework, library);
  append(scenario.assumptions, document.defaults_taken());
  append(scenario.assumptions, defaults->defaults_taken());
  return scenario;
}

}  // namespace

Scenario read_scenario(const Document& document) {
  return read_with_all_mistakes([&] { return read_whole(document); });
}

Scenario read_scenario(const std::filesystem::path& file,
                       const std::vector<std::string>& overrides) {
  const auto document = Document::load(file);
  return read_scenario(overrides.empty() ? *document : *document->with_overrides(overrides));
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
  return schedule;
}

}  // namespace rehearse::inline scenario
