#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.hpp"
#include "base/percentile.hpp"
#include "cost/peak.hpp"
#include "report/anatomy.hpp"
#include "report/basis.hpp"
#include "report/economy.hpp"
#include "report/measures.hpp"
#include "report/paced_updates.hpp"
#include "report/prediction_interval.hpp"
#include "report/run_facts.hpp"
#include "report/update_log.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline report {
namespace {

void add_identity(const Basis& basis, Report& report) {
  const Scenario& scenario = basis.facts.scenario;
  report.scenario = scenario.file;
  report.description = scenario.description;
  report.model = scenario.model.name;
  report.cluster = scenario.cluster.name;
  report.strategy = strategy_name(scenario.strategy);
  report.framework = scenario.framework;
  report.precision = to_string(scenario.precision);
  if (const auto sharded = sharded_in(scenario.strategy); sharded && sharded->param_dtype)
    report.param_dtype = mixed_type_name(*sharded->param_dtype);
  report.architecture = architecture_of(scenario.model);
  report.batch_per_gpu = scenario.batch_per_gpu;
  report.global_batch = static_cast<std::int64_t>(basis.facts.schedule.samples_per_iteration);
  report.ranks = static_cast<std::size_t>(basis.ranks);
  report.nodes = scenario.cluster.node_count();
  report.work = work_of(scenario);
  report.fidelity = basis.facts.fidelity;
  report.seed = basis.facts.schedule.seed;
  report.replications = basis.facts.replications;
  report.replications_error = basis.facts.replications_error;
}

/// With the part that is in step, where updates go stale after it.
Seconds train_time_of(const RunFacts& facts, double samples, double samples_per_s) {
  if (!facts.synchronous_rate) return Seconds(samples / samples_per_s);
  const double share = server_in(facts.scenario.strategy)->switch_share;
  return Seconds(samples * (share / *facts.synchronous_rate + (1 - share) / samples_per_s));
}

void add_times(const Basis& basis, Report& report) {
  const std::vector<std::vector<Seconds>> steps = measured_steps(basis);
  report.step_time = step_time(steps);
  report.samples_per_s = samples_per_s(basis, report.step_time);
  if (basis.asynchronous) {
    report.worker_step_time = report.step_time;
    for (const std::vector<Seconds>& own : steps) report.worker_step_times.push_back(mean_of(own));
  }
  if (basis.parameter_server) report.step_time = batch_time(basis, report.samples_per_s);
  std::vector<Seconds> all;
  for (const std::vector<Seconds>& own : steps) all.insert(all.end(), own.begin(), own.end());
  report.step_time_spread = {percentile(all, 0.05), percentile(all, 0.95)};
  const Scenario& scenario = basis.facts.scenario;
  if (const auto samples = scenario.train.samples_per_epoch)
    report.epoch_time = Seconds(static_cast<double>(*samples) / report.samples_per_s);
  if (const auto samples = training_samples(scenario, basis.facts.schedule.samples_per_iteration))
    report.train_time = train_time_of(basis.facts, *samples, report.samples_per_s);
}

void add_steady_state(const Basis& basis, Report& report) {
  if (!basis.steady) return;
  const SteadyState& state = *basis.steady;
  report.steady = SteadyReport{.reached = state.reached,
                               .begin = state.begin,
                               .end = state.end,
                               .slowest = state.slowest,
                               .throughput_error = state.rate_error,
                               .staleness_error = state.staleness_error};
}

/// Of the ranks with a GPU, as a server's have no steps of their own; `ends` by rank.
void add_pace(const Schedule& schedule, std::span<const std::vector<Seconds>> ends,
              OtherJobReport& job) {
  job.steps = std::numeric_limits<std::size_t>::max();
  double sum = 0;
  std::size_t ranks = 0;
  for (std::size_t r = 0; r < ends.size(); ++r) {
    if (schedule.ranks[r].place.gpu < 0) continue;
    job.steps = std::min(job.steps, ends[r].size());
    if (job.steps < 2) continue;
    sum += (ends[r].back() - ends[r].front()).value() / static_cast<double>(ends[r].size() - 1);
    ++ranks;
  }
  if (job.steps >= 2) job.step_time = Seconds(sum / static_cast<double>(ranks));
}

void add_other_jobs(const RunFacts& facts, Report& report) {
  if (!facts.others) return;
  report.step_time_alone = facts.step_time_alone;
  std::span<const std::vector<Seconds>> ends = facts.trace.others_iteration_end;
  for (std::size_t j = 0; j < facts.others->jobs.size(); ++j) {
    const OtherJobs::Job& job = facts.others->jobs[j];
    const Scenario& scenario = facts.scenario.shared->others.at(j).scenario;
    OtherJobReport other{scenario.model.name, strategy_name(scenario.strategy), {}, {}, {}};
    for (const NodeId node : job.nodes) other.nodes.push_back(node.index());
    add_pace(job.schedule, ends.first(job.schedule.ranks.size()), other);
    ends = ends.subspan(job.schedule.ranks.size());
    report.other_jobs.push_back(std::move(other));
  }
}

/// How long threads wait for cores: of the computing that the breakdown has.
std::optional<CoresReport> cores_report(const RunFacts& facts, Seconds compute) {
  const Cluster& cluster = facts.scenario.cluster;
  const std::optional<Cluster::CoreLoad> load = cluster.core_load();
  if (!load) return std::nullopt;
  CoresReport cores{.threads = load->threads, .cores = load->cores};
  if (const auto share = ready_share(facts)) cores.ready = compute * *share;
  if (const auto& queue = cluster.run_queue) {
    cores.recorded_ready = queue->ready;
    cores.recorded_step = queue->step;
  }
  return cores;
}

/// Of one sample what checkpointed units compute once more.
double repeated_flops(const Scenario& scenario) {
  double sum = 0;
  for (std::size_t unit = 0; unit < scenario.checkpointed.size(); ++unit)
    if (scenario.checkpointed[unit])
      for (const Operator& op : scenario.model.units[unit].operators)
        sum += op.forward_flops * seen_share(op);
  return sum;
}

void add_tokens(const Basis& basis, Report& report) {
  const auto tokens = static_cast<double>(basis.facts.scenario.model.tokens_per_sample);
  if (tokens == 0) return;
  report.tokens_per_s = report.samples_per_s * tokens;
  report.tokens_per_s_per_gpu = *report.tokens_per_s / basis.ranks;
}

/// FLOPs per second, and over the GPUs' peak; nothing where times are given or the model is a
/// profile's, for then the FLOPs of its operators are not known.
void add_flops(const Basis& basis, Report& report) {
  const Scenario& scenario = basis.facts.scenario;
  if (!report.architecture.flops_forward) return;
  const double flops = scenario.model.flops_per_sample();
  report.model_tflops_per_gpu = flops * report.samples_per_s / basis.ranks / 1e12;
  FlopsPerSecond peak;
  for (const RankId rank : basis.workers) {
    const Place& place = basis.facts.schedule.ranks[rank.index()].place;
    const Node& node = scenario.cluster.node(place.node);
    peak += peak_for(scenario.model, node.gpu, compute_precision(scenario));
  }
  peak *= basis.ranks / static_cast<double>(basis.workers.size());
  if (peak <= FlopsPerSecond(0)) return;
  const double seen = scenario.model.seen_flops_per_sample();
  report.mfu = seen * report.samples_per_s / peak.value();
  report.mfu_all_pairs = flops * report.samples_per_s / peak.value();
  report.hfu = (seen + repeated_flops(scenario)) * report.samples_per_s / peak.value();
}

/// Money, energy, failures and the start; returns what they rest on.
std::vector<std::string> add_costs(const Basis& basis, Report& report) {
  const Scenario& scenario = basis.facts.scenario;
  std::vector<std::string> lines;
  const Course course = course_of_run(basis.facts, report);
  report.energy = energy_report(basis, report, lines);
  report.goodput = goodput_report(basis.facts, report, course, lines);
  report.start = start_report(scenario, report, course);
  report.cost = cost_report(scenario, report, course, lines);
  return lines;
}

std::string unsteady_reason(const SteadyReport& steady) {
  return fmt::format(
      "steady state: not reached in {} ({:.1f} steps of the slowest worker): throughput to {:.1f} "
      "%, mean staleness to {:.2g}; more run.steps simulate more",
      format(steady.end), steady.slowest, 100 * steady.throughput_error, steady.staleness_error);
}

std::string outer_sgd(const OuterSgd& sgd) {
  return fmt::format("SGD of learning rate {:g} and {}momentum {:g}", sgd.learning_rate,
                     sgd.nesterov ? "Nesterov's " : "", sgd.momentum);
}

std::string outer_step_line(const ParameterServer& server) {
  return fmt::format(
      "outer step: the server makes one of {}; {}",
      server.staleness == 0U ? "the mean of a round's pseudo-gradients" : "each pseudo-gradient",
      outer_sgd(*server.outer));
}

std::string outer_step_line(const Strategy& strategy, const Cluster& cluster) {
  const LocalSgd& local = *strategy.local_sgd;
  const std::size_t replicas = replica_count(strategy, cluster);
  const std::string parts = local.fragments == 1
                                ? ""
                                : fmt::format(" in {} fragments, each beside {} steps",
                                              local.fragments, local.overlap_steps);
  return fmt::format("outer step: {} replicas of {} GPUs exchange pseudo-gradients{}; {}", replicas,
                     cluster.gpu_count() / replicas, parts, outer_sgd(*local.outer));
}

void add_assumptions(const Basis& basis, const std::vector<std::string>& costs, Report& report) {
  report.assumptions = basis.facts.scenario.assumptions;
  const auto add = [&](const std::string& assumption) {
    if (std::ranges::find(report.assumptions, assumption) == report.assumptions.end()) {
      report.assumptions.push_back(assumption);
    }
  };
  for (const std::string& assumption : basis.facts.assumptions) add(assumption);
  for (const std::string& assumption : costs) add(assumption);
  if (basis.steady)
    add(fmt::format("run.until = steady: until throughput and staleness are known to {:.0f} %",
                    100 * kSteadyPrecision));
  if (const int steps = local_steps(basis.facts.scenario.strategy); steps > 1)
    add(fmt::format("a step = {} local steps and what is exchanged after them", steps));
  if (basis.facts.synchronous_rate)
    add(fmt::format("strategy.ps.switch: {:.4g} samples/s in step, which the training's time has",
                    *basis.facts.synchronous_rate));
  if (const auto& local = basis.facts.scenario.strategy.local_sgd; local && local->outer)
    add(outer_step_line(basis.facts.scenario.strategy, basis.facts.scenario.cluster));
  if (const auto* server = server_in(basis.facts.scenario.strategy);
      server != nullptr && server->outer)
    add(outer_step_line(*server));
  if (report.memory && report.memory->context > Bytes(0)) {
    add(fmt::format("CUDA context and libraries outside the allocator = {}",
                    format(report.memory->context)));
  }
  if (report.memory && report.memory->communicators > Bytes(0)) {
    add(fmt::format("NCCL's buffers outside the allocator = {}",
                    format(report.memory->communicators)));
  }
}

/// Ranks' parts, each taken over its own iterations, as shares of the step.
Breakdown of_one_step(const Breakdown& parts, Seconds step) {
  const double scale = step / (parts.compute + parts.exposed_communication + parts.idle);
  return {.compute = parts.compute * scale,
          .exposed_communication = parts.exposed_communication * scale,
          .hidden_communication = parts.hidden_communication * scale,
          .idle = parts.idle * scale};
}

}  // namespace

std::optional<double> ready_share(const RunFacts& facts) {
  const std::vector<double>& shares = facts.trace.ready_share;
  if (shares.empty()) return std::nullopt;
  double sum = 0;
  int ranks = 0;
  for (std::size_t r = 0; r < facts.schedule.ranks.size(); ++r) {
    if (facts.schedule.ranks[r].place.gpu < 0) continue;
    sum += shares.at(r);
    ++ranks;
  }
  return sum / std::max(1, ranks);
}

ArchitectureReport architecture_of(const Model& model) {
  ArchitectureReport all{
      .family = model.family,
      .layers = model.layers > 0 ? model.layers : static_cast<std::int64_t>(model.units.size()),
      .parameters = model.parameters(),
      .active_parameters = model.active_parameters(),
      .trainable_parameters = model.trainable_parameters(),
      .flops_forward = std::nullopt};
  const auto given = [](const Unit& unit) { return unit.forward || unit.backward; };
  if (std::ranges::none_of(model.units, given) && model.forward_flops() > 0)
    all.flops_forward = model.forward_flops();
  return all;
}

Anatomy anatomy_of(const RunFacts& facts) {
  if (facts.anatomy != nullptr) return *facts.anatomy;
  return dissect(facts.schedule, facts.trace, basis_of(facts).iterations);
}

Report summarize(const RunFacts& facts) {
  const Basis basis = basis_of(facts);
  Report report;
  add_identity(basis, report);
  add_times(basis, report);
  add_other_jobs(facts, report);
  report.collectives = facts.collectives;
  report.compute = facts.compute;

  const Anatomy anatomy = anatomy_of(facts);
  report.breakdown = of_one_step(anatomy.breakdown, report.step_time);
  report.cores = cores_report(facts, report.breakdown.compute);
  report.gpu_utilization = anatomy.breakdown.compute / anatomy.step;
  add_tokens(basis, report);
  add_flops(basis, report);
  report.bottleneck = bottleneck_sentence(anatomy, basis.parameter_server);

  report.stages = stages_of(facts.schedule, facts.trace, basis.first, basis.last);
  report.memory = memory_report(facts);
  if (report.memory && facts.memory_mechanisms)
    report.memory_mechanisms = facts.memory_mechanisms(*report.memory);
  report.staleness = staleness_of(basis);
  add_steady_state(basis, report);
  report.accuracy = accuracy_of(basis, report);
  if (const auto& known = facts.scenario.convergence) report.accuracy_from = known->curves.subject;
  const std::optional<Layout>& layout = facts.scenario.strategy.layout;
  if (layout && layout->takes_even_routing()) report.routing_taken = "even";
  const Bytes communicators = report.memory ? report.memory->communicators : Bytes(0);
  if (auto all = acting(facts.scenario, communicators); !all.empty())
    report.acting = std::move(all);
  if (const auto& loss = facts.scenario.train.loss) report.loss = *loss;
  const std::vector<std::string> cost_lines = add_costs(basis, report);
  report.intervals = intervals_of(report, facts, sampling_of(basis));

  report.provenance = facts.provenance;
  report.outside_calibration = facts.outside_calibration;
  if (report.steady && !report.steady->reached)
    report.outside_calibration.push_back(unsteady_reason(*report.steady));
  if (report.accuracy) {
    for (const Doubt& doubt : report.accuracy->outside_calibration)
      report.outside_calibration.push_back("accuracy: " + doubt.text);
  }
  add_assumptions(basis, cost_lines, report);
  report.versions = facts.versions;
  report.versions["rehearse"] = REHEARSE_VERSION;
  return report;
}

}  // namespace rehearse::inline report
