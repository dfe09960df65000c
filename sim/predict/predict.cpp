#include "predict/predict.hpp"
#include "predict/blocking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "engine/engine.hpp"
#include "model/captured/captured.hpp"
#include "predict/communication_facts.hpp"
#include "predict/fewer_nodes.hpp"
#include "predict/headline_run.hpp"
#include "predict/intervals/error_sources.hpp"
#include "predict/intervals/mechanisms.hpp"
#include "predict/intervals/memory_mechanisms.hpp"
#include "predict/largest_batch.hpp"
#include "predict/measured_job.hpp"
#include "predict/replications.hpp"
#include "predict/synchronous_part.hpp"
#include "report/anatomy.hpp"
#include "report/compute_grounds.hpp"
#include "report/measures.hpp"
#include "report/run_facts.hpp"
#include "report/steady_state.hpp"
#include "strategy/server/server_host.hpp"

namespace rehearse::inline prediction {
namespace {

/// Ranks from which `auto` folds, operations of a step on all of them, and pairs of workers and
/// servers.
constexpr std::size_t kFoldAbove = 64, kFoldOpsAbove = 1'000'000, kFoldPairsAbove = 128;

/// Whether to play all ranks takes more than seconds.
bool is_large(const Schedule& schedule) {
  std::size_t ops = 0;
  for (const RankSpec& rank : schedule.ranks)
    ops += schedule.programs[rank.program.index()].ops.size();
  return schedule.ranks.size() > kFoldAbove || ops > kFoldOpsAbove;
}

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

/// Where the compute costs of every kind of GPU come from, and what they rest on.
std::string add_compute_facts(const std::vector<StepCosts>& all, RunFacts& facts) {
  std::vector<std::string> origins;
  for (const StepCosts& costs : all) {
    if (costs.units.empty()) continue;  // a node without GPUs
    add_once(origins, costs.origin);
    for (const std::string& reason : costs.outside) add_once(facts.outside_calibration, reason);
    for (const std::string& line : costs.assumptions) add_once(facts.assumptions, line);
  }
  return fmt::format("compute: {}", fmt::join(origins, ", "));
}

/// What compute and collectives are taken to do to each other, where that was measured.
std::string overlap_line(const Scenario& scenario) {
  if (scenario.run.overlap_slowdown || !scenario.comm || scenario.comm->overlap.empty()) return "";
  std::vector<std::string> measured;
  for (const CommOverlap& one : scenario.comm->overlap) {
    measured.push_back(fmt::format("{:.4g} and {:.4g} for {} of {}", one.compute_slowdown,
                                   one.comm_slowdown, to_string(one.kind), format(one.size)));
  }
  return fmt::format(
      "run.overlap_slowdown = measured ({}): compute beside a collective, and the collective, take "
      "so many times as long: {}",
      scenario.comm->name, fmt::join(measured, ", "));
}

/// Datasheets add up both directions of NVLink, and node.nvlink is one of them.
void doubt_nvlinks(const Cluster& cluster, std::vector<std::string>& outside) {
  constexpr double kMore = 1.05;
  for (const NodeGroup& group : cluster.groups) {
    const BytesPerSecond own = group.node.gpu.nvlink;
    if (!group.node.nvlink || own <= BytesPerSecond(0)) continue;
    if (group.node.nvlink->bandwidth <= kMore * own) continue;
    add_once(outside,
             fmt::format("links: node.nvlink of {} is more than the {} that an {} sends; "
                         "datasheets add up both directions",
                         format(group.node.nvlink->bandwidth), format(own), group.node.gpu.name));
  }
}

/// Older GPUs have no unit for bf16: libraries turn it to fp32 and back, so that products take
/// fp32's time at least (pytorch torch/cuda/__init__.py: is_bf16_supported, emulated).
void doubt_emulation(const Scenario& scenario, std::vector<std::string>& outside) {
  if (!is_bf16(compute_precision(scenario))) return;
  for (const NodeGroup& group : scenario.cluster.groups) {
    const Gpu& gpu = group.node.gpu;
    if (group.node.gpus == 0 || gpu.bf16 > FlopsPerSecond(0) || gpu.fp16 <= FlopsPerSecond(0))
      continue;
    add_once(outside, fmt::format("precision: {} has no unit for bf16, which is emulated: products "
                                  "take fp32's time; fp16 is its own",
                                  gpu.name));
  }
}

/// What NCCL's channels take from compute beside them, at most.
std::string channels_line(const Scenario& scenario, const std::vector<CollectiveAnswer>& answers) {
  if (!scenario.run.channels_slow_compute) return "";
  const auto most = std::ranges::max_element(
      answers, {}, [](const CollectiveAnswer& one) { return one.cost.compute_slowdown; });
  if (most == answers.end() || most->cost.compute_slowdown == 1)
    return "run.overlap_slowdown = channels: 1, as neither NCCL's channels nor multiprocessors of "
           "a "
           "GPU are known";
  return fmt::format(
      "run.overlap_slowdown = channels: NCCL takes up to {} multiprocessors, so that compute "
      "beside "
      "it takes up to {:.3g} times as long",
      most->cost.channels, most->cost.compute_slowdown);
}

/// Whether some operation has a spread to draw from.
bool has_spread(const Schedule& schedule) {
  return schedule.jitter.least_spread > 0 || schedule.jitter.drift > 0 ||
         std::ranges::any_of(schedule.programs, [](const Program& program) {
           return std::ranges::any_of(program.ops, [](const Op& op) {
             const auto* compute = std::get_if<Compute>(&op.work);
             return compute != nullptr && compute->spread > 0;
           });
         });
}

bool batch_may_vary(const Model& model) {
  if (model.captured && model.captured->batch > 0) return false;
  return std::none_of(model.units.begin(), model.units.end(), [](const Unit& unit) {
    return unit.forward || unit.backward || unit.activation;
  });
}

/// What parameter servers reach where nobody says it, and what is left out where nobody does.
void add_server_facts(const Scenario& scenario, RunFacts& facts) {
  const auto* server = server_in(scenario.strategy);
  if (server == nullptr) return;
  for (const std::string& rate :
       derived_rates(*server, scenario.cluster, scenario.optimizer, scenario.precision)) {
    facts.assumptions.push_back("strategy.ps.apply_rate = " + rate);
    facts.outside_calibration.insert(facts.outside_calibration.begin(),
                                     "server: apply rate from its host alone, " + rate);
  }
  if (!server->worker_cpu_rate && !server->server_cpu_rate)
    facts.assumptions.emplace_back(
        "strategy.ps.worker_cpu_rate, server_cpu_rate = none: messages take no time of CPUs");
  const auto say = [&](const char* key, BytesPerSecond rate) {
    facts.assumptions.push_back(
        fmt::format("strategy.ps.{} = {} ({} to {}), as of servers between nodes", key,
                    format(rate), format(rate * std::exp(-server->messages_error)),
                    format(rate * std::exp(server->messages_error))));
  };
  if (server->usual_worker_cpu) say("worker_cpu_rate", *server->worker_cpu_rate);
  if (server->usual_server_cpu) say("server_cpu_rate", *server->server_cpu_rate);
}

RunFacts gather_facts(const Scenario& scenario, const Machine& machine,
                      const std::vector<StepCosts>& costs, const Trace& trace,
                      const std::vector<CollectiveAnswer>& answers) {
  RunFacts facts{.scenario = scenario,
                 .schedule = machine.schedule,
                 .trace = trace,
                 .fidelity = machine.fidelity_name,
                 .provenance = "",
                 .assumptions = scenario.assumptions,
                 .outside_calibration = {},
                 .schedule_at_batch = schedule_at_batch(scenario),
                 .versions = {{"simgrid", simgrid_version()}}};
  facts.provenance = fmt::format("{}; communication: {}", add_compute_facts(costs, facts),
                                 communication_basis(scenario, answers));
  if (communicates(machine.schedule)) {
    for (const std::string& reason : communication_outside(scenario, answers))
      add_once(facts.outside_calibration, reason);
  }
  doubt_nvlinks(scenario.cluster, facts.outside_calibration);
  doubt_emulation(scenario, facts.outside_calibration);
  facts.collectives = collective_reports(answers);
  facts.compute = compute_reports(scenario, machine.schedule, costs);
  add_server_facts(scenario, facts);
  if (machine.schedule.jitter.distribution == Jitter::Distribution::measured &&
      !has_spread(machine.schedule)) {
    add_once(facts.outside_calibration,
             "jitter: no spread of any operation was measured, and none is drawn");
  }
  if (const std::string line = overlap_line(scenario); !line.empty()) {
    facts.assumptions.push_back(line);
  }
  if (const std::string line = channels_line(scenario, answers); !line.empty())
    facts.assumptions.push_back(line);
  for (const std::string& setting : simgrid_settings()) {
    facts.assumptions.push_back("SimGrid " + setting);
  }
  return facts;
}

}  // namespace

std::function<Schedule(std::int64_t batch)> schedule_at_batch(const Scenario& scenario) {
  if (!batch_may_vary(scenario.model)) return {};
  return [scenario](std::int64_t batch) {
    Scenario other = scenario;
    other.batch_per_gpu = batch;
    return make_schedule(other);
  };
}

namespace {

OtherJobs other_jobs(const SharedCluster& shared) {
  OtherJobs all{shared.cluster, shared.nodes, {}};
  for (const OtherJob& other : shared.others) {
    all.jobs.push_back({make_schedule(other.scenario), other.nodes});
    validate(all.jobs.back().schedule);
    if (!takes_time(all.jobs.back().schedule))
      throw InputError(
          fmt::format("{}: error: jobs.others: a step of job {} takes less than a microsecond",
                      other.scenario.file, all.jobs.size()));
  }
  return all;
}

/// Simulates in this process, which cannot simulate again.
Headline headline_alone(const Scenario& scenario, const Machine& machine) {
  Machine alone = machine;
  alone.others.emplace(OtherJobs{machine.others->cluster, machine.others->nodes, {}});
  return simulated_headline(scenario, alone);
}

[[noreturn]] void refuse_to_fold(const Scenario& scenario, const std::string& why_not) {
  throw InputError(
      fmt::format("{}: error: run.fidelity: cannot fold: {}\nremedy: use fidelity: flow",
                  scenario.file, why_not));
}

/// Chunks of a tree or of a chain each pay their latencies at hop fidelity, and wait for those of
/// others; what is played by rings takes what it takes as flows.
void check_hops(const Scenario& scenario, const std::vector<CollectiveAnswer>& answers) {
  if (scenario.run.fidelity != FidelityChoice::hop) return;
  for (const CollectiveAnswer& one : answers) {
    const bool chain =
        (one.kind == CollectiveKind::broadcast || one.kind == CollectiveKind::reduce) &&
        one.played == CollectiveAlgorithm::ring && one.ranks > 2;
    if (one.played != CollectiveAlgorithm::tree && !chain) continue;
    throw InputError(
        fmt::format("{}: error: run.fidelity: hop is more than 5 % off for {}s of {} by a {}: each "
                    "of its chunks "
                    "pays the latency of its edges\nremedy: use fidelity: flow{}",
                    scenario.file, to_string(one.kind), format(one.size), chain ? "chain" : "tree",
                    chain ? "" : ", or cluster.nccl: {algorithms: [Ring]}"));
  }
}

}  // namespace

std::function<bool(const Trace&)> until_steady(const Scenario& scenario, const Schedule& schedule) {
  const auto* server = server_in(scenario.strategy);
  if (!server || server->staleness == 0U || scenario.run.until == RunUntil::steps) return {};
  return [&schedule, warmup = scenario.run.warmup_steps](const Trace& trace) {
    return is_steady(schedule, trace, warmup);
  };
}

namespace {

/// Whether one server now stands for all: asked for, or where workers and servers are many pairs.
bool fold_servers(const Scenario& scenario, Machine& machine) {
  const auto* server = server_in(scenario.strategy);
  if (server == nullptr || machine.others || !scenario.run.stragglers.empty()) return false;
  const FidelityChoice choice = scenario.run.fidelity;
  const std::size_t pairs =
      worker_count(scenario.strategy, scenario.cluster) * static_cast<std::size_t>(server->servers);
  if (choice != FidelityChoice::folded &&
      (choice != FidelityChoice::automatic || pairs <= kFoldPairsAbove))
    return false;
  const std::optional<OneServer> one = one_for_like_servers(scenario.strategy, scenario.cluster);
  if (!one) return false;
  Scenario few = scenario;
  few.strategy = one->options;
  few.cluster = one->cluster;
  machine.schedule = make_schedule(few);
  validate(machine.schedule);
  machine.cluster = few.cluster;
  machine.fidelity_name = fmt::format("folded (1 of {} servers simulated)", server->servers);
  return true;
}

}  // namespace

Machine machine_of(const Scenario& scenario) {
  check(!scenario.whole_step || scenario.whole_step->gpus == 1, "a scenario that is not solved");
  Machine machine{.schedule = make_schedule(scenario), .cluster = scenario.cluster};
  if (scenario.comm) machine.comm = *scenario.comm;
  machine.play_all = scenario.run.play_all;
  validate(machine.schedule);
  if (scenario.shared) machine.others = other_jobs(*scenario.shared);
  const FidelityChoice choice = scenario.run.fidelity;
  const std::size_t ranks = machine.schedule.ranks.size();
  machine.fidelity = choice == FidelityChoice::hop ? Fidelity::hop : Fidelity::flow;
  machine.fidelity_name = choice == FidelityChoice::hop ? "hop" : "flow";
  const bool asked = choice == FidelityChoice::folded;
  // What hosts do between the steps of a collective shows only where each step is played.
  const bool travels = scenario.comm && scenario.comm->travels(ranks, machine.cluster.node_count());
  if (travels && choice == FidelityChoice::automatic && ranks <= kFoldAbove) {
    machine.fidelity = Fidelity::hop;
    machine.fidelity_name = "hop";
  }
  if (asked && machine.others) refuse_to_fold(scenario, "other jobs share the cluster");
  // A rank that is named would no longer be found.
  if (asked && !scenario.run.stragglers.empty())
    refuse_to_fold(scenario, "stragglers are single ranks");
  if (fold_servers(scenario, machine)) return machine;
  const bool wanted = asked || (choice == FidelityChoice::automatic && is_large(machine.schedule));
  if (!wanted || machine.others || !scenario.run.stragglers.empty()) return machine;

  std::string why_not;
  std::optional<Folded> folded = fold(machine.schedule, machine.cluster, why_not);
  if (folded) {
    machine.fidelity_name =
        fmt::format("folded ({} of {} ranks simulated)", folded->schedule.ranks.size(), ranks);
    machine.schedule = std::move(folded->schedule);
    machine.cluster = std::move(folded->cluster);
  } else if (asked) {
    refuse_to_fold(scenario, why_not);
  }
  return machine;
}

Prediction predict(const Scenario& scenario, const Options& options) {
  const Scenario ready = solved(scenario);
  return predict(ready, machine_of(ready), options);
}

Prediction predict(const Scenario& scenario, Machine machine, const Options& options) {
  Prediction result{
      .machine = std::move(machine), .trace = {}, .answers = {}, .error_sources = {}, .report = {}};
  Schedule& schedule = result.machine.schedule;
  const std::vector<StepCosts> costs = group_costs(scenario);
  const TypicalRun typical = typical_run(scenario, result.machine);
  schedule.seed = typical.seed;
  std::optional<ShiftedRuns> shifted;
  const bool by_mechanism = has_mechanisms(schedule, costs);
  if (options.intervals) shifted.emplace(scenario, result.machine, costs, by_mechanism);
  FewerNodes fewer_nodes(scenario);
  SynchronousPart in_step(scenario);
  LargestBatch largest(scenario, options);
  std::optional<HeadlineRun> alone;
  if (result.machine.others && !result.machine.others->jobs.empty())
    alone.emplace([&] { return headline_alone(scenario, result.machine); });
  result.trace = run(result.machine, {.answers = &result.answers,
                                      .enough = until_steady(scenario, schedule),
                                      .progress = options.progress});
  check_hops(scenario, result.answers);
  const std::size_t own = schedule.groups.size();
  std::erase_if(result.answers, [own](const auto& one) { return one.group.index() >= own; });
  RunFacts facts = gather_facts(scenario, result.machine, costs, result.trace, result.answers);
  facts.memory = options.memory;
  if (largest.sought()) facts.memory->largest_batch_per_gpu = largest.found();
  if (!options.find_largest_batch || largest.sought()) facts.schedule_at_batch = {};
  const Anatomy anatomy = anatomy_of(facts);
  facts.anatomy = &anatomy;
  std::vector<Mechanism> mechanisms;
  if (by_mechanism && shifted) mechanisms = mechanisms_of(scenario, facts, costs);
  if (shifted) {
    result.error_sources = shifted->error_sources(result.trace);
    for (ErrorSource& source : error_sources(mechanisms, headline(facts)))
      result.error_sources.push_back(std::move(source));
    const double computing = anatomy.breakdown.compute / anatomy.step;
    if (auto source = run_queue_source(scenario.cluster, headline(facts), computing,
                                       computing * ready_share(facts).value_or(0)))
      result.error_sources.push_back(std::move(*source));
    facts.error_sources = result.error_sources;
    for (const Mechanism& one : simulated_mechanisms(result.error_sources, mechanisms))
      mechanisms.push_back(one);
    std::ranges::stable_sort(mechanisms, std::ranges::greater{}, &Mechanism::width);
  }
  facts.memory_mechanisms = [&](const MemoryReport& memory) {
    return memory_mechanisms(scenario, costs, memory);
  };
  facts.model_error = model_error(scenario, schedule);
  facts.replications = typical.of;
  facts.replications_error = typical.error;
  facts.speed_without_one = fewer_nodes.speed(facts);
  facts.synchronous_rate = in_step.samples_per_s();
  if (alone) {
    facts.others = &*result.machine.others;
    facts.step_time_alone = alone->result().step_time;
  }
  result.report = summarize(facts);
  say_blocking(scenario, result.report);
  result.report.mechanisms = std::move(mechanisms);
  if (!options.intervals)
    std::erase_if(result.report.intervals, [&](const KeyBounds& one) {
      return !options.memory_interval || !one.key.starts_with("memory.");
    });
  return result;
}

}  // namespace rehearse::inline prediction
