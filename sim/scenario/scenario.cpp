#include "scenario/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "config/mistakes.hpp"
#include "scenario/file_kind.hpp"
#include "scenario/sections.hpp"
#include "scenario/speed_spread.hpp"
#include "strategy/server_host.hpp"

namespace rehearse {
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

void check_fsdp(Map& options, const Fsdp& fsdp, const Cluster& cluster) {
  if (fsdp.shard_group == 0) return;
  const std::size_t ranks = cluster.gpu_count();
  if (ranks % static_cast<std::size_t>(fsdp.shard_group) == 0) return;
  options.require("shard_group")
      .fail(fmt::format("{} ranks do not divide into groups of {}", ranks, fsdp.shard_group));
}

/// Autocast and param_dtype are of one 16-bit type, and what was measured is of the precision that
/// units compute in.
void check_mixed_precision(Map& options, const Fsdp& fsdp, const CostChoice& choice,
                           const Scenario& scenario) {
  if (!fsdp.param_dtype || scenario.model.units.empty()) return;
  const Precision computes = computes_in(fsdp, scenario.precision);
  const bool autocast_fp16 = scenario.precision == Precision::fp16;
  const bool computes_fp16 = computes == Precision::fp16_pure_autocast || computes == Precision::fp16;
  if (is_autocast(computes) && autocast_fp16 != computes_fp16) {
    options.require("param_dtype")
        .fail(fmt::format("model.precision: {} is autocast in another 16-bit type",
                          to_string(scenario.precision)),
              autocast_fp16 ? "param_dtype: fp16" : "param_dtype: bf16");
  }
  const bool measured = choice.profile || !choice.transfer_from.empty();
  if (measured && computes != computed_in(scenario.precision)) {
    options.require("param_dtype")
        .fail(fmt::format("the model's costs were measured in {}; with this its units compute in {}",
                          to_string(computed_in(scenario.precision)), to_string(computes)),
              "leave it out, or take computed costs of a built-in network by model.costs: analytic");
  }
}

void check_parameter_server(Map& options, const ParameterServer& ps, const Cluster& cluster) {
  const std::size_t workers = worker_count(ps, cluster);
  if (static_cast<std::size_t>(ps.backup_workers) >= workers) {
    options.require("backup_workers")
        .fail(fmt::format("{} of {} workers as backup leave none whose gradients count",
                          ps.backup_workers, workers));
  }
  if (static_cast<std::size_t>(ps.sampled_workers) > workers) {
    options.require("sampled_workers")
        .fail(fmt::format("the cluster has {} workers", workers),
              fmt::format("at most {}", workers));
  }
  if (ps.server_host.empty() || ps.server_host == "worker") return;
  std::vector<std::string> names = {"worker"};
  for (const NodeGroup& group : cluster.groups) {
    if (!group.name.empty()) names.push_back(group.name);
  }
  options.require("server_host").as_choice(names);
}

std::shared_ptr<const CommProfile> load_comm_profile(const Cluster& cluster) {
  if (cluster.comm_profile.empty()) return nullptr;
  CommProfile profile = read_comm_profile(Document::load(cluster.comm_profile)->root());
  profile.links_assumed = !profile.links;
  if (!profile.links && cluster.gpu_count() > 0) profile.links = links_of(cluster);
  return std::make_shared<const CommProfile>(std::move(profile));
}

/// A measured whole step tells about the GPU that it was measured on, and no GPU computes faster
/// than its peak.
void check_whole_step(const Value& model, const Scenario& scenario) {
  const NodeGroup* first = nullptr;
  const Value place = model.as_map().at_key("measured");
  for (const NodeGroup& group : scenario.cluster.groups) {
    if (group.node.gpus == 0) continue;
    if (first == nullptr) first = &group;
    if (group.node.gpu.name == first->node.gpu.name) continue;
    place.fail(fmt::format("measured on which GPU? The cluster has {} and {}",
                           first->node.gpu.name, group.node.gpu.name),
               "take a cluster of one kind of GPU, or leave it out");
  }
  const WholeStep& measured = *scenario.whole_step;
  const auto asked = asked_of_peak(measured, scenario.model, first->node.gpu, scenario.precision,
                                   scenario.checkpointed);
  if (!asked || asked->least <= asked->peak) return;
  place.fail(
      fmt::format("{:.6g} samples/s of {} on {} {} are {} a GPU, {:.0f} % of its {} peak of {}",
                  measured.samples_per_s, scenario.model.name, measured.gpus,
                  first->node.gpu.name, format(asked->asked), 100 * (asked->asked / asked->peak),
                  to_string(scenario.precision), format(asked->peak)),
      "check model, sequence or image, precision and GPU; of several GPUs' figure say how many: "
      "`gpus: 8`");
}

bool has_given_times(const Model& model) {
  return std::ranges::any_of(model.units,
                             [](const Unit& unit) { return unit.forward.has_value(); });
}

/// Times without `measured_at` hold for the batch, precision and GPU beside which they were
/// written. What comes from elsewhere (--set, a study's axis) makes them another question.
void check_given_times(const Value& model, const Value& cluster) {
  Map map = model.as_map();
  const std::string written = map.require("units").file();
  const auto refuse = [&](Map& section, const char* key) {
    if (!section.has(key) || section.require(key).file() == written) return;
    section.require(key).fail(
        "the times of model.units hold for the batch, precision and GPU of their own file",
        "say what they were measured at, for example `measured_at: {batch_per_gpu: 4, gpu: A10G}` "
        "in the model, and they are scaled");
  };
  for (const char* key : {"batch_per_gpu", "precision"}) refuse(map, key);
  if (!cluster.is_map()) return;
  Map machines = cluster.as_map();
  refuse(machines, "use");
  if (!machines.has("node") || !machines.require("node").is_map()) return;
  Map node = machines.require("node").as_map();
  refuse(node, "gpu");
}

/// The costs of one node group's GPU for so many samples, before a measured whole step has its say.
StepCosts costs_at(const Scenario& scenario, std::size_t group, std::int64_t batch) {
  const bool sourced = group < scenario.cost_sources.size() && scenario.cost_sources[group];
  const Gpu& gpu = scenario.cluster.groups[group].node.gpu;
  StepCosts costs = step_costs(scenario.model, gpu, compute_precision(scenario), batch, scenario.optimizer,
                               scenario.run.efficiency,
                               sourced ? &*scenario.cost_sources[group] : nullptr);
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
  const CostSubject subject{scenario.model, compute_precision(scenario), scenario.batch_per_gpu,
                            scenario.run.efficiency};
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

void check_strategy_section(const Value& value, const CostChoice& choice,
                            const Scenario& scenario) {
  Map named = value.as_map();
  Map options = named.require(named.keys().front()).as_map();
  if (const auto* fsdp = std::get_if<Fsdp>(&scenario.strategy)) {
    check_fsdp(options, *fsdp, scenario.cluster);
    check_mixed_precision(options, *fsdp, choice, scenario);
  }
  if (const auto* ps = std::get_if<ParameterServer>(&scenario.strategy)) {
    check_parameter_server(options, *ps, scenario.cluster);
  }
}

namespace {

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
  const bool has_model = read_part([&] {
    choice = read_model_section(model, scenario, library);
    scenario.whole_step = choice.whole_step;
    scenario.given_at = choice.given_at;
  });
  const Value cluster = root.require("cluster");
  const std::optional<Value> shared = root.optional("jobs");
  std::optional<JobsSection> jobs;
  const bool has_cluster = read_part([&] {
    scenario.cluster = read_cluster(cluster);
    if (shared) jobs.emplace(*shared, scenario);
    scenario.comm = load_comm_profile(scenario.cluster);
    if (scenario.cluster.gpu_count() == 0) cluster.fail("a cluster without a GPU trains nothing");
    if (scenario.whole_step) check_whole_step(model, scenario);
    if (has_given_times(scenario.model) && !model.as_map().has("measured_at"))
      check_given_times(model, cluster);
  });
  const Value strategy = root.require("strategy");
  const bool has_strategy = read_part([&] { scenario.strategy = read_strategy(strategy); });
  if (has_strategy && has_cluster) {
    read_part([&] { check_strategy_section(strategy, choice, scenario); });
  }
  if (!root.has("optimizer")) scenario.assumptions.push_back("optimizer = sgd");
  read_part([&] {
    scenario.optimizer =
        read_optimizer_section(section_or_empty(root, empty, "optimizer"), scenario.precision);
    for (std::string& line : numeric_formats(scenario))
      scenario.assumptions.push_back(std::move(line));
  });
  const bool has_train = read_part(
      [&] { scenario.train = read_train_section(section_or_empty(root, empty, "train")); });
  const std::size_t ranks = has_cluster ? scenario.cluster.gpu_count() : kMostRanks;
  read_part(
      [&] {
        scenario.run = read_run_section(section_or_empty(root, empty, "run"), ranks,
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
  read_part([&] { read_economy_sections(root, scenario); },
            has_model && has_cluster && has_strategy && has_train);
  read_part([&] {
    if (const auto convergence = root.optional("convergence"))
      scenario.convergence = read_convergence_section(*convergence);
  });
  root.finish();
  const Mistakes* const mistakes = Mistakes::current();
  if (mistakes != nullptr && mistakes->events() > before) return scenario;
  scenario.cost_sources = find_cost_sources(scenario, choice, library);
  take_usual_fleet(scenario);
  check_replications(document, scenario.run);
  if (jobs) jobs->read_others(scenario, choice, strategy, library);
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

Precision compute_precision(const Scenario& scenario) {
  return computes_in(scenario.strategy, scenario.precision);
}

TapeDevice device_of(const Scenario& scenario) {
  if (scenario.device) return *scenario.device;
  const bool cpu = std::ranges::any_of(scenario.cost_sources, [](const auto& source) {
    return source && source->profile->origin.cuda == "none";
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
  const Job job{.model = scenario.model,
                .cluster = scenario.cluster,
                .precision = scenario.precision,
                .batch_per_gpu = scenario.batch_per_gpu,
                .optimizer = scenario.optimizer,
                .costs = group_costs(scenario),
                .checkpointed = scenario.checkpointed,
                .set_to_none = scenario.run.set_to_none,
                .device = device_of(scenario)};
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
  for (const Straggler& straggler : run.stragglers) {
    schedule.ranks.at(straggler.rank).slowdown *= straggler.slowdown;
    schedule.ranks.at(straggler.rank).delay = straggler.delay;
  }
  if (run.speed_spread > 0) spread_speeds(schedule, run);
  return schedule;
}

}  // namespace rehearse
